"""Many models at one layer, and layers within models: each number next to what chance would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from modelkin import figures as fig
from modelkin.errors import UsageError
from modelkin.message import Message, joined, phrase, say

from .pairs import layer_range
from .parts import BLUE, COSINE, RAW, Curve, Curves, bars, expected_bars

_WRITTEN = 10
"""Matrices with more rows than this have no numbers in their cells: they could not be read."""
_BARS_BESIDE = 3
"""More models than this have no room for two numbered bars each, side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """Models, or layers of one model, against each other."""

    names: Sequence[str]
    values: fig.Matrix
    expected: fig.Matrix | None = None

    def map(self, values: fig.Matrix, scale: fig.Scale, digits: int | None, without: str = RAW) -> fig.Panel:
        """Draw it in colours, with numbers if there is room for them."""
        few = len(self.names) <= _WRITTEN
        heat = fig.HeatMap(
            values=fig.grid(values),
            rows=fig.words(self.names),
            columns=fig.words(self.names),
            scale=scale,
            digits=digits if few else None,
            expected=fig.grid(self.expected) if self.expected is not None and few else (),
        )
        return fig.Panel(title="", marks=(heat,), without_null="" if fig.shows_chance(heat) else without)


def confusion(
    squares: Mapping[str, Square],
    *,
    measure: str,
    where: str,
    signed: bool = True,
    chance: float | None = 0.0,
    refused: Mapping[str, Message] | None = None,
) -> fig.Figure:
    """Models against models at a layer, or layers of one model against each other, for each role.

    `where` says what is compared, such as ``layer 10`` or ``within GLM``. The scale of a measure that is not
    `signed`, a distance, starts at zero. `chance` is None if it depends on the vectors, as for a raw cosine;
    what is expected of each cell is written into it. `refused` are tensors for which the measure makes no
    sense, with the reason.
    """
    if not squares:
        raise UsageError(where, say("problem.one-matrix"))
    panels, alone = [], False
    for tensor, square in squares.items():
        values, several = fig.array(square.values).copy(), len(square.names) > 1
        trivial = (np.eye(*values.shape) > 0) & np.isclose(values, 1.0 if signed else 0.0, atol=1e-9)
        alone |= bool(trivial.any()) and several
        if several:
            values[trivial] = np.nan
        level = chance if signed and square.expected is None else None
        if level is not None:
            scale = fig.Scale(kind="signed", low=level - 1, high=level + 1, label=measure, chance=level)
        else:
            scale = fig.sequential_scale(values.ravel(), label=measure, low=None if signed else 0.0)
        panel = square.map(values, scale, 3, RAW if signed else phrase("catalogue.distance"))
        panels.append(replace(panel, title=tensor, height=2.6))
    told = [say("catalogue.with-itself")] if alone else []
    if refused:
        told.append(joined(say("catalogue.left-out", name=name, reason=why) for name, why in refused.items()))
    return fig.Figure(
        title=phrase("catalogue.measure-where", measure=measure, where=where),
        panels=tuple(panels),
        columns=min(4, len(panels)),
        note=phrase("sentences", said=tuple(told)) if told else "",
    )


def model_matrix(
    square: Square,
    *,
    measure: str,
    title: str,
    groups: Sequence[str] = (),
    related: Sequence[tuple[str, str]] = (),
    digits: int = 2,
) -> fig.Figure:
    """Models against models at one layer, what exceeds the expectation, known relatives marked.

    Models of one of the `groups` are adjacent, with lines between groups. Pairs known to be `related` are
    marked, so that nobody takes them for a baseline.
    """
    kept = list(range(len(square.names)))
    if groups:
        kept.sort(key=lambda i: list(groups).index(groups[i]))
    shown = [square.names[i] for i in kept]
    breaks = tuple(j for j in range(1, len(kept)) if groups and groups[kept[j]] != groups[kept[j - 1]])
    place = {name: i for i, name in enumerate(shown)}
    path = tuple(cell for a, b in related for cell in ((place[a], place[b]), (place[b], place[a])))
    data = fig.array(square.values)[np.ix_(kept, kept)]
    chance = None if square.expected is None else fig.array(square.expected)[np.ix_(kept, kept)]

    def panel(
        name: str, values: fig.Matrix, expected: fig.Matrix | None, scale: fig.Scale, n: int
    ) -> fig.Panel:
        drawn = Square(names=shown, values=values, expected=expected).map(values, scale, n)
        (heat,) = drawn.marks
        marked = phrase("catalogue.known-relatives")
        return replace(
            drawn,
            title=name,
            marks=(replace(heat, path=path, path_name=marked, separators=breaks),),
            height=3.4,
        )

    panels = [panel(measure, data, chance, fig.sequential_scale(data.ravel(), label=measure), digits)]
    if chance is not None:
        excess = np.where(np.eye(len(kept)) > 0, np.nan, data - chance)
        minus = phrase("catalogue.minus-expectation", measure=measure)
        expectation = phrase("catalogue.expected-short")
        scale = fig.signed_scale(excess.ravel(), label=minus, chance_label=expectation)
        panels.append(panel(minus, excess, None, scale, fig.digits_for(fig.numbers(excess.ravel()))))
    kinds = tuple(dict.fromkeys(groups))
    return fig.Figure(
        title=title,
        panels=tuple(panels),
        columns=len(panels),
        note=phrase("catalogue.groups-in-order", groups=kinds) if kinds else "",
    )


def layer_pairs(
    labels: Sequence[str], models: Curves, *, title: str, zoom: bool = False, styles: fig.Styles | None = None
) -> fig.Figure:
    """Cosines of layers within each model, each with its expectation.

    With `zoom`, or more than three models, they are points, since bars must start at zero.
    """
    tones = {model: style.tone for model, style in fig.complete(styles, models).items()}
    marks: list[fig.Mark] = []
    series: list[fig.BarSeries] = []
    for i, (model, item) in enumerate(models.items()):
        name, step = phrase("catalogue.expected-of", name=model), min(0.16, 0.7 / len(models))
        x = [place + step * (i - (len(models) - 1) / 2) for place in range(len(labels))]
        cross, dot = (fig.Style(tone=tones[model], marker=marker) for marker in ("X", "o"))
        marks.append(_points(name, x, item.expected, cross, "expectation"))
        marks.append(_points(model, x, item.values, dot))
        series.append(bars(model, item.values, tones[model]))
        series.append(expected_bars(name, item.expected, fig.Style(tone=tones[model], dash="dashed")))
    if zoom or len(models) > _BARS_BESIDE:
        axis = _places(labels)
    else:
        marks, axis = [fig.Bars(labels=tuple(labels), series=tuple(series), digits=3)], fig.Axis()
    return fig.Figure(
        title=title,
        panels=(fig.Panel(title="", marks=tuple(marks), x=axis, y=fig.Axis(label=COSINE), height=3.0),),
        note=phrase("catalogue.layer-pairs-note"),
    )


def _points(
    name: str, x: fig.Series, y: fig.Series, style: fig.Style, role: fig.Role = "data"
) -> fig.Scatter:
    return fig.Scatter(name=name, x=fig.numbers(x), y=fig.numbers(y), style=style, role=role)


def _places(labels: Sequence[str]) -> fig.Axis:
    ticks = tuple((float(place), label) for place, label in enumerate(labels))
    return fig.Axis(ticks=ticks, low=-0.5, high=len(labels) - 0.5)


def group_means(groups: Curves, *, measure: str) -> fig.Figure:
    """Every pair within and between groups of models at one layer, means, and means of what is expected."""
    diamond, cross = fig.Style(tone="orange", marker="D"), fig.Style(tone="ink", marker="X")
    marks: list[fig.Mark] = []
    labels = []
    for place, (group, pairs) in enumerate(groups.items()):
        mean, middle = fig.mean(pairs.values), (float(place),)
        count = len(fig.known(pairs.values))
        labels.append(phrase("catalogue.group", group=group, count=count, mean=fig.brief(mean)))
        x = [place + 0.24 * ((i * 0.618034) % 1.0 - 0.5) for i in range(len(pairs.values))]
        expected = phrase("catalogue.mean-expected")
        marks += [
            _points(phrase("catalogue.one-value"), x, pairs.values, BLUE),
            _points(phrase("catalogue.mean"), middle, (mean,), diamond),
            _points(expected, middle, (fig.mean(pairs.expected),), cross, "expectation"),
        ]
    y = fig.Axis(label=measure)
    return fig.Figure(
        title=phrase("catalogue.by-group", measure=measure),
        panels=(fig.Panel(title="", marks=tuple(marks), x=_places(labels), y=y, height=3.0),),
        note=phrase("catalogue.group-note"),
    )


class CosineAndPearson(NamedTuple):
    """One comparison."""

    cosine: float | None
    pearson: float | None
    expected: float | None = None
    """Of the cosine."""


def measure_comparison(panels: Mapping[str, Mapping[str, CosineAndPearson]]) -> fig.Figure:
    """Cosines, expectations and correlations of pairs, of layers within models, and of drawn vectors."""
    drawn = []
    for title, items in panels.items():
        cosines, correlations, chance = zip(*items.values(), strict=True)
        series = (
            bars(COSINE, cosines),
            expected_bars(phrase("catalogue.cosine-expected"), chance),
            bars(phrase("catalogue.correlation-pearson"), correlations, "orange"),
        )
        zero = phrase("catalogue.correlation-by-chance")
        null = fig.ReferenceLine(value=0.0, axis="x", label=zero, style=fig.NULL)
        marks = (null, fig.Bars(labels=tuple(items), digits=2, series=series, horizontal=True))
        # Room for the numbers at the ends of bars, on both sides.
        found = fig.known(value for bar in series for value in bar.values)
        low, high = min([0.0, *found]) - 0.12, max([1.0, *found]) + 0.18
        x = fig.Axis(label=phrase("catalogue.similarity"), low=low, high=high)
        drawn.append(fig.Panel(title=title, marks=marks, x=x))
    return fig.Figure(title=phrase("catalogue.measure-comparison"), panels=tuple(drawn), columns=2)


def experiments_summary(
    within: tuple[Sequence[str], Curves], models: Square, pairs: Curves, groups: Curves
) -> fig.Figure:
    """Layers within models, models at one layer, pairs by layer, and groups, in one figure."""
    parts = {
        phrase("catalogue.of-one-model"): layer_pairs(*within, title=""),
        phrase("catalogue.of-models"): model_matrix(models, measure=COSINE, title=""),
        phrase("catalogue.of-layers"): layer_range(pairs, measure="cosine"),
        phrase("catalogue.of-groups"): group_means(groups, measure=COSINE),
    }
    panels = tuple(
        replace(part.panels[0], title=title, note=part.note, height=3.1) for title, part in parts.items()
    )
    return fig.Figure(title=phrase("catalogue.baselines"), panels=panels, columns=2)


def group_of(pairs: Sequence[tuple[float | None, float | None]]) -> Curve:
    """Return a group of values with their expectations."""
    values, expected = zip(*pairs, strict=True)
    return Curve(layers=(), values=values, expected=expected)
