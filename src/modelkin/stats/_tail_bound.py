"""A rigorous upper bound of a permutation p-value, however small: no normal approximation, no drawing.

For T = sum_i D[i, pi(i)] under a uniform order pi, Markov's inequality gives for every h > 0::

    P(T >= t) <= exp(-h t) E exp(h T) = exp(-h t) perm(exp(h D)) / n!

A permanent cannot be computed, but it can be bounded row by row. Write each row of a non-negative matrix A,
its entries sorted as a_1 >= ... >= a_n, as ``sum_k (a_k - a_{k+1}) 1{the k largest places}``. The permanent
is linear in each row, and for matrices of zeros and ones with row sums k_i the theorem of Bregman and Minc
bounds it by the product of ``g(k_i)``, ``g(k) = (k!)^(1/k)``. Summing by parts::

    perm(A) <= prod_i sum_j a_ij (g(j) - g(j - 1))

The weights ``w_j = (g(j) - g(j - 1)) / g(n)`` sum to 1, and w_1 to the power n is 1/n!. Hence::

    ln P(T >= t) <= -h t + sum_i ln sum_j w_j exp(h D_i(j)),        D_i(1) >= ... >= D_i(n)

For nearly normal entries this costs little: it is ``exp(-z^2 / 2)`` for a z that is smaller by 0.62 for 64
units, 0.36 for 512, 0.19 for 4096 (`normal_loss`). At the other end it reaches exactly 1/n!, when every
unit's best match is its own. Heavy entries, such as one outlier unit in each model, are paid for in full,
where a normal tail would report nonsense.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ._golden import golden_section
from ._tails import LN10, log10_factorial
from .ranks import Array, normal_scores
from .similarity import Similarity

# Below this |z| the bound is above 0.01 and decides nothing; 1 is reported, which saves the sorting.
_SMALLEST_Z = 3.0
# Rows on which the exponent is chosen. Any exponent gives a valid bound, so this costs at most tightness.
_PILOT_ROWS = 128


class TailBound:
    """The bound for one observed statistic on the side where it lies, gathered block by block.

    Null hypothesis: the order of the base's units is arbitrary. Floor: 1/n!. With few units the bound is
    valid but weak: it cannot be below 1/n!.

    References
    ----------
    Bregman, Some properties of nonnegative matrices and their permanents, Soviet Math. Doklady 14, 1973.
    Soules, New permanental upper bounds for nonnegative matrices, Linear and Multilinear Algebra 51, 2003.
    """

    def __init__(self, similarity: Similarity, *, statistic: float, sigma: float) -> None:
        self._n = len(similarity.base)
        self._statistic = abs(statistic)
        self._sign = 1.0 if statistic >= 0.0 else -1.0
        self._wanted = self._statistic >= _SMALLEST_Z * sigma
        self._log_moment = 0.0
        self._exponent = self._best_exponent(similarity, sigma) if self._wanted else 0.0

    def add(self, block: Array) -> None:
        """Add whole rows of the similarity."""
        if self._wanted:
            self._log_moment += float(self._log_moments(self._sorted(block), self._exponent).sum())

    def log10_p(self) -> float:
        """Return the one-sided bound, once all rows have been added."""
        if not self._wanted:
            return 0.0
        bound = (self._log_moment - self._exponent * self._statistic) / LN10
        return min(0.0, max(bound, -log10_factorial(self._n)))

    def _sorted(self, block: Array) -> Array:
        """Sort entries of each row, largest first."""
        ordered: Array = np.sort(block * block.dtype.type(-self._sign), axis=1)
        return np.negative(ordered, out=ordered)

    def _log_moments(self, ordered: Array, exponent: float) -> npt.NDArray[np.float64]:
        top = ordered[:, :1]
        weighted = np.exp((ordered - top) * ordered.dtype.type(exponent)) @ row_weights(self._n)
        return np.asarray(np.log(weighted) + exponent * top[:, 0].astype(np.float64), dtype=np.float64)

    def _best_exponent(self, similarity: Similarity, sigma: float) -> float:
        """Minimise the bound over the exponent on a few rows; it is convex, so a golden section finds it."""
        chosen = np.unique(np.linspace(0, self._n - 1, min(self._n, _PILOT_ROWS)).astype(np.intp))
        ordered = self._sorted(similarity.rows(chosen))
        per_unit = self._statistic / self._n

        def height(log_exponent: float) -> float:
            exponent = math.exp(log_exponent)
            return float(self._log_moments(ordered, exponent).mean()) - exponent * per_unit

        normal = math.log(self._statistic / sigma**2)
        low, high = normal - math.log(1000.0), normal + math.log(4.0)
        at, _ = golden_section(height, low, high, steps=18)
        return math.exp(at)


@lru_cache(maxsize=8)
def row_weights(n: int) -> npt.NDArray[np.float64]:
    """Weights of the sorted entries of a row of length n: decreasing, positive, of sum 1."""
    growth = np.array([0.0, *(math.exp(math.lgamma(k + 1.0) / k) for k in range(1, n + 1))])
    return np.asarray(np.diff(growth) / growth[-1], dtype=np.float64)


def normal_loss(n: int) -> float:
    """Return by how much z must exceed that of a normal tail, for normal entries: the price of the bound."""
    scores = normal_scores(np.arange(n, 0, -1, dtype=np.float64)[:, None])[:, 0]
    return math.sqrt(n) * float(row_weights(n) @ scores)
