"""The functions behind the measures, with what each is on average when one vector's values are reordered.

With rho the cosine of a vector with the vector of ones and r Pearson's correlation::

    cos(a, b) = rho_a rho_b + r sqrt(1 - rho_a^2) sqrt(1 - rho_b^2)

Over all reorderings of b's values, r has mean 0 and standard deviation 1 / sqrt(n - 1), exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ._pairs import Pairs
from .stack import PART_VALUES, Floats, Stack

_CLOSE = 1e-4
"""Squared distances below this share of the squared lengths are summed directly: as a difference of large
numbers they would keep too few digits."""
Expected = tuple[Floats, Floats | None]
"""Mean over all reorderings, and standard deviation if it is known exactly."""
Function = Callable[[Stack, Stack, Pairs], Floats]
Expectation = Callable[[Stack, Stack, Pairs], Expected]

# -- cosines and correlations --------------------------------------------------------------------------


def cosine(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the cosine of the angle between the vectors."""
    return _clipped(pairs.inner(a.units, b.units))


def cosine_expectation(a: Stack, b: Stack, pairs: Pairs) -> Expected:
    """Return rho_a rho_b and the standard deviation of what is left."""
    return mean_direction(a, b, pairs), _room(a, b, pairs) * _sd(a.n)


def mean_direction(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the part of the cosine that comes from the means alone."""
    mine, theirs = pairs.pick(a.rho, b.rho)
    return np.asarray(mine * theirs, dtype=np.float64)


def unchanged(function: Function) -> Expectation:
    """Return the expectation of a measure that no reordering changes: its value, without spread."""

    def expectation(a: Stack, b: Stack, pairs: Pairs) -> Expected:
        value = function(a, b, pairs)
        return value, np.zeros_like(value)

    return expectation


def pearson(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the correlation: the cosine after each vector's mean is taken away."""
    return _clipped(pairs.inner(a.directions, b.directions))


def correlation_expectation(a: Stack, b: Stack, pairs: Pairs) -> Expected:
    """Return 0 and 1 / sqrt(n - 1)."""
    zeros = np.zeros(len(pairs))
    return zeros, zeros + _sd(a.n)


def spearman(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the correlation of the ranks."""
    return _clipped(pairs.inner(a.rank_directions, b.rank_directions))


def excess_cosine(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the cosine minus the part from the means, without subtracting nearly equal numbers."""
    return pearson(a, b, pairs) * _room(a, b, pairs)


def excess_expectation(a: Stack, b: Stack, pairs: Pairs) -> Expected:
    """Return 0 and the standard deviation of the cosine."""
    return np.zeros(len(pairs)), _room(a, b, pairs) * _sd(a.n)


def about_one(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the cosine of both vectors minus one."""
    return cosine(a.about_one, b.about_one, pairs)


def about_one_expectation(a: Stack, b: Stack, pairs: Pairs) -> Expected:
    """Return what follows from the means of both vectors minus one."""
    return cosine_expectation(a.about_one, b.about_one, pairs)


def _room(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the most that a correlation of 1 could add to the cosine."""
    mine, theirs = pairs.pick(a.spread, b.spread)
    return np.asarray(mine * theirs, dtype=np.float64)


def _sd(n: int) -> float:
    return float(1.0 / np.sqrt(n - 1)) if n > 1 else 0.0


def _clipped(values: Floats) -> Floats:
    return np.asarray(np.clip(values, -1.0, 1.0), dtype=np.float64)


# -- distances and differences -------------------------------------------------------------------------


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


def l2_expectation(a: Stack, b: Stack, pairs: Pairs) -> Expected:
    """Return the root of the mean squared distance over all reorderings."""
    mine, theirs = pairs.pick(a.norm, b.norm)
    means_a, means_b = pairs.pick(a.mean, b.mean)
    squared = mine**2 + theirs**2 - 2.0 * a.n * means_a * means_b
    return np.sqrt(np.maximum(squared, 0.0)), None


def relative_l2(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the length of the difference over the length of a."""
    return np.asarray(l2(a, b, pairs) / a.norm[pairs.first], dtype=np.float64)


def relative_expectation(a: Stack, b: Stack, pairs: Pairs) -> Expected:
    """Return the same of the expected distance."""
    return np.asarray(l2_expectation(a, b, pairs)[0] / a.norm[pairs.first], dtype=np.float64), None


def symmetric_l2(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the length of the difference over the mean of both lengths."""
    return np.asarray(l2(a, b, pairs) / _mean_length(a, b, pairs), dtype=np.float64)


def symmetric_expectation(a: Stack, b: Stack, pairs: Pairs) -> Expected:
    """Return the same of the expected distance."""
    return np.asarray(l2_expectation(a, b, pairs)[0] / _mean_length(a, b, pairs), dtype=np.float64), None


def absolute(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the mean of the absolute differences."""
    return pairs.rowwise(_mean_absolute_rows, a.wide, b.wide)


def absolute_expectation(a: Stack, b: Stack, pairs: Pairs) -> Expected:
    """Return the mean over all n^2 pairs of values, from the sorted rows."""
    sums = np.cumsum(b.sorted, axis=1)
    found = np.empty(len(pairs))
    for at, (i, j) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        total = sums[j, -1]
        # Some values of a at a time: with millions, six copies take more memory than all rows.
        found[at] = math.fsum(
            _distances(a.sorted[i, start : start + PART_VALUES], b.sorted[j], sums[j], total)
            for start in range(0, a.n, PART_VALUES)
        )
    return found / a.n**2, None


def _distances(some: Floats, others: Floats, sums: Floats, total: float) -> float:
    """Sum the distances of some values to all others, which are sorted with running sums from the left."""
    below = np.searchsorted(others, some)
    under = np.where(below > 0, sums[below - 1], 0.0)
    # For each value x: (x - y) summed over the y below it, (y - x) over the others.
    return float(np.sum(some * (2.0 * below - len(others)) + total - 2.0 * under))


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


def _mean_absolute_rows(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    difference = a - b
    np.abs(difference, out=difference)
    return np.asarray(difference.mean(axis=1))


# -- equality of stored values -------------------------------------------------------------------------


def changed_share(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the share of places with different values."""
    return pairs.rowwise(lambda x, y: (x != y).mean(axis=1), a.wide, b.wide)


def changed_expectation(a: Stack, b: Stack, pairs: Pairs) -> Expected:
    """Return the share of all n^2 pairs of values that differ: many values are rounded to the same number."""
    found = np.empty(len(pairs))
    for at, (i, j) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        right = np.searchsorted(b.sorted[j], a.sorted[i], side="right")
        found[at] = np.sum(right - np.searchsorted(b.sorted[j], a.sorted[i], side="left"))
    return 1.0 - found / a.n**2, None


def mean_ulps(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the mean number of steps between values that differ; NaN if none does."""
    changed = pairs.rowwise(lambda x, y: np.count_nonzero(x != y, axis=1), a.steps, b.steps)
    total = pairs.rowwise(lambda x, y: np.abs(x - y).sum(axis=1, dtype=np.float64), a.steps, b.steps)
    return np.asarray(np.where(changed > 0, total / np.maximum(changed, 1), np.nan), dtype=np.float64)


def max_ulps(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the largest number of steps between values in the same place."""
    return pairs.rowwise(lambda x, y: np.abs(x - y).max(axis=1), a.steps, b.steps)


def byte_identity(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return 1 if every stored bit is the same, else 0."""
    return pairs.rowwise(lambda x, y: (x == y).all(axis=1), a.bits, b.bits)
