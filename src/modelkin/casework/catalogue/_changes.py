"""What differs between two models that are almost equal: how many values, and by how much."""

from __future__ import annotations

from modelkin.figures._figure import Axis, Figure, Panel
from modelkin.figures._inputs import LAYER, at_zero, words
from modelkin.figures._marks import Bars, BarSeries, Lines
from modelkin.figures._style import NULL, Style
from modelkin.figures._values import Series, numbers


def changed_values(
    layers: Series,
    changed: Series,
    mean_difference: Series,
    mean_ulps: Series,
    *,
    one_ulp: Series,
    names: tuple[str, str],
    what: str,
) -> Figure:
    """Draw by layer the share of changed values, their mean change, and the change in steps of the format.

    Parameters
    ----------
    changed
        Per cent of the values that differ.
    mean_difference
        Mean absolute difference of all values; where nothing differs it is 0, and not drawn on the log axis.
    mean_ulps
        Mean change of the values that differ, in units in the last place.
    one_ulp
        Size of one step at the typical value of the layer. A change below it cannot be stored.
    """
    x = numbers(layers)
    shares = BarSeries(name="changed", values=numbers(changed), style=Style(tone="blue"))
    size = numbers(value if value else None for value in numbers(mean_difference))
    zeros = sum(value == 0 for value in numbers(mean_difference))
    panels = (
        Panel(
            title="Changed values",
            marks=(
                at_zero("equal models"),
                Bars(labels=words([int(v or 0) for v in x]), series=(shares,), slim=True),
            ),
            x=LAYER,
            y=Axis(label="% of values"),
        ),
        Panel(
            title="Mean difference",
            marks=(
                Lines(name="one step of the format", x=x, y=numbers(one_ulp), style=NULL, role="expectation"),
                Lines(name="mean |difference|", x=x, y=size, style=Style(tone="blue", marker="o")),
            ),
            x=LAYER,
            y=Axis(label="mean |difference|", kind="log"),
            note=f"{zeros} layers without any difference are not on the log axis" if zeros else "",
        ),
        Panel(
            title="Change in steps",
            marks=(
                Lines(name="one step of the format", x=x, y=(1.0,) * len(x), style=NULL, role="expectation"),
                Lines(
                    name="mean change of changed values",
                    x=x,
                    y=numbers(mean_ulps),
                    style=Style(tone="orange", marker="s"),
                ),
            ),
            x=LAYER,
            y=Axis(label="units in the last place", low=0.0),
        ),
    )
    return Figure(
        title=f"{what}: what differs between {names[0]} and {names[1]}",
        panels=panels,
        columns=3,
        note=(
            "Large values are stored in large steps, and small changes of them are rounded away: "
            "a smaller share of changed values does not show where training acted."
        ),
    )
