"""Which part of a tensor is wanted, and which bytes of its file that takes. Nothing here reads.

A selection is reduced to stretches of elements in C order. In a plain tensor each stretch is one byte range,
widened to whole bytes where a packed format requires it; in any other it is widened to whole lines, and the
tensor's `Storage` says which bytes these take.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from modelkin.errors import BadSelection
from modelkin.message import say
from modelkin.source import ByteRange
from modelkin.untrusted import quoted

from ._codes import Array
from ._dtypes import DTYPES, decode, encode, raw_bits
from ._index import TensorInfo
from ._storage import ColumnStorage, LinePlan, LineRuns, View, line_elements, line_runs


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
    """Single rows of the first axis; the result keeps their order and repetitions."""

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
        """Ask for all of it."""
        return cls(name=name, selection=Whole())

    @classmethod
    def rows(cls, name: str, start: SupportsIndex, stop: SupportsIndex) -> TensorSlice:
        """Ask for the rows from `start` up to, not including, `stop`."""
        return cls(name=name, selection=Rows(operator.index(start), operator.index(stop)))

    @classmethod
    def scattered(cls, name: str, rows: Iterable[SupportsIndex]) -> TensorSlice:
        """Ask for these rows, in this order."""
        return cls(name=name, selection=ScatteredRows(tuple(map(operator.index, rows))))

    @classmethod
    def blocks(cls, name: str, blocks: Iterable[tuple[SupportsIndex, SupportsIndex]]) -> TensorSlice:
        """Ask for these stretches of elements, flat and one after another."""
        pairs = tuple((operator.index(start), operator.index(stop)) for start, stop in blocks)
        return cls(name=name, selection=Blocks(pairs))


@dataclass(frozen=True, slots=True)
class Piece:
    """One stretch of elements as bytes of the file."""

    range: ByteRange
    skip: int
    """Leading elements in those bytes that are not wanted."""
    count: int


class Stretches(Protocol):
    """Some stretches of one tensor's elements, planned."""

    @property
    def ranges(self) -> Mapping[str, Sequence[ByteRange]]:
        """The bytes they take, by file, not merged."""
        ...

    def flat(self, view: View, *, raw: bool) -> Array:
        """Return the elements, one stretch after another, as numbers or as stored bits."""
        ...


@dataclass(frozen=True, slots=True)
class PlainStretches:
    """Stretches of a tensor that is a plain run of its numbers."""

    info: TensorInfo
    pieces: tuple[Piece, ...]
    """None is empty. They overlap where blocks do, or where two of a packed format share a byte."""

    @property
    def ranges(self) -> Mapping[str, Sequence[ByteRange]]:
        """The byte ranges of the pieces, in their order, not merged."""
        return {self.info.file: [piece.range for piece in self.pieces]} if self.pieces else {}

    def flat(self, view: View, *, raw: bool) -> Array:
        """Decode piece after piece."""
        decoder, file, dtype = raw_bits if raw else decode, self.info.file, self.info.dtype
        if len(self.pieces) == 1:
            piece = self.pieces[0]
            return decoder(view(file, piece.range), dtype, piece.count, skip=piece.skip)
        flat = np.empty(sum(piece.count for piece in self.pieces), decoder(b"", dtype, 0).dtype)
        position = 0
        for piece in self.pieces:
            flat[position : position + piece.count] = decoder(
                view(file, piece.range), dtype, piece.count, skip=piece.skip
            )
            position += piece.count
        return flat


@dataclass(frozen=True, slots=True)
class CodedStretches:
    """Stretches of a tensor that its `Storage` reads by lines."""

    info: TensorInfo
    stretches: tuple[tuple[int, int], ...]
    """None is empty."""
    runs: LineRuns
    columns: tuple[int, int]
    """Which elements of the lines are read: all, unless the storage can leave some out."""
    lines: LinePlan

    @property
    def ranges(self) -> Mapping[str, Sequence[ByteRange]]:
        """The byte ranges of the lines."""
        return self.lines.ranges

    def flat(self, view: View, *, raw: bool) -> Array:
        """Make the lines, then cut the stretches out of them."""
        first, last = self.columns
        width, read = line_elements(self.info.shape), last - first
        # Numbers of a hostile file may overflow or be NaN; then so is the result, without a warning.
        with np.errstate(all="ignore"):
            lines = self.lines.build(view)
        expected = sum(stop - start for start, stop in self.runs), read
        if lines.shape != expected:
            raise RuntimeError(f"{self.info.name}: expected lines of shape {expected}, got {lines.shape}")
        values = lines.reshape(-1)
        # Index of each run's first line among the lines read: a stretch lies inside one run.
        firsts = [start for start, _ in self.runs]
        places = np.cumsum([0, *(stop - start for start, stop in self.runs)])
        parts = []
        for start, stop in self.stretches:
            line, column = divmod(start, width)
            run = bisect_right(firsts, line) - 1
            offset = (int(places[run]) + line - firsts[run]) * read + column - first
            parts.append(values[offset : offset + stop - start])
        flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return _bits_of(flat, self.info.dtype) if raw else flat


def _bits_of(values: Array, dtype: str) -> Array:
    """Return the bits of rearranged numbers; for codes, the bits of the numbers they stand for."""
    if dtype in DTYPES:
        return raw_bits(encode(values, dtype), dtype, values.size)
    bits: Array = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    return bits


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePlan:
    """Which bytes a slice takes, and how they become an array."""

    info: TensorInfo
    stretches: Stretches | None
    """None when the slice is empty."""
    shape: tuple[int, ...]
    """Of the result."""
    gather: npt.NDArray[np.intp] | None = None
    """For scattered rows out of order: which of the rows read goes to each place of the result."""

    @property
    def ranges(self) -> Mapping[str, Sequence[ByteRange]]:
        """The byte ranges by file, not merged."""
        return {} if self.stretches is None else self.stretches.ranges

    def assemble(self, view: View, *, raw: bool = False) -> Array:
        """Make the array of the bytes that `view` gives for each range: of numbers, or of the stored bits."""
        if self.stretches is None:
            return np.empty(self.shape, _element_type(self.info, raw=raw))
        flat = self.stretches.flat(view, raw=raw)
        if self.gather is None:
            return flat.reshape(self.shape)
        taken: Array = flat.reshape(-1, *self.shape[1:])[self.gather]
        return taken


def _element_type(info: TensorInfo, *, raw: bool) -> np.dtype[Any]:
    if info.dtype not in DTYPES:
        return np.dtype(np.uint32 if raw else np.float32)
    return (raw_bits if raw else decode)(b"", info.dtype, 0).dtype


def plan_slice(wanted: TensorSlice, info: TensorInfo) -> SlicePlan:
    """Turn a slice of a tensor into byte ranges and the way back to an array.

    Raises `BadSelection` if there are no such rows or elements. Negative numbers do not count from the end.
    """
    match wanted.selection:
        case Whole():
            return SlicePlan(info=info, stretches=_planned(info, [(0, info.n_elements)]), shape=info.shape)
        case Rows(start, stop):
            _check(info, start, stop, "rows", info.n_rows)
            stretch = (start * info.row_elements, stop * info.row_elements)
            return SlicePlan(
                info=info, stretches=_planned(info, [stretch]), shape=(stop - start, *info.shape[1:])
            )
        case ScatteredRows(rows):
            return _scattered_plan(info, rows)
        case Blocks(blocks):
            for start, stop in blocks:
                _check(info, start, stop, "elements", info.n_elements)
            count = sum(stop - start for start, stop in blocks)
            return SlicePlan(info=info, stretches=_planned(info, blocks), shape=(count,))


def piece_of(info: TensorInfo, start: int, stop: int) -> Piece:
    """Return the bytes that hold the elements `start` up to `stop`, widened to whole bytes."""
    dtype = DTYPES[info.dtype]
    skip = start % dtype.group
    first = info.start + (start - skip) // dtype.group * dtype.group_bytes
    return Piece(ByteRange(first, info.start + dtype.n_bytes(stop)), skip, stop - start)


def _planned(info: TensorInfo, stretches: Iterable[tuple[int, int]]) -> Stretches | None:
    wanted = tuple((start, stop) for start, stop in stretches if start < stop)
    if not wanted:
        return None
    if info.storage is None:
        return PlainStretches(info, tuple(piece_of(info, start, stop) for start, stop in wanted))
    width = line_elements(info.shape)
    runs = line_runs(wanted, width)
    if isinstance(info.storage, ColumnStorage) and (columns := _columns(wanted, width)) != (0, width):
        return CodedStretches(info, wanted, runs, columns, info.storage.plan_window(runs, columns))
    return CodedStretches(info, wanted, runs, (0, width), info.storage.plan(runs))


def _columns(stretches: Iterable[tuple[int, int]], width: int) -> tuple[int, int]:
    """Return which columns cover all stretches: all of them, if one runs over into the next line."""
    first, last = width, 0
    for start, stop in stretches:
        column = start % width
        if column + stop - start > width:
            return 0, width
        first, last = min(first, column), max(last, column + stop - start)
    return first, last


def _scattered_plan(info: TensorInfo, rows: Sequence[int]) -> SlicePlan:
    for row in rows:
        if not 0 <= row < info.n_rows:
            raise BadSelection(
                say("part.tensor", name=quoted(info.name)),
                say("problem.rows-range", most=info.n_rows - 1, got=row),
            )
    unique, inverse = np.unique(np.asarray(rows, np.int64), return_inverse=True)
    # Neighbouring rows are one stretch: fewer and longer ranges.
    runs = np.split(unique, np.flatnonzero(np.diff(unique) != 1) + 1) if unique.size else []
    width = info.row_elements
    stretches = [(int(run[0]) * width, (int(run[-1]) + 1) * width) for run in runs]
    in_order = np.array_equal(inverse, np.arange(unique.size))
    return SlicePlan(
        info=info,
        stretches=_planned(info, stretches),
        shape=(len(rows), *info.shape[1:]),
        gather=None if in_order else inverse.reshape(-1),
    )


def _check(info: TensorInfo, start: int, stop: int, what: str, available: int) -> None:
    if not 0 <= start <= stop <= available:
        raise BadSelection(
            say("part.tensor", name=quoted(info.name)),
            say("problem.slice-range", what=what, most=available, start=start, stop=stop),
        )
