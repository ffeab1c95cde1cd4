"""Cosines of matched rows, and what they would be under other pairings: pure arrays, no model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_PERMUTATIONS = 999

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStats:
    """Cosines of matched rows."""

    n: int
    mean: float
    std: float
    """Population standard deviation."""
    low: float
    median: float
    high: float
    above_0_9: int
    above_0_5: int
    beyond_3_sd: int
    """Rows with a cosine beyond 3 / sqrt(width), either way: 0.3 % of independent isotropic rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """What the mean cosine would be if one thing were put in any other order: exact mean and spread."""

    expected: float
    sd: float
    z: float | None
    """(measured less expected) / sd; None when sd is 0."""
    low: float | None = None
    """2.5 % point of drawn orders; None where none were drawn."""
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowView:
    """The rows under one way of looking: as stored, or with the mean row of each model taken off."""

    all: RowStats
    same_id: RowStats | None
    """Tokens that have one id in both vocabularies; None when there are none."""
    other_id: RowStats | None
    permuted_tokens: Null
    """Rows of one model paired with other tokens' rows of the other model."""
    permuted_dimensions: Null
    """Dimensions of one model in another order, the same one for all tokens."""
    within_candidate: float
    """Mean cosine of two different tokens of one model: no null, only its cone."""
    within_base: float


def row_stats(cosines: Rows, *, width: int) -> RowStats:
    """Sum up cosines of matched rows."""
    return RowStats(
        n=len(cosines),
        mean=float(cosines.mean()),
        std=float(cosines.std()),
        low=float(cosines.min()),
        median=float(np.median(cosines)),
        high=float(cosines.max()),
        above_0_9=int((cosines > 0.9).sum()),
        above_0_5=int((cosines > 0.5).sum()),
        beyond_3_sd=int((np.abs(cosines) > 3.0 / np.sqrt(width)).sum()),
    )


def row_view(left: Rows, right: Rows, *, same: npt.NDArray[np.bool_], seed: int) -> RowView:
    """Compare matched rows; `same` marks tokens that have one id in both models."""
    found, width = cosines(left, right), left.shape[1]
    first, second = _units(left), _units(right)
    return RowView(
        all=row_stats(found, width=width),
        same_id=row_stats(found[same], width=width) if same.any() else None,
        other_id=row_stats(found[~same], width=width) if not same.all() else None,
        permuted_tokens=_permuted_tokens(first, second, seed),
        permuted_dimensions=_permuted_dimensions(first, second),
        within_candidate=_within(first),
        within_base=_within(second),
    )


def _permuted_tokens(first: Rows, second: Rows, seed: int) -> Null:
    """All pairings of rows equally likely: the mean and variance of a sum over a permutation are known."""
    table = first @ second.T
    n = len(table)
    drawn = np.random.default_rng(seed)
    places = np.arange(n)
    means = np.array([table[places, drawn.permutation(n)].mean() for _ in range(_PERMUTATIONS)])
    centred = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    sd = float(np.sqrt((centred**2).sum() / (n - 1))) / n
    low, high = np.quantile(means, (0.025, 0.975))
    return _null(float(np.trace(table)) / n, float(table.mean()), sd, low=float(low), high=float(high))


def _permuted_dimensions(first: Rows, second: Rows) -> Null:
    """All orders of dimensions equally likely; by Gram matrices, so that no width-by-width table is made."""
    n, width = first.shape
    measured = float((first * second).sum()) / n
    expected = float(first.sum(axis=1) @ second.sum(axis=1)) / (n * width)
    one, other = (rows - rows.mean(axis=1, keepdims=True) for rows in (first, second))
    squares = float(((one @ one.T) * (other @ other.T)).sum()) / n**2
    sd = float(np.sqrt(max(squares, 0.0) / (width - 1))) if width > 1 else 0.0
    return _null(measured, expected, sd)


def _null(
    measured: float, expected: float, sd: float, *, low: float | None = None, high: float | None = None
) -> Null:
    # Where all orders give the same value but for rounding there is nothing to stand out from.
    z = (measured - expected) / sd if sd > 1e-12 else None
    return Null(expected=expected, sd=sd, z=z, low=low, high=high)


def _within(units: Rows) -> float:
    """Return the mean cosine of two different rows."""
    n, total = len(units), units.sum(axis=0)
    return float((total @ total - (units * units).sum()) / (n * (n - 1)))


def geometry(left: Rows, right: Rows) -> float | None:
    """Correlate the two tables of cosines between tokens; None when one of them is constant."""
    above = np.triu_indices(len(left), k=1)
    tables = [(_units(rows) @ _units(rows).T)[above] for rows in (left, right)]
    first, second = (values - values.mean() for values in tables)
    scale = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / scale if scale > 0.0 else None


def cosines(left: Rows, right: Rows) -> Rows:
    """Return the cosine of each row with the same row of the other table; 0 where one is all zeros."""
    found: npt.NDArray[Any] = (_units(left) * _units(right)).sum(axis=1)
    return found


def _units(rows: Rows) -> Rows:
    norms = lengths(rows)[:, None]
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0.0)


def lengths(rows: Rows) -> Rows:
    """Return the Euclidean length of each row."""
    return np.asarray(np.sqrt((rows * rows).sum(axis=1)), dtype=np.float64)
