"""How tensors of a GGUF file are read by lines: blocks decoded, rows put back, columns turned into lines.

An order answers one question: which row of which stored tensor is line i? Formulas, not tables: nothing here
grows with the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from modelkin.source import ByteRange
from modelkin.tensors import Array, LinePlan, LineRuns, Numbers, View, across_rows, few_stretches, numbers_of

from .types import GgmlType, decode_rows


class Order(Protocol):
    """A map from lines to stored rows. Immutable."""

    def places(self, lines: Numbers) -> tuple[Numbers, Numbers]:
        """Return the number of the stored tensor and the row in it, for each line."""
        ...


@dataclass(frozen=True, slots=True)
class Straight:
    """Line after line, as stored."""

    def places(self, lines: Numbers) -> tuple[Numbers, Numbers]:
        """Return the lines themselves."""
        return np.zeros_like(lines), lines


@dataclass(frozen=True, slots=True)
class RopeRows:
    """Rows of queries or keys that were put in pairs.

    A head rotates dimension i together with i + half. llama.cpp wants the two next to each other, so its
    converter writes 0, half, 1, half + 1, and so on.
    """

    head_dim: int

    def places(self, lines: Numbers) -> tuple[Numbers, Numbers]:
        """Find the position in the pairs."""
        half = self.head_dim // 2
        head, inside = np.divmod(lines, self.head_dim)
        side, pair = np.divmod(inside, half)
        return np.zeros_like(lines), head * self.head_dim + 2 * pair + side


@dataclass(frozen=True, slots=True)
class Groups:
    """Queries, keys and values that belong together per group of heads, but were stored by kind.

    `sizes` are the rows of one group by kind, `parts` which stored tensor holds each kind, `firsts` its first
    row in there, and `head_dims` for a kind whose rows were paired as `RopeRows` says; 0 for others.
    """

    sizes: tuple[int, ...]
    parts: tuple[int, ...]
    firsts: tuple[int, ...]
    head_dims: tuple[int, ...]

    def places(self, lines: Numbers) -> tuple[Numbers, Numbers]:
        """Find group and kind, then the position among all rows of the kind."""
        ends = np.cumsum(self.sizes)
        group, inside = np.divmod(lines, int(ends[-1]))
        kind = np.searchsorted(ends, inside, side="right")
        sizes = np.array(self.sizes, np.int64)
        rows = group * sizes[kind] + inside - (ends - sizes)[kind]
        for number, head_dim in enumerate(self.head_dims):
            if head_dim:
                mine = kind == number
                rows[mine] = RopeRows(head_dim).places(rows[mine])[1]
        return np.array(self.parts, np.int64)[kind], rows + np.array(self.firsts, np.int64)[kind]


_NUMBERS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRows:
    """A tensor as the file has it: rows of blocks, one after another."""

    file: str
    start: int
    type: GgmlType
    n_rows: int
    width: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.type.row_bytes(self.width)

    @property
    def n_bytes(self) -> int:
        """Bytes of all rows."""
        return self.n_rows * self.row_bytes

    @property
    def stop(self) -> int:
        """Offset just after the last byte."""
        return self.start + self.n_bytes

    def rows_range(self, first: int, last: int) -> ByteRange:
        """Return the bytes of some rows."""
        return ByteRange(self.start + first * self.row_bytes, self.start + last * self.row_bytes)

    def read(self, view: View, first: int, last: int) -> Array:
        """Return some rows as numbers; they must have been planned."""
        data = view(self.file, self.rows_range(first, last))
        return decode_rows(data, self.type, n_rows=last - first, width=self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class PickedRows:
    """A tensor whose lines are rows of one or more stored tensors of equal width."""

    parts: tuple[BlockRows, ...]
    order: Order
    n_bytes: int
    shift: float = 0.0
    """Added to every number."""

    def plan(self, runs: LineRuns) -> LinePlan:
        """Find the rows of the lines, and read each once."""
        part, row = self.order.places(numbers_of(runs))
        ranges: dict[str, list[ByteRange]] = {}
        steps = []
        for number in range(len(self.parts)):
            lines = np.flatnonzero(part == number)
            if not lines.size:
                continue
            wanted, which = np.unique(row[lines], return_inverse=True)
            stretches = _stretches(wanted)
            stored = self.parts[number]
            ranges.setdefault(stored.file, []).extend(stored.rows_range(*stretch) for stretch in stretches)
            steps.append((stored, stretches, wanted, which.reshape(-1), lines))
        return LinePlan(ranges=ranges, build=partial(self._built, steps, part.size))

    def _built(
        self,
        steps: list[tuple[BlockRows, list[tuple[int, int]], Numbers, Numbers, Numbers]],
        n_lines: int,
        view: View,
    ) -> Array:
        if len(steps) == 1 and _in_order(steps[0]):
            stored, stretches, *_ = steps[0]
            pieces = [stored.read(view, first, last) for first, last in stretches]
            return self._shifted(pieces[0] if len(pieces) == 1 else np.concatenate(pieces))
        values = np.empty((n_lines, self.parts[0].width), np.float32)
        for stored, stretches, wanted, which, lines in steps:
            read = np.concatenate([stored.read(view, first, last) for first, last in stretches])
            rows = _positions(wanted, stretches)
            values[lines] = read[rows[which]]
        return self._shifted(values)

    def _shifted(self, values: Array) -> Array:
        return values + np.float32(self.shift) if self.shift else values


def _in_order(step: tuple[BlockRows, list[tuple[int, int]], Numbers, Numbers, Numbers]) -> bool:
    """Say whether the rows read are exactly the lines, in order."""
    _, stretches, wanted, which, _ = step
    n_read = sum(last - first for first, last in stretches)
    return n_read == wanted.size == which.size and bool((which == np.arange(which.size)).all())


def _positions(wanted: Numbers, stretches: list[tuple[int, int]]) -> Numbers:
    """Return the positions of wanted rows within all stretches that were read."""
    firsts = np.array([first for first, _ in stretches], np.int64)
    lengths = np.array([last - first for first, last in stretches], np.int64)
    before = np.cumsum(lengths) - lengths
    number = np.searchsorted(firsts, wanted, side="right") - 1
    positions: Numbers = before[number] + wanted - firsts[number]
    return positions


def _stretches(rows: Numbers) -> list[tuple[int, int]]:
    firsts, lasts = few_stretches(rows, rows + 1)
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class PickedNumbers:
    """A vector whose numbers are elsewhere in the file: a bias of rows that were moved, a shifted gain."""

    parts: tuple[BlockRows, ...]
    """Each is one row."""
    order: Order
    length: int
    n_bytes: int
    shift: float = 0.0

    def plan(self, runs: LineRuns) -> LinePlan:
        """Read all of it: a vector is one line."""
        ranges: dict[str, list[ByteRange]] = {}
        for stored in self.parts:
            ranges.setdefault(stored.file, []).append(stored.rows_range(0, 1))
        return LinePlan(ranges=ranges, build=self._built)

    def _built(self, view: View) -> Array:
        read = [stored.read(view, 0, 1).reshape(-1) for stored in self.parts]
        firsts = np.cumsum([0, *(values.size for values in read[:-1])])
        part, place = self.order.places(np.arange(self.length, dtype=np.int64))
        values = np.concatenate(read)[firsts[part] + place].astype(np.float32, copy=False)
        return (values + np.float32(self.shift) if self.shift else values)[None, :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """A matrix that is stored transposed.

    A line is a column of the file, with one number in a block of every row: a few lines cost a block of each
    row, and many cost the whole matrix.
    """

    stored: BlockRows

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole matrix."""
        return self.stored.n_bytes

    def plan(self, runs: LineRuns) -> LinePlan:
        """Read the blocks from the first line to the last."""
        return self.plan_window(runs, (0, self.stored.n_rows))

    def plan_window(self, runs: LineRuns, columns: tuple[int, int]) -> LinePlan:
        """Read the blocks from the first line to the last, in the rows of the file that are these columns."""
        stored, kind = self.stored, self.stored.type
        first = runs[0][0] // kind.block
        last = -(-runs[-1][1] // kind.block)
        start, length = first * kind.block_bytes, (last - first) * kind.block_bytes
        n_blocks = stored.width // kind.block
        if across_rows([(first, last)], n_blocks, stored.row_bytes) == [(0, n_blocks)]:
            ranges = [stored.rows_range(*columns)]
            build: Callable[[View], Array] = partial(self._cut, runs, first, last, columns)
        else:
            rows = stored.rows_range(*columns)
            begins = range(rows.start + start, rows.stop, stored.row_bytes)
            ranges = [ByteRange(begin, begin + length) for begin in begins]
            build = partial(self._gathered, runs, first, last, ranges)
        return LinePlan(ranges={stored.file: ranges}, build=build)

    def _cut(self, runs: LineRuns, first: int, last: int, columns: tuple[int, int], view: View) -> Array:
        """Take lines out of whole rows, some rows at a time."""
        stored, kind = self.stored, self.stored.type
        lines = numbers_of(runs) - first * kind.block
        begin, end = columns
        values = np.empty((lines.size, end - begin), np.float32)
        step = max(1, _NUMBERS_AT_ONCE // stored.width)
        for row in range(begin, end, step):
            stop = min(row + step, end)
            data = np.frombuffer(view(stored.file, stored.rows_range(row, stop)), np.uint8)
            data = data.reshape(stop - row, stored.row_bytes)
            blocks = data[:, first * kind.block_bytes : last * kind.block_bytes]
            values[:, row - begin : stop - begin] = self._decoded(blocks, last - first)[:, lines].T
        return values

    def _gathered(self, runs: LineRuns, first: int, last: int, ranges: list[ByteRange], view: View) -> Array:
        """Take lines out of a few blocks of each row."""
        data = b"".join(bytes(view(self.stored.file, item)) for item in ranges)
        blocks = np.frombuffer(data, np.uint8).reshape(len(ranges), -1)
        lines = numbers_of(runs) - first * self.stored.type.block
        values: Array = np.ascontiguousarray(self._decoded(blocks, last - first)[:, lines].T)
        return values

    def _decoded(self, blocks: Array, n_blocks: int) -> Array:
        kind = self.stored.type
        data = np.ascontiguousarray(blocks)
        return decode_rows(data.data, kind, n_rows=len(blocks), width=n_blocks * kind.block)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentUp:
    """Keys and values of all heads from their latent: per head the transposed keys, then the values."""

    keys: BlockRows
    """(heads x latent, key dimensions)."""
    values: BlockRows
    """(heads x value dimensions, latent)."""
    n_heads: int

    @property
    def n_bytes(self) -> int:
        """Bytes of both."""
        return self.keys.n_bytes + self.values.n_bytes

    @property
    def _latent(self) -> int:
        return self.keys.n_rows // self.n_heads

    def plan(self, runs: LineRuns) -> LinePlan:
        """Read all keys of each head that is touched, and only the wanted rows of the values."""
        n_keys, n_values = self.keys.width, self.values.n_rows // self.n_heads
        head, inside = np.divmod(numbers_of(runs), n_keys + n_values)
        is_key = inside < n_keys
        ranges: dict[str, list[ByteRange]] = {}
        heads = np.unique(head[is_key])
        for number in heads.tolist():
            item = self.keys.rows_range(number * self._latent, (number + 1) * self._latent)
            ranges.setdefault(self.keys.file, []).append(item)
        rows = (head * n_values + inside - n_keys)[~is_key]
        stretches = _stretches(rows) if rows.size else []
        for stretch in stretches:
            ranges.setdefault(self.values.file, []).append(self.values.rows_range(*stretch))
        return LinePlan(ranges=ranges, build=partial(self._built, head, inside, rows, stretches))

    def _built(
        self, head: Numbers, inside: Numbers, rows: Numbers, stretches: list[tuple[int, int]], view: View
    ) -> Array:
        lines = np.empty((head.size, self._latent), np.float32)
        is_key = inside < self.keys.width
        for number in np.unique(head[is_key]).tolist():
            mine = is_key & (head == number)
            block = self.keys.read(view, number * self._latent, (number + 1) * self._latent)
            lines[mine] = block.T[inside[mine]]
        if rows.size:
            read = np.concatenate([self.values.read(view, first, last) for first, last in stretches])
            lines[~is_key] = read[_positions(rows, stretches)]
        return lines
