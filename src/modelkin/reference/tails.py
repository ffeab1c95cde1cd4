"""Tails and matches that published methods use: Student's t, Fisher's sum, the best pairing of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, say
from modelkin.stats import best_pairing

LN10 = math.log(10.0)  # from natural to common logarithms
MOST_WITHOUT_SCIPY = 1024
"""Rows up to which pairs are found without scipy; 1024 take some seconds, 11,008 would take hours."""

Floats = npt.NDArray[np.floating]


def assigned(gain: Floats) -> npt.NDArray[np.intp] | Message:
    """Return for each row its column, each used once, so that the sum of gains is largest.

    With more rows than columns, rows that get none have -1. The result is the same with and without scipy,
    except for ties.
    """
    n, m = gain.shape
    try:
        optimize = import_module("scipy.optimize")
    except ImportError:
        if max(n, m) > MOST_WITHOUT_SCIPY:
            return say("reference-needs-scipy", n=max(n, m))
        size = max(n, m)
        square = np.full((size, size), float(gain.min(initial=0.0)))
        square[:n, :m] = gain
        columns = best_pairing(square)[:n]
        return np.asarray(np.where(columns < m, columns, -1), dtype=np.intp)
    rows, columns = optimize.linear_sum_assignment(gain, maximize=True)
    found = np.full(n, -1, dtype=np.intp)
    found[rows] = columns
    return found


def spearman_log10_p(first: npt.NDArray[np.intp], second: npt.NDArray[np.intp]) -> float:
    """Return log10 of the one-sided p-value of Spearman's correlation of two lists of distinct places."""
    n = len(first)
    if n < 4:
        return 0.0
    ranks = [np.argsort(np.argsort(places)).astype(np.float64) for places in (first, second)]
    distance = float(np.sum((ranks[0] - ranks[1]) ** 2))
    r = 1.0 - 6.0 * distance / (n * (n * n - 1.0))
    floor = -math.lgamma(n + 1.0) / LN10  # one of all n! orders is the same
    if r >= 1.0:
        return floor
    return max(floor, student_log10_sf(r * math.sqrt((n - 2) / (1.0 - r * r)), n - 2))


def student_log10_sf(t: float, degrees: int) -> float:
    """Return log10 P(T > t) of Student's t.

    >>> round(student_log10_sf(2.0, 10), 6)
    -1.435382
    """
    if t <= 0.0:
        return math.log10(1.0 - 10.0 ** student_log10_sf(-t, degrees)) if t < 0.0 else math.log10(0.5)
    x = degrees / (degrees + t * t)
    return (_log_incomplete_beta(x, degrees / 2.0, 0.5) + math.log(0.5)) / LN10


def _log_incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the logarithm of the regularised incomplete beta function, by its continued fraction."""
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1.0) / (a + b + 2.0):  # here the fraction converges quickly, beyond it that of 1 - x
        return front + math.log(_fraction(x, a, b) / a)
    return math.log1p(-math.exp(front) * _fraction(1.0 - x, b, a) / b)


def _fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1.0), tiny)
    found = d
    for m in range(1, 10_000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + step * d
            c = 1.0 + step / c
            d, c = 1.0 / (d if abs(d) > tiny else tiny), c if abs(c) > tiny else tiny
            found *= d * c
        if abs(d * c - 1.0) < 1e-13:  # the next factor changes rounding only
            break
    return found


def fisher_log10_p(log10_ps: Sequence[float]) -> float:
    """Combine independent p-values by Fisher's method.

    >>> round(fisher_log10_p([-1.0, -1.0]), 4)
    -1.2516
    """
    half = -LN10 * math.fsum(log10_ps)
    if half <= 0.0:
        return 0.0
    # The tail of chi-squared with 2k degrees of freedom is a sum of k terms.
    terms = [k * math.log(half) - math.lgamma(k + 1.0) for k in range(len(log10_ps))]
    top = max(terms)
    return min(0.0, (top + math.log(math.fsum(math.exp(term - top) for term in terms)) - half) / LN10)
