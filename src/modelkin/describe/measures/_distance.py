"""Distances and differences, with what each is on average when one vector's values are reordered."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._pairs import Pairs
from ._stack import Floats, Stack

_CLOSE = 1e-4
"""Squared distances below this share of the squared lengths are summed anew: as a difference of large
numbers they would keep too few digits."""


def l2(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the length of the difference."""
    mine, theirs = pairs.pick(a.norm, b.norm)
    both = mine**2 + theirs**2
    squared = both - 2.0 * pairs.inner(a.wide, b.wide)
    close = squared < _CLOSE * both
    if close.any():
        near = Pairs.of(pairs.first[close], pairs.second[close])
        squared[close] = near.rowwise(_squared_distance, a.wide, b.wide)
    return np.asarray(np.sqrt(squared), dtype=np.float64)


def l2_expectation(a: Stack, b: Stack, pairs: Pairs) -> tuple[Floats, Floats | None]:
    """Return the root of the mean squared distance over all reorderings."""
    mine, theirs = pairs.pick(a.norm, b.norm)
    means_a, means_b = pairs.pick(a.mean, b.mean)
    squared = mine**2 + theirs**2 - 2.0 * a.n * means_a * means_b
    return np.sqrt(np.maximum(squared, 0.0)), None


def relative_l2(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the length of the difference over the length of a."""
    return np.asarray(l2(a, b, pairs) / a.norm[pairs.first], dtype=np.float64)


def relative_l2_expectation(a: Stack, b: Stack, pairs: Pairs) -> tuple[Floats, Floats | None]:
    """Return the same of the expected distance."""
    return np.asarray(l2_expectation(a, b, pairs)[0] / a.norm[pairs.first], dtype=np.float64), None


def symmetric_l2(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the length of the difference over the mean of both lengths."""
    return np.asarray(l2(a, b, pairs) / _mean_length(a, b, pairs), dtype=np.float64)


def symmetric_l2_expectation(a: Stack, b: Stack, pairs: Pairs) -> tuple[Floats, Floats | None]:
    """Return the same of the expected distance."""
    return np.asarray(l2_expectation(a, b, pairs)[0] / _mean_length(a, b, pairs), dtype=np.float64), None


def mean_absolute_difference(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the mean of the absolute differences."""
    return pairs.rowwise(_mean_absolute, a.wide, b.wide)


def mean_absolute_expectation(a: Stack, b: Stack, pairs: Pairs) -> tuple[Floats, Floats | None]:
    """Return the mean over all n^2 pairs of values, from the sorted rows."""
    sums = np.cumsum(b.sorted, axis=1)
    found = np.empty(len(pairs))
    for at, (i, j) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        mine, total = a.sorted[i], sums[j, -1]
        below = np.searchsorted(b.sorted[j], mine)
        under = np.where(below > 0, sums[j, below - 1], 0.0)
        # For each value x of a: (x - y) summed over the y below it, (y - x) over the others.
        found[at] = np.sum(mine * (2.0 * below - a.n) + total - 2.0 * under)
    return found / a.n**2, None


def p99_difference(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the difference of the 99th percentiles of the absolute values."""
    mine, theirs = pairs.pick(a.p99, b.p99)
    return np.asarray(np.abs(mine - theirs), dtype=np.float64)


def cv_difference(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the difference of the coefficients of variation."""
    mine, theirs = pairs.pick(a.cv, b.cv)
    return np.asarray(np.abs(mine - theirs), dtype=np.float64)


def _mean_length(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    mine, theirs = pairs.pick(a.norm, b.norm)
    return np.asarray((mine + theirs) / 2.0, dtype=np.float64)


def _squared_distance(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    difference = a - b
    return np.asarray(np.einsum("ij,ij->i", difference, difference))


def _mean_absolute(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    difference = a - b
    np.abs(difference, out=difference)
    return np.asarray(difference.mean(axis=1))
