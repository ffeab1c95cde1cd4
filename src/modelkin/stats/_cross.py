"""The statistic of the axis test for many pairs of blocks at once: which of them are worth a full test."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._units import MIN_UNITS, row_norms, scaled
from .ranks import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CrossScores:
    """How much blocks agree: a row for each candidate block, a column for each base block."""

    z: npt.NDArray[np.float64]
    """The z of the axis test; NaN where a block has no variation, or too few units are usable."""
    traces: npt.NDArray[np.float64]
    """Sum of the products of units of the same number; NaN unless all units of both blocks are usable."""
    mean_squares: npt.NDArray[np.float64]
    """Mean of the squares of these products; NaN likewise."""


def cross_z(candidate: Sequence[npt.ArrayLike], base: Sequence[npt.ArrayLike]) -> npt.NDArray[np.float64]:
    """Return z of the axis test for every candidate block with every base block; see `cross_scores`."""
    return cross_scores(candidate, base).z


def cross_scores(candidate: Sequence[npt.ArrayLike], base: Sequence[npt.ArrayLike]) -> CrossScores:
    """Compare every candidate block with every base block.

    z is that of `AxisTest`: units that are zero or not finite in one of two blocks are left out. It screens:
    a cell that is chosen for its z must be tested by `axis_test` and corrected for all cells.

    Blocks are units by features, all of one shape. Units are taken at norm 1, without their mean.
    """
    shapes = {np.shape(block) for block in (*candidate, *base)}
    if len(shapes) > 1:
        raise ValueError(f"blocks: expected one shape, got {' and '.join(map(str, sorted(shapes)))}")
    mine, theirs = ([_CentredUnits.of(block) for block in blocks] for blocks in (candidate, base))
    found, traces, squares = (np.full((len(mine), len(theirs)), math.nan) for _ in range(3))
    whole = [column for column, block in enumerate(theirs) if block.is_whole]
    others = [(column, block) for column, block in enumerate(theirs) if not block.is_whole]
    stacked = np.concatenate([theirs[column].centred for column in whole]) if whole else None
    for row, a in enumerate(mine):
        if a.is_whole and stacked is not None:
            found[row, whole], traces[row, whole], squares[row, whole] = _with_all(a.centred, stacked)
        for column, b in others if a.is_whole else enumerate(theirs):
            found[row, column] = _z(a, b)
    return CrossScores(z=found, traces=traces, mean_squares=squares)


@dataclass(frozen=True, slots=True, eq=False)
class _CentredUnits:
    usable: npt.NDArray[np.bool_]
    centred: Array
    """Usable units of norm 1 minus their mean."""
    is_whole: bool
    """Whether there are enough units and all are usable, as in most blocks: no need to centre again."""

    @classmethod
    def of(cls, block: npt.ArrayLike) -> _CentredUnits:
        rows = np.array(block, dtype=np.float32)
        norms = row_norms(rows)
        usable = np.isfinite(norms) & (norms > 0.0)
        rows[~usable] = norms[~usable] = 0.0
        rows = scaled(rows, unit_rows=True, rank_normalise=False, norms=norms)
        return cls(usable, _centred(rows[usable]), is_whole=len(rows) >= MIN_UNITS and bool(usable.all()))


def _with_all(mine: Array, stacked: Array) -> Iterator[npt.NDArray[np.float64]]:
    """Yield z, traces and mean squares of a block with each of many: one product of all is the fastest."""
    n = len(mine)
    similarity = (stacked @ mine.T).reshape(-1, n, n)
    sigma = np.array([float(np.linalg.norm(block)) for block in similarity]) / math.sqrt(n - 1)
    facing = np.diagonal(similarity, axis1=1, axis2=2).astype(np.float64)
    traces = facing.sum(axis=1)
    yield np.asarray(np.where(sigma > 0.0, traces / np.where(sigma > 0.0, sigma, 1.0), math.nan))
    yield traces
    yield np.asarray(np.mean(np.square(facing), axis=1))


def _z(a: _CentredUnits, b: _CentredUnits) -> float:
    both = a.usable & b.usable
    mine, theirs = (
        block.centred if np.array_equal(block.usable, both) else _centred(block.centred[both[block.usable]])
        for block in (a, b)
    )
    if len(mine) < MIN_UNITS:
        return math.nan
    similarity = mine @ theirs.T
    sigma = float(np.linalg.norm(similarity)) / math.sqrt(len(mine) - 1)
    return float(np.trace(similarity)) / sigma if sigma > 0.0 else math.nan


def _centred(rows: Array) -> Array:
    return np.asarray(rows - rows.mean(axis=0)) if len(rows) else rows
