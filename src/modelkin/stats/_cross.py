"""The statistic of the axis test for many pairs of blocks at once: which of them are worth a full test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._units import MIN_UNITS, row_norms, scaled
from .ranks import Array


def cross_z(candidate: Sequence[npt.ArrayLike], base: Sequence[npt.ArrayLike]) -> npt.NDArray[np.float64]:
    """Return z of the axis test for every candidate block with every base block.

    The same z as `AxisTest.z`: units that are zero or not finite in one of two blocks are left out. It
    screens: a cell that is chosen for its z must be tested by `axis_test` and corrected for all cells.

    Parameters
    ----------
    candidate, base
        Blocks of units by features, all of one shape.

    Returns
    -------
    array of float
        One row for each candidate block; NaN where a block has no variation, or too few units are usable.
    """
    mine, theirs = ([_Block.of(block) for block in blocks] for blocks in (candidate, base))
    found = np.full((len(mine), len(theirs)), math.nan)
    for row, a in enumerate(mine):
        for column, b in enumerate(theirs):
            if a.rows.shape != b.rows.shape:
                raise ValueError(f"blocks: expected one shape, got {a.rows.shape} and {b.rows.shape}")
            found[row, column] = _z(a, b)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    rows: Array
    """Of norm 1, or 0 where they cannot be used."""
    usable: npt.NDArray[np.bool_]
    centred: Array
    """The same minus the mean of the usable ones."""

    @classmethod
    def of(cls, block: npt.ArrayLike) -> _Block:
        rows = np.array(block, dtype=np.float32)
        norms = row_norms(rows)
        usable = np.isfinite(norms) & (norms > 0.0)
        rows[~usable] = 0.0
        rows = scaled(rows, unit_rows=True, rank_normalise=False)
        return cls(rows, usable, _centred(rows[usable]))


def _z(a: _Block, b: _Block) -> float:
    both = a.usable & b.usable
    # Most blocks have no unusable units; then nothing has to be centred again.
    mine, theirs = (
        block.centred if np.array_equal(block.usable, both) else _centred(block.rows[both])
        for block in (a, b)
    )
    if len(mine) < MIN_UNITS:
        return math.nan
    similarity = mine @ theirs.T
    sigma = float(np.linalg.norm(similarity)) / math.sqrt(len(mine) - 1)
    return float(np.trace(similarity)) / sigma if sigma > 0.0 else math.nan


def _centred(rows: Array) -> Array:
    return np.asarray(rows - rows.mean(axis=0)) if len(rows) else rows
