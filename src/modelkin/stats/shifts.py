"""The statistic under many orders of the base's units, for the price of a few.

One random order and its n cyclic shifts cost about as much as reading the similarity once, while n separate
orders would each need their own draw. The test stays exact: let g_0 be the true order and g_1, ..., g_m
independent uniform ones. Under the null g_0 is uniform too, so the (m + 1) n statistics "order g_k, shifted
by s" have a joint law that no shift within an order and no exchange of orders changes. These changes carry
any index to any other, so the rank of the observed one (k = 0, s = 0) is uniform up to ties.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._result import Alternative
from .ranks import Array
from .similarity import Similarity

# Up to here all n! orders (40,320) are enumerated instead of drawn.
MAX_ENUMERATED_UNITS = 8
# A Fourier transform costs about 12 times as much per feature as a lookup per unit (n 4096 and 11008).
_FOURIER_GAIN = 12
# Numbers transformed at once: two megabytes.
_FOURIER_NUMBERS = 1 << 18
# Numbers of reordered blocks held at once: half a megabyte stays in the cache.
_TAKEN_NUMBERS = 1 << 17


@dataclass(frozen=True, slots=True, kw_only=True)
class PermutationPart:
    """A permutation p-value and how it was obtained."""

    log10_p: float
    n_permutations: int
    exact: bool


def draw_orders(n_units: int, *, n_permutations: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Return the stored order and enough random ones to give `n_permutations` or more with their shifts."""
    n_orders = math.ceil((n_permutations + 1) / n_units)
    orders = np.tile(np.arange(n_units, dtype=np.intp), (n_orders, 1))
    rng.permuted(orders[1:], axis=1, out=orders[1:])
    return orders


class ShiftSums:
    """Sums of ``similarity[i, order[(i + s) % n]]`` over i, for every order and shift s."""

    def __init__(self, similarity: Similarity, orders: npt.NDArray[np.intp]) -> None:
        self._orders = orders
        n, n_features = similarity.candidate.shape
        self.sums = np.zeros((len(orders), n))
        self._by_blocks = similarity.squared or n_features * _FOURIER_GAIN > n
        if not self._by_blocks:
            self._by_fourier(similarity)

    def add(self, rows: slice, block: Array) -> None:
        """Add whole rows of the similarity."""
        if not self._by_blocks:
            return
        height, n = block.shape
        # Orders of few units are taken together: the call costs more than the numbers.
        step = min(len(self._orders), max(1, _TAKEN_NUMBERS // (height * (n + height))))
        wide = np.empty((height, step, n + height), dtype=block.dtype)
        # Row k of the view begins k columns later, so that its columns are the diagonals.
        strides = (wide.strides[0] + wide.itemsize, wide.strides[1], wide.itemsize)
        diagonals = np.lib.stride_tricks.as_strided(wide, (height, step, n), strides, writeable=False)
        found = np.empty(self.sums.shape, dtype=block.dtype)
        for start in range(0, len(self._orders), step):
            orders = self._orders[start : start + step]
            some = wide[:, : len(orders)]
            np.take(block, orders, axis=1, out=some[:, :, :n], mode="clip")
            some[:, :, n:] = some[:, :, :height]
            diagonals[:, : len(orders)].sum(axis=0, out=found[start : start + step])
        self.sums += np.roll(found, -rows.start, axis=1)

    def _by_fourier(self, similarity: Similarity) -> None:
        """All shifts at once: a cyclic correlation, summed over features."""
        n = len(similarity.candidate)
        base = np.asarray(similarity.base.T, dtype=np.float64)
        left = np.fft.rfft(np.asarray(similarity.candidate.T, dtype=np.float64), axis=1).conj()
        # Short rows are transformed many at a time: the call costs more than the transform.
        step = max(1, _FOURIER_NUMBERS // base.size)
        for start in range(0, len(self._orders), step):
            orders = self._orders[start : start + step]
            right = np.fft.rfft(np.take(base, orders, axis=1), axis=2)
            self.sums[start : start + step] += np.fft.irfft(np.einsum("ij,ikj->kj", left, right), n, axis=1)


def permutation_part(
    sums: npt.NDArray[np.float64], *, statistic: float, tolerance: float, alternative: Alternative
) -> PermutationPart:
    """Rank the observed statistic among drawn ones. Ties, up to `tolerance`, count against it.

    Null hypothesis: the order of the base's units is arbitrary. Floor of p: one over the number of `sums`, of
    which the observed one is the first.
    """
    # The first is the observed one: it counts by definition, not by a comparison subject to rounding.
    count = 1 + _at_least(sums.ravel()[1:], statistic, tolerance, alternative)
    return PermutationPart(log10_p=math.log10(count / sums.size), n_permutations=sums.size - 1, exact=False)


def enumerated_part(
    similarity: Similarity, *, statistic: float, tolerance: float, alternative: Alternative
) -> PermutationPart:
    """Rank the observed statistic among those of all n! orders: the exact p-value. Floor: 1/n!."""
    entries = similarity.rows(slice(None))
    n = len(entries)
    orders = np.array(list(itertools.permutations(range(n))), dtype=np.intp)
    sums = entries[np.arange(n), orders].sum(axis=1, dtype=np.float64)
    count = max(1, _at_least(sums, statistic, tolerance, alternative))
    return PermutationPart(log10_p=math.log10(count / len(sums)), n_permutations=len(sums) - 1, exact=True)


def tie_tolerance(similarity: Similarity, sigma: float) -> float:
    """Return how far equal sums may differ by rounding; generous, as ties count against the observed one."""
    return sigma * (1e-9 if similarity.candidate.dtype == np.float64 else 1e-5)


def _at_least(
    sums: npt.NDArray[np.float64], statistic: float, tolerance: float, alternative: Alternative
) -> int:
    if alternative == "greater":
        return int(np.count_nonzero(sums >= statistic - tolerance))
    return int(np.count_nonzero(np.abs(sums) >= abs(statistic) - tolerance))
