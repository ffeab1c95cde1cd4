"""The layer map: kinds of tensors down, layers across, one picture for each measure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from modelkin.comparison import Comparison
from modelkin.document.language import Language
from modelkin.document.views.states import layer_states

from .markup import Html, element, joined
from .scales import MEASURES, LayerMeasure, colour, short
from .series import Series, n_layers, point_note

_ROW = 26
_LABEL_LETTER = 7.2
_MOST_LETTERS = 30
_WIDTH = 900


def layer_map(result: Comparison, series: tuple[Series, ...], language: Language) -> Html:
    """Draw all pictures; the page shows one of them."""
    panels = [_panel("shared", _states(result, language), result, language, hidden=False)]
    for measure in MEASURES.values():
        rows = [(item.name, item.name, _values(item, measure, language)) for item in series]
        if any(marks for _, _, marks in rows):
            panels.append(_panel(measure.key, rows, result, language, hidden=True))
    return joined(panels)


_Rows = list[tuple[str, str, list[tuple[int, str, str]]]]
"""Label, series (or nothing), and for each layer: layer, paint, note."""


def _states(result: Comparison, language: Language) -> _Rows:
    rows: _Rows = []
    for name, states in layer_states(result).items():
        label = language.word("component", name)
        marks: list[tuple[int, str, str]] = [
            (layer, state, f"{label}, {language.say('word.layer')} {layer}: {language.say(f'state.{state}')}")
            for layer, state in states.items()
        ]
        rows.append((label, "", marks))
    return rows


def _values(item: Series, measure: LayerMeasure, language: Language) -> list[tuple[int, str, str]]:
    marks = []
    for layer, tests in item.tests.items():
        value = measure.value(tests[0])
        if value is not None:
            note = f"{short(value)}: {point_note(item, layer, language)}"
            marks.append((layer, colour(measure.level(value)), note))
    return marks


def _panel(key: str, rows: _Rows, result: Comparison, language: Language, *, hidden: bool) -> Html:
    measure = MEASURES.get(key)
    legend = _state_legend(language) if measure is None else step_legend(measure, language, _paints(rows))
    return element(
        "div",
        element("div", _picture(key, rows, result, language), class_="scroll"),
        legend,
        class_="panel",
        data_measure=key,
        hidden=hidden,
    )


def _paints(rows: _Rows) -> set[str]:
    return {paint for _, _, marks in rows for _, paint, _ in marks}


def _picture(key: str, rows: _Rows, result: Comparison, language: Language) -> Html:
    count = n_layers(result)
    left = 12 + _LABEL_LETTER * min(_MOST_LETTERS, max([_letters(label) for label, _, _ in rows], default=0))
    cell = max(9.0, min(46.0, (_WIDTH - left) / max(1, count)))
    height = len(rows) * _ROW + 24
    width = left + cell * count + 4
    parts = list(_layer_numbers(count, left, cell, len(rows) * _ROW + 16))
    for row, (label, name, marks) in enumerate(rows):
        tested = {layer for layer, _, _ in marks}
        shown = label if _letters(label) <= _MOST_LETTERS else label[: _MOST_LETTERS - 1] + "…"
        inside = [
            element("text", shown, x=left - 8, y=row * _ROW + 17, text_anchor="end", class_="row-name"),
            *(
                _cell(row, layer, left, cell, paint="untested")
                for layer in range(count)
                if layer not in tested
            ),
            *(_cell(row, layer, left, cell, paint=paint, note=note) for layer, paint, note in marks),
        ]
        parts.append(element("g", *inside, data_series=name or None))
    label = f"{language.say('title.layer_map')}: {language.say(f'measure.{key}')}"
    return element(
        "svg",
        *parts,
        class_="probe layer-map",
        viewBox=f"0 0 {width:.0f} {height}",
        width=width,
        height=height,
        role="img",
        tabindex=0,
        aria_label=label,
    )


def _letters(text: str) -> float:
    """Count letters by width: a Korean one is nearly as wide as two."""
    return sum(1.8 if ord(letter) > 0x1100 else 1.0 for letter in text)


def _cell(row: int, layer: int, left: float, cell: float, *, paint: str, note: str | None = None) -> Html:
    return element(
        "rect",
        *([element("title", note)] if note else []),
        x=left + layer * cell + 1,
        y=row * _ROW + 2,
        width=cell - 2,
        height=_ROW - 4,
        rx=2,
        class_=f"cell {paint}",
        data_note=note,
        data_x=layer if note else None,
        data_y=row if note else None,
    )


def _layer_numbers(count: int, left: float, cell: float, y: float) -> Iterator[Html]:
    every = next(step for step in (1, 2, 4, 5, 10, 20, 50, 100, 1000) if cell * step >= 22)
    for layer in range(0, count, every):
        yield element(
            "text", str(layer), x=left + (layer + 0.5) * cell, y=y, text_anchor="middle", class_="tick"
        )


def _state_legend(language: Language) -> Html:
    names = {
        "shared": "shared",
        "together": "together",
        "not_shared": "not_shared",
        "untested": "not_tested",
    }
    return legend((paint, language.say(f"state.{key}")) for paint, key in names.items())


def step_legend(measure: LayerMeasure, language: Language, paints: Iterable[str]) -> Html:
    """Say at which values the colour changes; colours below chance only if they occur."""
    steps = [f"{step:g}" for step in measure.steps]
    items = []
    if any(paint.startswith("n") and paint != "n0" for paint in paints):
        items += [(f"n{level}", f"≤ -{steps[level - 1]}") for level in range(len(steps), 0, -1)]
    items += [("p0", f"{language.say('text.chance')}: ±{steps[0]}")]
    items += [(f"p{level}", f"≥ {steps[level - 1]}") for level in range(1, len(steps) + 1)]
    return legend([*items, ("untested", language.say("state.not_tested"))])


def legend(items: Iterable[tuple[str, str]]) -> Html:
    """Say what colours stand for."""
    return element(
        "ul",
        *(
            element(
                "li",
                element(
                    "svg",
                    element("rect", x=0.5, y=0.5, width=13, height=13, rx=2, class_=f"cell {paint}"),
                    width=14,
                    height=14,
                    aria_hidden="true",
                ),
                text,
            )
            for paint, text in items
        ),
        class_="legend",
    )
