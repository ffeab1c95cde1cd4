"""Scales and zero points: a small matrix of which each number counts for a block of weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modelkin.source import ByteRange
from modelkin.tensors import Array, TensorInfo, View, count_lines

from ._checks import fail
from ._matrix import Matrix, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Numbers for blocks of a stored matrix, or of a stack of them."""

    matrix: Matrix
    n_columns: int
    """Of the grid."""
    rows_each: int
    """Rows of one matrix of the stack of weights."""
    grid_rows_each: int
    """Rows of the grid for that."""
    row_block: int
    """Rows of weights that share a row of the grid."""
    column_block: int
    """Columns of weights that share a column of the grid."""
    row_groups: TensorInfo | None = None
    """Which row of the grid counts for each row of weights, where somebody has listed that."""
    column_groups: TensorInfo | None = None
    """The same for columns."""
    in_order: bool = True
    """Whether the list says nothing new: then only the rows of the grid that count are read."""

    @property
    def n_bytes(self) -> int:
        """Stored bytes."""
        lists = [info.n_bytes for info in (self.row_groups, self.column_groups) if info is not None]
        return self.matrix.info.n_bytes + sum(lists)

    @property
    def align(self) -> int:
        """Where stretches of columns may begin: at multiples of this."""
        return self.matrix.align * self.column_block if self.matrix.align > 1 else 1

    def ranges(self, rows: Rows, start: int, stop: int) -> list[tuple[str, ByteRange]]:
        """Return the bytes for some columns of some rows of weights, with their files."""
        file = self.matrix.info.file
        wanted = [(file, item) for item in self.matrix.ranges(self._rows(rows), *self._columns(start, stop))]
        if self.row_groups is not None:
            wanted += [(self.row_groups.file, item) for item in _items(self.row_groups, rows)]
        if self.column_groups is not None:
            info = self.column_groups
            wanted.append((info.file, ByteRange(info.start, info.stop)))
        return wanted

    def read(self, view: View, rows: Rows, start: int, stop: int) -> Array:
        """Return the numbers: (rows, columns) of weights, or less where that can be spread by numpy."""
        first, last = self._columns(start, stop)
        needed = self._rows(rows)
        values = self.matrix.read(view, needed, first, last)
        if self.column_groups is not None:
            return values[np.searchsorted(needed, self._grid_rows(rows))][:, self._listed(view)[start:stop]]
        if self.row_groups is not None:
            values = values[np.searchsorted(needed, self._grouped(view, rows))]
        elif len(needed) < len(rows):
            values = values[np.searchsorted(needed, self._grid_rows(rows))]
        return values

    def applied(self, operation: np.ufunc, weights: Array, values: Array, start: int) -> None:
        """Apply numbers to the weights of columns from `start` on, in place."""
        n_rows, n_columns = weights.shape
        block = self.column_block
        if self.column_groups is not None or block == 1 or values.shape[1] == 1:
            operation(weights, values, out=weights)
        elif start % block == 0 and n_columns % block == 0:
            blocks = weights.reshape(n_rows, -1, block)
            operation(blocks, values[:, :, None], out=blocks)
        else:
            skip = start % block
            spread = np.repeat(values, block, axis=1)[:, skip : skip + n_columns]
            operation(weights, spread, out=weights)

    def _columns(self, start: int, stop: int) -> tuple[int, int]:
        if self.column_groups is not None:
            return 0, self.n_columns
        return start // self.column_block, min(-(-stop // self.column_block), self.n_columns)

    def _rows(self, rows: Rows) -> Rows:
        """Return the rows of the grid that have to be read."""
        if self.row_groups is not None and not self.in_order:
            return np.arange(self.grid_rows_each, dtype=np.int64)
        return np.unique(self._grid_rows(rows))

    def _grid_rows(self, rows: Rows) -> Rows:
        lead, row = np.divmod(rows, self.rows_each)
        numbers: Rows = lead * self.grid_rows_each + row // self.row_block
        return numbers

    def _grouped(self, view: View, rows: Rows) -> Rows:
        """Return the row of the grid for each row of weights, as listed."""
        info = self.row_groups
        assert info is not None
        data = b"".join(bytes(view(info.file, item)) for item in _items(info, rows))
        groups = np.frombuffer(data, "<i4").astype(np.int64)
        if self.in_order and not np.array_equal(groups, self._grid_rows(rows)):
            fail(info, "expected groups in order, because the config says so, got another order")
        self._check(info, groups, self.grid_rows_each)
        return groups

    def _listed(self, view: View) -> Rows:
        info = self.column_groups
        assert info is not None
        groups = np.frombuffer(view(info.file, ByteRange(info.start, info.stop)), "<i4").astype(np.int64)
        if (groups == -1).all():  # a list that was never filled in
            return np.arange(len(groups), dtype=np.int64) // self.column_block
        self._check(info, groups, self.n_columns)
        return groups

    def _check(self, info: TensorInfo, groups: Rows, n_groups: int) -> None:
        if groups.size and not 0 <= groups.min() <= groups.max() < n_groups:
            fail(info, f"expected groups from 0 up to {n_groups - 1}, got {groups.min()} to {groups.max()}")


def whole_grid(matrix: Matrix, weights: tuple[int, ...]) -> Grid:
    """Return a grid of one number that counts for all weights of a shape."""
    n_rows = count_lines(weights)
    return Grid(
        matrix=matrix,
        n_columns=1,
        rows_each=n_rows,
        grid_rows_each=1,
        row_block=n_rows,
        column_block=weights[-1],
    )


def _items(info: TensorInfo, rows: Rows) -> list[ByteRange]:
    """Return the bytes of the entries of a list of int32 for some rows, in their order."""
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    parts = np.split(rows, breaks) if rows.size else []
    return [ByteRange(info.start + 4 * int(one[0]), info.start + 4 * int(one[-1]) + 4) for one in parts]
