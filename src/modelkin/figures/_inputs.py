"""What figures are made of: chance as a value or a curve, and small pieces that many figures share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.errors import UsageError
from modelkin.figures._figure import Axis
from modelkin.figures._marks import Histogram, Lines, ReferenceLine, Role, Text
from modelkin.figures._style import EXPECTATION, NULL, Dash, Style, Styles, complete
from modelkin.figures._values import Numbers, Series, known, numbers

LAYER = Axis(label="layer")
_EXPECTED_DASHES: tuple[Dash, ...] = ("dashed", "dotted", "dashdot")
WITHIN = 1.96
"""A normal value lies within so many standard deviations in 95 % of cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """What a measure is by chance: one value or one for each layer, with a range if known."""

    label: str
    value: float | Numbers
    low: float | Numbers | None = None
    high: float | Numbers | None = None

    def mark(self, x: Numbers) -> Lines | ReferenceLine:
        """Draw it across the panel, or along the layers."""
        if isinstance(self.value, tuple):
            low, high = (side if isinstance(side, tuple) else () for side in (self.low, self.high))
            return Lines(name=self.label, x=x, y=self.value, low=low, high=high, style=NULL, role="null")
        low_, high_ = (side if isinstance(side, float) else None for side in (self.low, self.high))
        return ReferenceLine(value=self.value, label=self.label, low=low_, high=high_)


def pearson_chance(n: int) -> Chance:
    """Range of a correlation of `n` values if the order of one side is arbitrary.

    Its standard deviation over all orders is exactly ``1 / sqrt(n - 1)``. Real vectors of unrelated models
    scatter more, because few dimensions can carry much of the variance: compare with controls too.
    """
    if n < 3:
        raise UsageError("pearson_chance", f"expected at least 3 values, got {n}")
    reach = WITHIN / math.sqrt(n - 1)
    return Chance(
        label=f"chance: 0 ± {reach:.3f} (95 % of shuffles, n = {n})", value=0.0, low=-reach, high=reach
    )


def drawn_curves(
    layers: Series,
    curves: Mapping[str, Series],
    styles: Styles | None = None,
    *,
    expected: Mapping[str, Series] | None = None,
    expected_name: str = "expected if shuffled",
) -> tuple[Lines, ...]:
    """Draw curves over layers, each with its expectation: dark, since it may run along the curve."""
    x = numbers(layers)
    chosen = complete(styles, curves)
    expected = expected or {}
    unknown = expected.keys() - curves.keys()
    if unknown:
        raise UsageError("figure", f"expected values for curves that are not drawn: {sorted(unknown)}")
    return (
        *(
            Lines(
                name=f"{name}: {expected_name}",
                x=x,
                y=numbers(values),
                style=Style(tone="ink", dash=_EXPECTED_DASHES[i % len(_EXPECTED_DASHES)]),
                role="expectation",
            )
            for i, (name, values) in enumerate(expected.items())
        ),
        *(Lines(name=name, x=x, y=numbers(values), style=chosen[name]) for name, values in curves.items()),
    )


def edges_of(samples: Iterable[Series], bins: int = 40, limits: tuple[float, float] | None = None) -> Numbers:
    """Place bins over all samples, so that nothing falls outside unless limits are asked for."""
    found = [value for sample in samples for value in known(numbers(sample))]
    low, high = limits or (min(found, default=0.0), max(found, default=1.0))
    if low == high:
        low, high = low - 0.5, high + 0.5
    return numbers(np.linspace(low, high, bins + 1))


def binned(name: str, values: Series, edges: Numbers, style: Style, role: Role = "data") -> Histogram:
    """Count values between edges, and those outside."""
    found = np.array(known(numbers(values)))
    borders = np.array(edges, dtype=float)
    counts, _ = np.histogram(found, borders)
    return Histogram(
        name=name,
        edges=edges,
        counts=numbers(counts),
        below=int((found < borders[0]).sum()),
        above=int((found > borders[-1]).sum()),
        style=style,
        role=role,
    )


def at_zero(label: str) -> ReferenceLine:
    """Draw the line of an expectation of zero."""
    return ReferenceLine(value=0.0, label=label, role="expectation", style=EXPECTATION)


def absent(what: str, reason: str) -> Text:
    """Say in place of data why there is none."""
    return Text(text=f"{what}: not measured ({reason})")


def words(values: Sequence[object]) -> tuple[str, ...]:
    """Write names of rows and columns."""
    return tuple(str(value) for value in values)
