"""Scale and pattern of gains along the layers: how they grow, and what a number format leaves of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from modelkin import figures as fig
from modelkin.message import phrase

from ._parts import UNTRAINED, by_layer, level, line


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleCurves:
    """A norm of each layer of a model: its length, where it points, and what rounding adds to its pattern."""

    layers: fig.Numbers
    length: fig.Numbers
    rho: fig.Numbers
    """Share of the length along equal values: 1 if all are equal."""
    lost: fig.Numbers
    """Variance of rounding over variance of the gains, stored as they are."""
    lost_minus_one: fig.Numbers
    """The same for their differences from one."""
    n: int


def scale_and_pattern(
    models: Mapping[str, ScaleCurves], *, what: str, number_format: str, styles: fig.Styles | None = None
) -> fig.Figure:
    """Draw how gains grow with depth, how much of them is a common scale, and what rounding destroys."""
    chosen = fig.complete(styles, models)
    widths = {item.n for item in models.values()}
    start = [level(math.sqrt(n), phrase("catalogue.untrained-values", count=n)) for n in sorted(widths)]
    lengths = [line(name, item.layers, item.length, chosen[name]) for name, item in models.items()]
    shares = [line(name, item.layers, item.rho, chosen[name]) for name, item in models.items()]
    lost: list[fig.Mark] = []
    for name, item in models.items():
        apart = fig.Style(tone=chosen[name].tone, dash="dotted")
        lost.append(line(name, item.layers, item.lost, chosen[name]))
        lost.append(
            line(phrase("catalogue.distance-stored", name=name), item.layers, item.lost_minus_one, apart)
        )
    panels = (
        by_layer(phrase("catalogue.length-of-gains"), (*start, *lengths), phrase("catalogue.length")),
        by_layer(phrase("catalogue.common-scale"), (level(1.0, UNTRAINED), *shares), "rho"),
        by_layer(
            phrase("catalogue.rounding-share", format=number_format),
            lost,
            fig.Axis(label=phrase("catalogue.rounding-variance"), kind="log"),
            without_null=phrase("catalogue.rounding-no-chance"),
        ),
    )
    return fig.Figure(
        title=phrase("catalogue.scale-and-pattern", what=what),
        panels=panels,
        columns=3,
        note=phrase("catalogue.scale-note", single=phrase("catalogue.single-models")),
    )
