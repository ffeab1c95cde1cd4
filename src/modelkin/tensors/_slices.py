"""Which part of a tensor is wanted, and which bytes of its file that takes. Nothing here reads.

A selection is reduced to stretches of elements in C order, each stretch to one byte range, widened to whole
bytes where a packed format demands it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from modelkin.errors import BadSelection
from modelkin.source import ByteRange

from ._dtypes import DTYPES, Array, Buffer, decode
from ._index import TensorInfo
from ._names import quoted


@dataclass(frozen=True, slots=True)
class Whole:
    """All of a tensor, in its shape."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows `start` up to, not including, `stop` of the first axis."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ScatteredRows:
    """Single rows of the first axis; order and repetitions are kept in the result."""

    rows: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Stretches of elements in C order, each ``(start, stop)``; the result is flat, one after another."""

    blocks: tuple[tuple[int, int], ...] = field(repr=False)


Selection: TypeAlias = Whole | Rows | ScatteredRows | Blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSlice:
    """What is wanted of one tensor.

    A scalar counts as one row of one element; the rows of a one-dimensional tensor are its elements.
    """

    name: str
    selection: Selection

    @classmethod
    def whole(cls, name: str) -> TensorSlice:
        """Want all of it."""
        return cls(name=name, selection=Whole())

    @classmethod
    def rows(cls, name: str, start: SupportsIndex, stop: SupportsIndex) -> TensorSlice:
        """Want the rows from `start` up to, not including, `stop`."""
        return cls(name=name, selection=Rows(operator.index(start), operator.index(stop)))

    @classmethod
    def scattered(cls, name: str, rows: Iterable[SupportsIndex]) -> TensorSlice:
        """Want these rows, in this order."""
        return cls(name=name, selection=ScatteredRows(tuple(map(operator.index, rows))))

    @classmethod
    def blocks(cls, name: str, blocks: Iterable[tuple[SupportsIndex, SupportsIndex]]) -> TensorSlice:
        """Want these stretches of elements, flat and one after another."""
        pairs = tuple((operator.index(start), operator.index(stop)) for start, stop in blocks)
        return cls(name=name, selection=Blocks(pairs))


@dataclass(frozen=True, slots=True)
class Piece:
    """One stretch of elements as bytes of the file."""

    range: ByteRange
    skip: int
    """Leading elements in those bytes that are not wanted."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePlan:
    """Which bytes a slice takes, and how an array is made of them."""

    info: TensorInfo
    pieces: tuple[Piece, ...]
    """No empty ones. They overlap where blocks do, or where two of a packed format share a byte."""
    shape: tuple[int, ...]
    """Of the result."""
    gather: npt.NDArray[np.intp] | None = None
    """For scattered rows out of order: which of the rows read stands at each place of the result."""

    @property
    def ranges(self) -> list[ByteRange]:
        """The byte ranges of the pieces, in their order, not merged."""
        return [piece.range for piece in self.pieces]

    def assemble(
        self, view: Callable[[ByteRange], Buffer], *, decoder: Callable[..., Array] = decode
    ) -> Array:
        """Make the array.

        Parameters
        ----------
        view
            Gives the bytes of each piece's range.
        decoder
            `decode`, or `raw_bits` for the stored bits.
        """
        dtype = self.info.dtype
        if len(self.pieces) == 1:
            piece = self.pieces[0]
            flat = decoder(view(piece.range), dtype, piece.count, skip=piece.skip)
        else:
            flat = np.empty(sum(piece.count for piece in self.pieces), decoder(b"", dtype, 0).dtype)
            position = 0
            for piece in self.pieces:
                flat[position : position + piece.count] = decoder(
                    view(piece.range), dtype, piece.count, skip=piece.skip
                )
                position += piece.count
        if self.gather is None:
            return flat.reshape(self.shape)
        read = flat.reshape(-1, *self.shape[1:]) if flat.size else flat.reshape(0, *self.shape[1:])
        taken: Array = read[self.gather] if flat.size else np.empty(self.shape, flat.dtype)
        return taken


def plan_slice(wanted: TensorSlice, info: TensorInfo) -> SlicePlan:
    """Turn a slice of a tensor into byte ranges and the way back to an array.

    Raises
    ------
    BadSelection
        The tensor has no such rows or elements. Negative numbers do not count from the end.
    """
    match wanted.selection:
        case Whole():
            return SlicePlan(info=info, pieces=_pieces(info, [(0, info.n_elements)]), shape=info.shape)
        case Rows(start, stop):
            _check(info, start, stop, "rows", info.n_rows)
            stretch = (start * info.row_elements, stop * info.row_elements)
            return SlicePlan(
                info=info, pieces=_pieces(info, [stretch]), shape=(stop - start, *info.shape[1:])
            )
        case ScatteredRows(rows):
            return _scattered_plan(info, rows)
        case Blocks(blocks):
            for start, stop in blocks:
                _check(info, start, stop, "elements", info.n_elements)
            count = sum(stop - start for start, stop in blocks)
            return SlicePlan(info=info, pieces=_pieces(info, blocks), shape=(count,))


def piece_of(info: TensorInfo, start: int, stop: int) -> Piece:
    """Return the bytes that hold the elements `start` up to `stop`, widened to whole bytes."""
    dtype = DTYPES[info.dtype]
    skip = start % dtype.group
    first = info.start + (start - skip) // dtype.group * dtype.group_bytes
    return Piece(ByteRange(first, info.start + dtype.n_bytes(stop)), skip, stop - start)


def _pieces(info: TensorInfo, stretches: Iterable[tuple[int, int]]) -> tuple[Piece, ...]:
    return tuple(piece_of(info, start, stop) for start, stop in stretches if start < stop)


def _scattered_plan(info: TensorInfo, rows: Sequence[int]) -> SlicePlan:
    for row in rows:
        if not 0 <= row < info.n_rows:
            raise BadSelection(
                f"tensor {quoted(info.name)}", f"expected rows from 0 up to {info.n_rows - 1}, got {row}"
            )
    unique, inverse = np.unique(np.asarray(rows, np.int64), return_inverse=True)
    # Neighbouring rows are one stretch: fewer and longer ranges.
    runs = np.split(unique, np.flatnonzero(np.diff(unique) != 1) + 1) if unique.size else []
    width = info.row_elements
    stretches = [(int(run[0]) * width, (int(run[-1]) + 1) * width) for run in runs]
    in_order = np.array_equal(inverse, np.arange(unique.size))
    return SlicePlan(
        info=info,
        pieces=_pieces(info, stretches),
        shape=(len(rows), *info.shape[1:]),
        gather=None if in_order else inverse.reshape(-1),
    )


def _check(info: TensorInfo, start: int, stop: int, what: str, available: int) -> None:
    if not 0 <= start <= stop <= available:
        raise BadSelection(
            f"tensor {quoted(info.name)}",
            f"expected {what} with 0 <= start <= stop <= {available}, got {start} to {stop}",
        )
