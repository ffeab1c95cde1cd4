"""Matrices as stored in a file, plain or packed along either axis, and grids of scales for blocks of them.

A tensor of more than two axes is the matrix of its lines. Numbers come out as float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from modelkin.message import say
from modelkin.source import ByteRange
from modelkin.tensors import (
    DTYPES,
    Array,
    TensorInfo,
    View,
    count_lines,
    decode,
    line_elements,
    looked_up,
    runs_of,
    unpacked,
)

from ._scheme import fail

Rows = npt.NDArray[np.int64]
"""Row numbers, ascending and distinct."""


class Matrix(Protocol):
    """A stored matrix."""

    @property
    def info(self) -> TensorInfo:
        """The tensor that holds it."""
        ...

    @property
    def align(self) -> int:
        """Stretches of columns begin at a multiple of this, and end at one or at the last column."""
        ...

    def ranges(self, rows: Rows, start: int, stop: int) -> list[ByteRange]:
        """Return the bytes of some columns of some rows."""
        ...

    def read(self, view: View, rows: Rows, start: int, stop: int) -> Array:
        """Return the numbers (rows, columns) as float32."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRows:
    """Codes packed along each row, whatever integer type the file declares."""

    info: TensorInfo
    bits: int
    n_columns: int
    offset: int = 0
    """Subtracted from each number."""
    add: int = 0
    """Added to each code, which then wraps around within its bits."""
    table: npt.NDArray[np.float32] | None = None
    """What codes stand for, if not themselves."""
    order: tuple[int, ...] | None = None
    """Which code of a group belongs to each column of the group."""

    @property
    def align(self) -> int:
        return 8 if self.order is None else len(self.order)

    @property
    def _row_bytes(self) -> int:
        return self.info.n_bytes // max(1, count_lines(self.info.shape))

    def ranges(self, rows: Rows, start: int, stop: int) -> list[ByteRange]:
        return _row_ranges(self.info, rows, self._row_bytes, *self._bytes(start, stop))

    def read(self, view: View, rows: Rows, start: int, stop: int) -> Array:
        first, last = self._bytes(start, stop)
        data = _row_bytes(view, self.info, rows, self._row_bytes, first, last)
        step = self.bits if self.bits in (3, 5, 6, 7) else 1
        if data.shape[1] % step:
            data = np.pad(data, ((0, 0), (0, -data.shape[1] % step)))
        codes = unpacked(data, self.bits)
        if self.order is not None:
            codes = codes.reshape(len(rows), -1, len(self.order))[..., list(self.order)]
            codes = codes.reshape(len(rows), -1)
        codes = codes[:, : stop - start]
        if self.add:
            codes = (codes + np.uint8(self.add)) & np.uint8((1 << self.bits) - 1)
        if self.table is not None:
            return looked_up(self.table, codes)
        values = codes.astype(np.float32)
        if self.offset:
            values -= np.float32(self.offset)
        return values

    def _bytes(self, start: int, stop: int) -> tuple[int, int]:
        # A row can end in unused bytes.
        last = self._row_bytes if stop == self.n_columns else -(-stop * self.bits // 8)
        return start * self.bits // 8, min(last, self._row_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedDown:
    """Codes packed along each column into integers of 32 bits: rows that share integers are read together."""

    info: TensorInfo
    bits: int
    n_rows: int

    @property
    def align(self) -> int:
        return 1

    @property
    def _unit(self) -> tuple[int, int]:
        """After how many rows a code begins at an integer again, and how many integers that is."""
        common = math.gcd(32, self.bits)
        return 32 // common, self.bits // common

    def ranges(self, rows: Rows, start: int, stop: int) -> list[ByteRange]:
        width = 4 * line_elements(self.info.shape)
        return _row_ranges(self.info, self._words(rows)[1], width, 4 * start, 4 * stop)

    def read(self, view: View, rows: Rows, start: int, stop: int) -> Array:
        unit, n_words = self._unit
        units, words = self._words(rows)
        width = 4 * line_elements(self.info.shape)
        data = _row_bytes(view, self.info, words, width, 4 * start, 4 * stop).view("<u4")
        short = len(units) * n_words - len(words)  # the last unit can end early
        data = np.pad(data, ((0, short), (0, 0))) if short else data
        data = data.reshape(len(units), n_words, -1)
        values = np.empty((len(units), unit, stop - start), np.float32)
        mask = np.uint32((1 << self.bits) - 1)
        for place in range(unit):
            word, shift = divmod(place * self.bits, 32)
            codes = data[:, word] >> np.uint32(shift)
            if shift + self.bits > 32:
                codes |= data[:, word + 1] << np.uint32(32 - shift)
            codes &= mask
            values[:, place] = codes
        flat: Array = values.reshape(-1, stop - start)
        places = np.searchsorted(units, rows // unit) * unit + rows % unit
        return flat if len(places) == len(flat) else flat[places]

    def _words(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the units that hold some rows, and their rows of integers."""
        unit, n_words = self._unit
        units = np.unique(rows // unit)
        words = (units[:, None] * n_words + np.arange(n_words)).reshape(-1)
        return units, words[words < count_lines(self.info.shape)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """Numbers as they are."""

    info: TensorInfo
    n_columns: int
    """Columns in use; a row can be longer than that."""

    @property
    def align(self) -> int:
        return 1

    @property
    def _width(self) -> int:
        return DTYPES[self.info.dtype].bits // 8

    @property
    def _row_bytes(self) -> int:
        return self._width * line_elements(self.info.shape)

    def ranges(self, rows: Rows, start: int, stop: int) -> list[ByteRange]:
        return _row_ranges(self.info, rows, self._row_bytes, *self._bytes(start, stop))

    def read(self, view: View, rows: Rows, start: int, stop: int) -> Array:
        first, last = self._bytes(start, stop)
        data = _row_bytes(view, self.info, rows, self._row_bytes, first, last)
        read = (last - first) // self._width
        values = decode(data.reshape(-1).data, self.info.dtype, len(rows) * read)
        values = values.astype(np.float32, copy=False).reshape(len(rows), read)
        return values[:, : stop - start]

    def _bytes(self, start: int, stop: int) -> tuple[int, int]:
        # Padding at the end is read too: whole rows are fewer ranges.
        last = self._row_bytes if stop == self.n_columns else stop * self._width
        return start * self._width, last


def _row_ranges(info: TensorInfo, rows: Rows, width: int, first: int, last: int) -> list[ByteRange]:
    """Return where the bytes `first` up to `last` of rows are: whole neighbouring rows are one range."""
    if first == 0 and last == width:
        return [ByteRange(info.start + a * width, info.start + b * width) for a, b in runs_of(rows)]
    return [
        ByteRange(info.start + place + first, info.start + place + last) for place in (rows * width).tolist()
    ]


def _row_bytes(view: View, info: TensorInfo, rows: Rows, width: int, first: int, last: int) -> Array:
    """Return those bytes as (rows, bytes)."""
    pieces = [
        np.frombuffer(view(info.file, item), np.uint8) for item in _row_ranges(info, rows, width, first, last)
    ]
    flat = pieces[0] if len(pieces) == 1 else np.concatenate([*pieces, np.empty(0, np.uint8)])
    return flat.reshape(len(rows), last - first)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleGrid:
    """Numbers for blocks of a stored matrix, or of a stack of them."""

    matrix: Matrix
    n_columns: int
    """Of the grid."""
    rows_each: int
    """Rows of one matrix of the stack of weights."""
    grid_rows_each: int
    """The grid's rows for one matrix."""
    row_block: int
    """Rows of weights that share a row of the grid."""
    column_block: int
    """Columns of weights that share a column of the grid."""
    row_groups: TensorInfo | None = None
    """Which row of the grid applies to each row of weights, if the file lists it."""
    column_groups: TensorInfo | None = None
    """The same for columns."""
    in_order: bool = True
    """Whether the list is in plain order: then only the needed rows of the grid are read."""

    @property
    def n_bytes(self) -> int:
        """Stored bytes."""
        lists = [info.n_bytes for info in (self.row_groups, self.column_groups) if info is not None]
        return self.matrix.info.n_bytes + sum(lists)

    @property
    def align(self) -> int:
        """Stretches of columns begin at multiples of this."""
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
        """Return the numbers: (rows, columns) of weights, or fewer if numpy can broadcast them."""
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
            fail(info, say("problem.quant-order"))
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
            fail(
                info, say("problem.quant-group-range", most=n_groups - 1, low=groups.min(), high=groups.max())
            )


def grid_along_rows(
    matrix: Matrix, *, n_rows: int, n_groups: int, group: int, column_groups: TensorInfo | None = None
) -> ScaleGrid:
    """Return a grid with a row per row of weights, in which `group` neighbours share a number."""
    return ScaleGrid(
        matrix=matrix,
        n_columns=n_groups,
        rows_each=n_rows,
        grid_rows_each=n_rows,
        row_block=1,
        column_block=group,
        column_groups=column_groups,
    )


def whole_grid(matrix: Matrix, weights: tuple[int, ...]) -> ScaleGrid:
    """Return a grid of one number that applies to all weights of a shape."""
    n_rows = count_lines(weights)
    return ScaleGrid(
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
