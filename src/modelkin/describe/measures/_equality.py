"""Equality of stored values: how many changed, by how many steps of their format, and whether any bit did."""

from __future__ import annotations

import numpy as np

from ._pairs import Pairs
from ._stack import Floats, Stack


def changed_share(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the share of places with different values."""
    return pairs.rowwise(lambda x, y: (x != y).mean(axis=1), a.wide, b.wide)


def changed_expectation(a: Stack, b: Stack, pairs: Pairs) -> tuple[Floats, Floats | None]:
    """Return the share of all n^2 pairs of values that differ: many values are rounded to the same number."""
    found = np.empty(len(pairs))
    for at, (i, j) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        right = np.searchsorted(b.sorted[j], a.sorted[i], side="right")
        found[at] = np.sum(right - np.searchsorted(b.sorted[j], a.sorted[i], side="left"))
    return 1.0 - found / a.n**2, None


def mean_ulps(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the mean number of steps between values that differ; no number where none does."""
    changed = pairs.rowwise(lambda x, y: np.count_nonzero(x != y, axis=1), a.steps, b.steps)
    total = pairs.rowwise(lambda x, y: np.abs(x - y).sum(axis=1, dtype=np.float64), a.steps, b.steps)
    return np.asarray(np.where(changed > 0, total / np.maximum(changed, 1), np.nan), dtype=np.float64)


def max_ulps(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the largest number of steps between values in the same place."""
    return pairs.rowwise(lambda x, y: np.abs(x - y).max(axis=1), a.steps, b.steps)


def byte_identity(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return 1 if every stored bit is the same, else 0."""
    return pairs.rowwise(lambda x, y: (x == y).all(axis=1), a.bits, b.bits)
