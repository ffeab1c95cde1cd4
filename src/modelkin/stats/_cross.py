"""The statistic of the axis test for many pairs of blocks at once: which of them are worth a full test."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ._ranks import Array
from ._units import row_norms, scaled


def cross_z(candidate: Sequence[npt.ArrayLike], base: Sequence[npt.ArrayLike]) -> npt.NDArray[np.float64]:
    """Return z of the axis test for every candidate block with every base block.

    The same z as `AxisTest.z` where all units are usable. It screens: a cell that is chosen for its z must be
    tested by `axis_test` and corrected for all cells.

    Parameters
    ----------
    candidate, base
        Blocks of units by features, all of one shape.

    Returns
    -------
    array of float
        One row for each candidate block; NaN where a block has no variation.
    """
    mine, theirs = ([_centred_units(block) for block in blocks] for blocks in (candidate, base))
    found = np.full((len(mine), len(theirs)), math.nan)
    for row, a in enumerate(mine):
        for column, b in enumerate(theirs):
            if a.shape != b.shape:
                raise ValueError(f"blocks: expected one shape, got {a.shape} and {b.shape}")
            similarity = a @ b.T
            sigma = float(np.linalg.norm(similarity)) / math.sqrt(max(1, len(a) - 1))
            if sigma > 0.0:
                found[row, column] = float(np.trace(similarity)) / sigma
    return found


def _centred_units(block: npt.ArrayLike) -> Array:
    rows = np.array(block, dtype=np.float32)
    rows[~np.isfinite(row_norms(rows))] = 0.0  # left out of sums; the full test leaves them out of n as well
    rows = scaled(rows, unit_rows=True, rank_normalise=False)
    return np.asarray(np.nan_to_num(rows - rows.mean(axis=0), copy=False))
