"""What figures share: chance as a value or a curve, bins, and names of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.errors import UsageError
from modelkin.message import phrase, say

from ._style import NULL, Style
from .marks import Histogram, Lines, ReferenceLine, Role
from .values import Numbers, Series, known, numbers

WITHIN = 1.96
"""A normal value lies within this many standard deviations in 95 % of cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """What a measure is by chance: one value or one per layer, with a range if known."""

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
    vary more, because few dimensions can carry much of the variance: compare with controls too.
    """
    if n < 3:
        raise UsageError("pearson_chance", say("problem.three-values", n=n))
    reach = WITHIN / math.sqrt(n - 1)
    return Chance(label=phrase("figure.pearson_chance", reach=reach, n=n), value=0.0, low=-reach, high=reach)


def edges_of(samples: Iterable[Series], bins: int = 40, limits: tuple[float, float] | None = None) -> Numbers:
    """Place bins over all samples, so that nothing falls outside unless limits are given."""
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


def words(values: Sequence[object]) -> tuple[str, ...]:
    """Write names of rows and columns."""
    return tuple(str(value) for value in values)
