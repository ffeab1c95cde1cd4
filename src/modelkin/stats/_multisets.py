"""How likely independent numbers are to be the same numbers, in any order."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ._tails import LN10


def log10_same_numbers(row: npt.ArrayLike) -> float:
    """Bound log10 of the chance that as many independent draws are the numbers of a row, in any order.

    Whatever distribution they are drawn from: numbers that occur m times in a row of w have a multinomial
    probability, which is largest if each is drawn with probability m / w::

        P <= w! prod_m (m / w)^m / m!

    The same bound holds for a mixture of distributions, so exchangeable draws are enough. Few distinct
    numbers give little: a constant row is certain, and one of w different numbers has about exp(-w).

    >>> log10_same_numbers([1.0] * 64)
    0.0
    >>> round(log10_same_numbers(range(64)), 1)
    -26.5
    """
    counts = np.unique(np.asarray(row), return_counts=True)[1].tolist()
    w = sum(counts)
    logs = [m * math.log(m / w) - math.lgamma(m + 1.0) for m in counts]
    return min(0.0, (math.lgamma(w + 1.0) + math.fsum(logs)) / LN10)
