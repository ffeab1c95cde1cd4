"""Alt text of figures, made from their data: what is drawn, its range, and what chance gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modelkin.message import Phrase

from . import marks
from ._figure import Animation, Figure, Panel
from ._text import readable
from .clipping import remarks
from .values import Numbers, brief, known, mean

if TYPE_CHECKING:
    from modelkin.document import Language

_MANY = 12
"""More bars than this are told by their range."""


def alt_of(made: Figure | Animation, language: Language) -> str:
    """Return the alt text of a figure in a language; that of an animation tells its first and last frame."""
    if isinstance(made, Animation):
        first, last = (alt_of(made.frames[place], language) for place in (0, -1))
        return language.say("alt.from_to", first=first, last=last)
    given = language.code == "en" or isinstance(made.alt, Phrase)
    return language.wording(made.alt) if given else alt_text(made, language)


def alt_text(figure: Figure, language: Language) -> str:
    """Describe a figure in sentences."""
    title = language.wording(figure.title)
    return readable(
        " ".join([f"{title.rstrip('.')}.", *(_panel(panel, language) for panel in figure.panels)])
    )


def _panel(panel: Panel, language: Language) -> str:
    parts = [part for mark in panel.marks for part in _mark(mark, language)]
    head = f"{language.wording(panel.title)}: " if panel.title else ""
    body = "; ".join(parts)
    return " ".join([f"{head}{body.rstrip('.')}.", *remarks(panel, language)])


def _range(values: Numbers, language: Language) -> str:
    found = known(values)
    if not found:
        return language.say("alt.nothing")
    return language.say("alt.range", low=brief(min(found)), high=brief(max(found)), mean=brief(mean(found)))


def _mark(mark: marks.Mark, language: Language) -> Iterator[str]:  # noqa: C901  one case for each mark
    say, word = language.of("alt"), language.wording
    match mark:
        case marks.Lines():
            kind = say(f"line_{mark.role}")
            yield say("curve", name=word(mark.name), kind=kind, range=_range(mark.y, language))
        case marks.Bars():
            for bars in mark.series:
                if len(mark.labels) > _MANY:
                    yield say("bars", name=word(bars.name), range=_range(bars.values, language))
                else:
                    pairs = [
                        (word(label), brief(value) if value is not None else word(bars.missing))
                        for label, value in zip(mark.labels, bars.values, strict=True)
                        if value is not None or bars.missing
                    ]
                    yield f"{word(bars.name)}: {', '.join(' '.join(pair) for pair in pairs)}"
        case marks.HeatMap():
            yield ", ".join(_matrix(mark, language))
        case marks.Histogram():
            kind, count = say(f"histogram_{mark.role}"), f"{sum(known(mark.counts)):.0f}"
            yield say("histogram", name=word(mark.name), kind=kind, count=count)
        case marks.Scatter():
            told = _range(mark.y, language)
            yield say("points", name=word(mark.name), count=str(len(mark.x)), range=told)
        case marks.Ridges():
            yield say("densities", name=word(mark.name), count=str(len(mark.rows)))
        case marks.Intervals():
            for label, value, low, high in zip(mark.labels, mark.values, mark.low, mark.high, strict=True):
                ends = {"low": brief(low), "high": brief(high)}
                told = word(brief(value)) if low is None else say("interval", value=brief(value), **ends)
                yield f"{word(label)} {told}"
        case marks.ReferenceLine():
            kind = say(f"line_{mark.role}")
            yield say("level", kind=kind, label=word(mark.label), value=brief(mark.value))
        case marks.Trajectory3D():
            yield say("path", name=word(mark.name), count=str(len(mark.points)))
        case marks.Arrow3D():
            yield say("arrow", name=word(mark.name), tip=", ".join(brief(value) for value in mark.tip))
        case marks.Plane3D():
            yield word(mark.name)
        case marks.TextMark():
            yield word(mark.text).replace("\n", " ")
        case marks.TableMark():
            yield say("table", count=str(len(mark.rows)), columns=", ".join(map(word, mark.columns)))


def _matrix(mark: marks.HeatMap, language: Language) -> Iterator[str]:
    say, word, scale = language.of("alt"), language.wording, mark.scale
    cells = tuple(value for row in mark.values for value in row)
    size = {"rows": str(len(mark.values)), "columns": str(len(mark.columns))}
    yield say("matrix", label=word(scale.label), range=_range(cells, language), **size)
    if mark.path:
        on_path = tuple(mark.values[row][column] for row, column in mark.path)
        yield say("on_path", path=word(mark.path_name) or say("marked"), mean=word(brief(mean(on_path))))
    if scale.chance is not None:
        yield f"{word(scale.chance_label)} {brief(scale.chance)}"
