"""Tails and quantiles in log space, so that nothing underflows. Base 10, as in reports."""

from __future__ import annotations

import math
from statistics import NormalDist

LN10 = math.log(10.0)  # from natural to common logarithms
_STANDARD = NormalDist()
# erfc is exact to rounding up to here and underflows at 38; the series below has 14 digits from here on.
_SERIES_FROM = 25.0
# 10**-300 is still a normal double; beyond it quantiles are found by Newton's method in log space.
_SMALLEST_PLAIN = -300.0
# The largest p that differs from 1: a p of exactly 1 has no normal quantile.
_LARGEST_P = 1.0 - 2.0**-53


def log10_normal_tail(z: float) -> float:
    """Return log10 P(Z >= z) for a standard normal Z, for any finite z.

    References
    ----------
    Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.23 (asymptotic series).
    """
    if z < -5.0:  # p is nearly 1, and the logarithm of what is missing is exact
        return math.log1p(-0.5 * math.erfc(-z / math.sqrt(2.0))) / LN10
    if z < _SERIES_FROM:
        return math.log10(0.5 * math.erfc(z / math.sqrt(2.0)))
    u = 1.0 / (z * z)
    series = -u + 3.0 * u**2 - 15.0 * u**3 + 105.0 * u**4 - 945.0 * u**5
    return (-0.5 * z * z - math.log(z) - 0.5 * math.log(2.0 * math.pi) + math.log1p(series)) / LN10


def normal_quantile(log10_p: float) -> float:
    """Return z with P(Z >= z) = 10**log10_p. The inverse of `log10_normal_tail`.

    A p of 1 gives the quantile of the largest number below 1, about -8.2, not minus infinity.
    """
    _check_log10_p(log10_p)
    if log10_p > _SMALLEST_PLAIN:
        return -_STANDARD.inv_cdf(min(10.0**log10_p, _LARGEST_P))
    z = math.sqrt(-2.0 * LN10 * log10_p)
    for _ in range(60):
        # d/dz log10 tail = -hazard / ln 10, and the hazard is z + 1/z up to terms of z**-3.
        step = (log10_normal_tail(z) - log10_p) * LN10 / (z + 1.0 / z)
        z += step
        if abs(step) <= 1e-14 * z:  # a further step changes rounding only
            break
    return z


def log10_factorial(n: int) -> float:
    """Return log10 n!."""
    return math.lgamma(n + 1.0) / LN10


def _check_log10_p(log10_p: float) -> None:
    if not -math.inf < log10_p <= 0.0:
        raise ValueError(f"log10_p: expected a finite number of at most 0, got {log10_p}")
