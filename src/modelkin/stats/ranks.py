"""Ranks and normal scores over units, column by column. Ties share their mean rank."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]
"""Floating-point arrays; results keep the width of what they were made from unless they say otherwise."""
Numbers = npt.NDArray[np.number[Any]]
"""Values of which only the order counts."""


def ranks(values: Numbers) -> npt.NDArray[np.float64]:
    """Return the rank of each value, from 1 on; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[inverse], dtype=np.float64)


def normal_scores(columns: Array) -> npt.NDArray[np.float64]:
    """Replace each column by the normal quantiles of its ranks, centred and scaled to unit variance.

    Only a column's order is left: an outlier counts no more than the largest of n normal numbers would. A
    column of equal values becomes zeros.
    """
    n = len(columns)
    table = _score_table(n)
    scored = np.empty(columns.shape, dtype=np.float64)
    for j in range(columns.shape[1]):
        # Mean ranks are multiples of 1/2, so twice the rank is an index.
        scored[:, j] = table[np.rint(2.0 * ranks(columns[:, j])).astype(np.intp)]
    return standardised(scored)


def standardised(columns: Array) -> npt.NDArray[np.float64]:
    """Centre each column and scale it to unit variance; a column of equal values becomes zeros."""
    wide = np.asarray(columns, dtype=np.float64)
    centred = wide - wide.mean(axis=0)
    scale = np.sqrt(np.mean(centred**2, axis=0))
    flat = is_constant(wide)
    return np.asarray(np.where(flat, 0.0, centred / np.where(flat, 1.0, scale)), dtype=np.float64)


def is_constant(columns: Array) -> npt.NDArray[np.bool_]:
    """Say of each column whether all its values are equal."""
    return np.asarray((columns == columns[:1]).all(axis=0), dtype=np.bool_)


def spearman(first: Numbers, second: Numbers) -> float:
    """Return the rank correlation of two vectors; 0 if one of them is constant, which defines no order."""
    a, b = ranks(first), ranks(second)
    a -= a.mean()
    b -= b.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale > 0.0 else 0.0


@lru_cache(maxsize=8)
def _score_table(n: int) -> npt.NDArray[np.float64]:
    """Tabulate the normal quantiles of (rank - 1/2) / n at twice the rank; the first two are never used."""
    quantile = NormalDist().inv_cdf
    return np.array([0.0, 0.0, *(quantile((k / 2.0 - 0.5) / n) for k in range(2, 2 * n + 1))])
