"""Units of one tensor as rows: which bytes to read, and how to turn these into (units x features).

A *unit* is one index of an exchangeable space: an MLP unit, a value dimension of a head, an expert. Whatever
the layout (input-first, fused, experts stacked), the same units of two models end up as the same rows.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.architecture import RoleEntry
from modelkin.tensors import Array, TensorInfo, TensorSlice

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitBlock:
    """Some units of one role, as bytes to read and as the matrix they become."""

    slice: TensorSlice
    shape: tuple[int, int]
    """Rows and columns of the stored stretch."""
    pick_rows: npt.NDArray[np.intp] | None
    pick_columns: npt.NDArray[np.intp] | None
    transposed: bool
    """Whether units run along the columns of the stored stretch."""

    def matrix(self, values: Array) -> Matrix:
        """Turn what was read into one row per unit."""
        stored = np.asarray(values, dtype=np.float32).reshape(self.shape)
        if self.pick_rows is not None:
            stored = stored[self.pick_rows]
        if self.pick_columns is not None:
            stored = stored[:, self.pick_columns]
        return stored.T if self.transposed else stored


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitChoice:
    """Which units and features are wanted; the same for both models."""

    first_unit: int
    n_units: int
    first_feature: int = 0
    n_features: int = sys.maxsize
    """All of them, if not given. Where units run along the columns, each feature is one stored row; elsewhere
    features cost nothing."""


def unit_axis(entry: RoleEntry, space: str) -> int | None:
    """Return the axis whose fastest space is the given one, or None."""
    for axis, spaces in enumerate(entry.axes):
        if spaces and spaces[-1] == space:
            return axis
    return None


def unit_block(
    entry: RoleEntry, info: TensorInfo, *, space: str, choice: UnitChoice, expert: int | None = None
) -> UnitBlock:
    """Plan the reading of some units of one tensor.

    The units are indices of `space`, and are counted along the whole axis: for ``kv_heads * v_dim``, unit 130
    of heads of 128 is the third dimension of the second head. `expert` says which one of stacked experts.
    """
    axis = unit_axis(entry, space)
    if axis is None:
        raise ValueError(f"{info.name} has no axis {space!r}")
    n_rows, n_columns = info.shape[-2:]
    row_axis = len(info.shape) - 2
    along_rows = axis == row_axis
    features = _indices(entry, row_axis + along_rows, info.shape[row_axis + along_rows])
    features = features[choice.first_feature :][: choice.n_features]
    units = _indices(entry, axis, info.shape[axis])[choice.first_unit :][: choice.n_units]
    rows, columns = (units, features) if along_rows else (features, units)
    first, last = int(rows.min()), int(rows.max())
    # Whole rows cost as much as parts, unless bytes run along the columns.
    start, stop = (int(columns.min()), int(columns.max()) + 1) if info.columns_first else (0, n_columns)
    begin = _lead(info, expert) * n_rows
    return UnitBlock(
        slice=_stretches(info.name, (begin + first, begin + last + 1), (start, stop), n_columns),
        shape=(last + 1 - first, stop - start),
        pick_rows=None if last - first + 1 == len(rows) else rows - first,
        pick_columns=None if stop - start == len(columns) else columns - start,
        transposed=not along_rows,
    )


def units_across(entry: RoleEntry, info: TensorInfo, space: str) -> bool:
    """Say whether units lie across the bytes of a tensor: then one unit costs as much as all of them.

    Units that run along the columns do, and so do rows of a tensor whose bytes run along the columns.
    """
    return (unit_axis(entry, space) == len(info.shape) - 1) != info.columns_first


def step_bytes(info: TensorInfo) -> int:
    """Return the bytes of one step across the bytes of a matrix: what a read costs at least."""
    length = info.shape[-2] if info.columns_first else info.shape[-1]
    return info.n_bytes * length // max(1, info.n_elements)


def n_units(entry: RoleEntry, info: TensorInfo, space: str) -> int:
    """Return how many units the entry has along the axis of a space."""
    axis = unit_axis(entry, space)
    if axis is None:
        return 0
    return len(_indices(entry, axis, info.shape[axis]))


def n_features(entry: RoleEntry, info: TensorInfo, space: str) -> int:
    """Return how many features each unit has."""
    axis = unit_axis(entry, space)
    other = len(info.shape) - 2 if axis == len(info.shape) - 1 else len(info.shape) - 1
    return len(_indices(entry, other, info.shape[other]))


def _lead(info: TensorInfo, expert: int | None) -> int:
    if len(info.shape) == 2:
        return 0
    if len(info.shape) != 3 or expert is None:
        raise ValueError(f"{info.name} has {len(info.shape)} axes; an expert must be named")
    return expert


def _indices(entry: RoleEntry, axis: int, length: int) -> npt.NDArray[np.intp]:
    segment = entry.segment
    if segment is None or segment.axis != axis:
        return np.arange(length, dtype=np.intp)
    return np.concatenate([np.arange(start, stop, dtype=np.intp) for start, stop in segment.ranges()])


def _stretches(name: str, rows: tuple[int, int], columns: tuple[int, int], width: int) -> TensorSlice:
    if columns == (0, width):
        return TensorSlice.blocks(name, [(rows[0] * width, rows[1] * width)])
    return TensorSlice.blocks(
        name, [(row * width + columns[0], row * width + columns[1]) for row in range(*rows)]
    )


def spread(n_layers: int, n_wanted: int) -> tuple[int, ...]:
    """Choose layers spread evenly over the depth, including both ends if there are enough.

    >>> spread(32, 4)
    (0, 10, 21, 31)
    >>> spread(3, 4)
    (0, 1, 2)
    """
    if n_wanted >= n_layers:
        return tuple(range(n_layers))
    if n_wanted == 1:
        return (n_layers // 2,)
    return tuple(math.floor(i * (n_layers - 1) / (n_wanted - 1) + 0.5) for i in range(n_wanted))
