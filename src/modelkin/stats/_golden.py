"""The lowest point of a function that falls and then rises: golden sections."""

from __future__ import annotations

import math
from collections.abc import Callable

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0  # each section is this share of the one before


def golden_section(
    height: Callable[[float], float], low: float, high: float, *, steps: int
) -> tuple[float, float]:
    """Return approximately where a function is lowest between two points, and the lowest value seen.

    >>> at, value = golden_section(lambda x: (x - 2.0) ** 2, 0.0, 5.0, steps=40)
    >>> round(at, 6), round(value, 6)
    (2.0, 0.0)
    """
    inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_inner, at_outer = height(inner), height(outer)
    for _ in range(steps):
        if at_inner < at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - _GOLDEN * (high - low)
            at_inner = height(inner)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + _GOLDEN * (high - low)
            at_outer = height(outer)
    return 0.5 * (low + high), min(at_inner, at_outer)
