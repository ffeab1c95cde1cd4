"""One pair among many: controls by layer, and the spread of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.figures._figure import Axis, Figure, Panel
from modelkin.figures._inputs import LAYER, Chance
from modelkin.figures._marks import Lines, ReferenceLine
from modelkin.figures._style import EXPECTATION, Style, Styles, complete
from modelkin.figures._values import Numbers, Series, mean, numbers, spread

GONE = Style(tone="muted", marker="X", dash="dotted")


def layer_range(
    layers: Series,
    pairs: Mapping[str, Series],
    *,
    measure: str,
    expected: Series | None = None,
    highlight: str | None = None,
    chance: Chance | None = None,
) -> Figure:
    """Draw the mean of many pairs by layer with their spread, and every pair as a thin line."""
    x = numbers(layers)
    columns = list(zip(*(numbers(values) for values in pairs.values()), strict=True))
    centre = [mean(column) for column in columns]
    width = [spread(column) for column in columns]
    ends = [
        (None, None) if m is None or s is None else (m - s, m + s) for m, s in zip(centre, width, strict=True)
    ]
    marks: list[Lines | ReferenceLine] = [
        Lines(name=pair, x=x, y=numbers(values), style=Style(tone="muted"), thin=True)
        for pair, values in pairs.items()
        if pair != highlight
    ]
    marks.append(
        Lines(
            name=f"mean ± standard deviation of {len(pairs)} pairs",
            x=x,
            y=tuple(centre),
            low=tuple(low for low, _ in ends),
            high=tuple(high for _, high in ends),
            style=Style(tone="blue", marker="o"),
        )
    )
    if highlight is not None:
        line = Lines(name=highlight, x=x, y=numbers(pairs[highlight]), style=Style(tone="orange", marker="s"))
        marks.append(line)
    if expected is not None:
        name = "expected if shuffled, mean of pairs"
        marks.append(Lines(name=name, x=x, y=numbers(expected), style=EXPECTATION, role="expectation"))
    if chance is not None:
        marks.append(chance.mark(x))
    panel = Panel(title="", marks=tuple(marks), x=LAYER, y=Axis(label=measure), height=3.2)
    return Figure(
        title=f"{measure} of {len(pairs)} pairs by layer",
        panels=(panel,),
        note="Thin: single pairs. Pairs share models, so the band is no standard error.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCurves:
    """The pair in question and its controls; a control that could not be had is its reason."""

    layers: Numbers
    main: Numbers
    controls: Mapping[str, Numbers | str]
    expected: Numbers = ()
    chance: Chance | None = None


def with_controls(
    kinds: Mapping[str, ControlCurves], *, main: str, measure: str, styles: Styles | None = None
) -> Figure:
    """Draw the pair in question beside its controls; what is missing is shown as missing."""
    every = dict.fromkeys([main, *(name for item in kinds.values() for name in item.controls)])
    chosen = complete(styles, every)
    return Figure(
        title=f"{main} against controls",
        panels=tuple(_control_panel(kind, item, main, measure, chosen) for kind, item in kinds.items()),
        columns=2,
        note="A measure speaks for a common origin only where it exceeds unrelated controls.",
    )


def _control_panel(kind: str, item: ControlCurves, main: str, measure: str, styles: Styles) -> Panel:
    there = {name: curve for name, curve in item.controls.items() if not isinstance(curve, str)}
    gone = {name: reason for name, reason in item.controls.items() if isinstance(reason, str)}
    marks: list[Lines | ReferenceLine] = []
    if item.expected:
        marks.append(
            Lines(
                name="expected if shuffled",
                x=item.layers,
                y=item.expected,
                style=EXPECTATION,
                role="expectation",
            )
        )
    if item.chance:
        marks.append(item.chance.mark(item.layers))
    marks += [Lines(name=name, x=item.layers, y=curve, style=styles[name]) for name, curve in there.items()]
    marks.append(Lines(name=main, x=item.layers, y=item.main, style=styles[main]))
    # An empty curve: the control stands in the legend and in the alt text, and nothing is drawn for it.
    marks += [
        Lines(name=f"{name}: missing ({reason})", x=item.layers, y=(None,) * len(item.layers), style=GONE)
        for name, reason in gone.items()
    ]
    without = "" if item.expected or item.chance or not there else "the controls stand for chance"
    if not (item.expected or item.chance or there):
        without = "no control could be had; the curve cannot be judged"
    return Panel(title=kind, marks=tuple(marks), x=LAYER, y=Axis(label=measure), without_null=without)
