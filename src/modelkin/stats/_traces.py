"""The test on an axis for small blocks that are all available at once, alone or several added up.

A fingerprint keeps blocks of a few units and features. For two centred blocks a and b of n units the trace
T of D = a b' has mean 0 over all n! orders and variance ``|D|^2 / (n - 1) = <a'a, b'b> / (n - 1)``, exactly.
Blocks whose units are ordered independently of each other add up: traces, variances, and the exponents of
the tail bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._golden import golden_section
from ._tail_bound import row_weights
from ._tails import LN10, log10_factorial
from .ranks import Array

_SMALLEST_Z = 3.0  # below it the bound is above 0.01 and decides nothing: 1 is reported instead
_STEPS = 18  # the exponent to a thousandth; any exponent gives a valid bound


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTest:
    """What the sum of some traces says."""

    statistic: float
    sigma: float
    log10_p: float
    """Two-sided, an upper bound of the exact permutation p-value; 0 for |z| below 3."""

    @property
    def z(self) -> float:
        """The statistic in standard deviations over all orders."""
        return self.statistic / self.sigma


def trace_test(similarities: Sequence[Array]) -> TraceTest | None:
    """Test whether units of the same number belong together, over one or several sets of units.

    Null hypothesis: every order of the units of each set is equally likely, independently of the others.

    Similarities are square, with row and column means of zero, one for each set of units. Each is scaled to a
    variance of 1 first, so that no set outweighs the others. The bound is that of `TailBound`, added up over
    sets: at least the product of all 1/n!. The result is None if nothing varies.

    Examples
    --------
    >>> rows = np.eye(16) - 1 / 16
    >>> found = trace_test([rows @ rows.T])
    >>> round(found.z, 1), round(found.log10_p, 1)
    (15.0, -13.0)
    """
    scaled = [made for made in map(_scaled, similarities) if made is not None]
    if not scaled:
        return None
    statistic = math.fsum(float(np.trace(item)) for item in scaled)
    sigma = math.sqrt(len(scaled))
    if abs(statistic) < _SMALLEST_Z * sigma:
        return TraceTest(statistic=statistic, sigma=sigma, log10_p=0.0)
    sign = 1.0 if statistic >= 0.0 else -1.0
    ordered = [-np.sort(-sign * item, axis=1) for item in scaled]
    height = _lowest(ordered, abs(statistic), sigma)
    floor = -math.fsum(log10_factorial(len(item)) for item in scaled)
    log10_p = min(0.0, max(height / LN10, floor) + math.log10(2.0))
    return TraceTest(statistic=statistic, sigma=sigma, log10_p=log10_p)


def _scaled(similarity: Array) -> Array | None:
    size = float(np.linalg.norm(similarity))
    if not size > 0.0:
        return None
    return np.asarray(similarity, np.float64) * (math.sqrt(len(similarity) - 1) / size)


def _lowest(ordered: Sequence[Array], statistic: float, sigma: float) -> float:
    """Minimise the bound over its exponent. It is convex, and any exponent gives a valid bound."""

    def height(log_exponent: float) -> float:
        exponent = math.exp(log_exponent)
        total = -exponent * statistic
        for rows in ordered:
            top = rows[:, :1]
            weighted = np.exp((rows - top) * exponent) @ row_weights(rows.shape[1])
            total += float(np.sum(np.log(weighted)) + exponent * np.sum(top))
        return total

    normal = math.log(statistic / sigma**2)
    low, high = normal - math.log(1000.0), normal + math.log(4.0)
    return golden_section(height, low, high, steps=_STEPS)[1]
