"""Counts of rare agreements: how many arise by chance, and how well that is known."""

from __future__ import annotations

import math
from functools import cache

from ._tails import LN10


def log10_binomial_tail(n: int, count: int, share: float) -> float:
    """Return log10 of the chance of at least `count` successes in `n` trials of probability `share`.

    >>> round(10 ** log10_binomial_tail(4, 3, 0.5), 4)
    0.3125
    """
    if count <= 0 or share >= 1.0:
        return 0.0
    if share <= 0.0 or count > n:
        return -math.inf
    log_share, log_rest = math.log(share), math.log1p(-share)
    terms = [
        math.lgamma(n + 1.0)
        - math.lgamma(k + 1.0)
        - math.lgamma(n - k + 1.0)
        + k * log_share
        + (n - k) * log_rest
        for k in range(count, n + 1)
    ]
    largest = max(terms)
    return min(0.0, (largest + math.log(math.fsum(math.exp(term - largest) for term in terms))) / LN10)


@cache
def binomial_limit(n: int, count: int, *, log10_error: float = -3.0) -> float:
    """Return the upper confidence limit of a share (Clopper and Pearson).

    >>> round(binomial_limit(100, 0), 3)
    0.067
    """
    if count >= n:
        return 1.0
    low, high = count / n if n else 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        # P(at most count) = P(at least n - count failures).
        if log10_binomial_tail(n, n - count, 1.0 - middle) > log10_error:
            low = middle
        else:
            high = middle
    return high
