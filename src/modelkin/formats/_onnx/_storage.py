"""How the numbers of a weight are made of what an ONNX file stores: turned, scaled, or taken out of a pack.

All arithmetic is that of the operator that would make the weight at run time: numbers are equal to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from modelkin.source import ByteRange
from modelkin.tensors import (
    Array,
    LinePlan,
    LineRuns,
    Storage,
    View,
    decode,
    encode,
    line_elements,
    numbers_of,
)

from ._stored import PACKED, Stored

FAR = 64 << 10
"""Bytes between two pieces of neighbouring rows from which on it pays to leave them out."""

_Lines = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Cut:
    """What to read of one stored tensor for some lines."""

    ranges: tuple[ByteRange, ...]
    spans: tuple[tuple[int, int], ...]
    """Elements of each range."""


def _rows_cut(stored: Stored, runs: LineRuns, width: int) -> _Cut:
    """Cut out runs of lines as they lie; numbers of unknown places are read whole."""
    if stored.varints:
        runs = [(0, stored.n_elements // max(1, width))]
    spans = tuple((start * width, stop * width) for start, stop in runs)
    return _Cut(tuple(stored.span(*span) for span in spans), spans)


def _columns_cut(stored: Stored, runs: LineRuns) -> _Cut:
    """Cut out columns: the stretch that holds all of them, row by row only where rows are long."""
    n_rows, width = stored.shape
    first, last = runs[0][0], runs[-1][1]
    if stored.varints or stored.dtype in PACKED or stored.dtype == "F4":
        spans: tuple[tuple[int, int], ...] = ((0, stored.n_elements),)
    elif stored.span(0, width).length - stored.span(first, last).length >= FAR:
        spans = tuple((row * width + first, row * width + last) for row in range(n_rows))
    else:
        spans = ((first, (n_rows - 1) * width + last),)
    return _Cut(tuple(stored.span(*span) for span in spans), spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A stored tensor seen as lines, turned or not."""

    stored: Stored
    turned: bool = False
    """Two axes, of which the first runs fastest in the weight: what is a line there is a column here."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weight."""
        return self.stored.shape[::-1] if self.turned else self.stored.shape

    def cut(self, runs: LineRuns) -> _Cut:
        """Say what to read for some lines."""
        if self.turned:
            return _columns_cut(self.stored, runs)
        return _rows_cut(self.stored, runs, line_elements(self.shape))

    def lines(self, view: View, cut: _Cut, runs: LineRuns) -> Array:
        """Return these lines as stored numbers (lines, elements of a line)."""
        if not self.turned:
            parts = [self.stored.read(view, *span) for span in cut.spans]
            flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
            lines: Array = flat.reshape(-1, line_elements(self.shape))
            return lines[numbers_of(runs)] if self.stored.varints else lines
        n_rows, width = self.stored.shape
        wanted = numbers_of(runs)
        if len(cut.spans) > 1:
            first = runs[0][0]
            rows = np.stack([self.stored.read(view, *span) for span in cut.spans])
            return np.ascontiguousarray(rows[:, wanted - first].T)
        start, stop = cut.spans[0]
        flat = self.stored.read(view, start, stop)
        # The last row may lack its end, and the first its beginning.
        whole = np.zeros(n_rows * width, flat.dtype) if (start, stop) != (0, n_rows * width) else flat
        if whole is not flat:
            whole[start:stop] = flat
        return np.ascontiguousarray(whole.reshape(n_rows, width)[:, wanted].T)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """Plain numbers in another order, or stored one by one in protobuf's way."""

    table: Table

    @property
    def n_bytes(self) -> int:
        """Stored bytes."""
        return self.table.stored.n_bytes

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan some lines."""
        cut = self.table.cut(runs)
        return LinePlan(
            ranges={self.table.stored.file: cut.ranges}, build=partial(self._build, cut=cut, runs=runs)
        )

    def _build(self, view: View, *, cut: _Cut, runs: LineRuns) -> Array:
        return _as_floats(self.table.lines(view, cut, runs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """Scales or zero points of a quantised weight: one, one for each index of an axis, or for each block."""

    stored: Stored
    shape: tuple[int, ...]
    """Seen against the stored codes: as many axes, each of length 1, the codes' own, or that of blocks."""

    def lines(self, view: View, wanted: _Lines, codes: tuple[int, ...], block: int, *, turned: bool) -> Array:
        """Return what stands against some lines; broadcasts against (lines, elements of a line)."""
        values = _as_floats(self.stored.read(view)).reshape(self.shape)
        for axis, (mine, whole) in enumerate(zip(self.shape, codes, strict=True)):
            if mine not in (1, whole):
                values = np.repeat(values, block, axis=axis).take(range(whole), axis=axis)
        if turned:
            values = values.T
        lines_shape = values.shape[:-1]
        full = codes[::-1][:-1] if turned else codes[:-1]
        flat = np.broadcast_to(values, (*full, values.shape[-1])) if lines_shape != full else values
        if all(length == 1 for length in values.shape[:-1]):
            return values.reshape(1, -1)
        return flat.reshape(-1, values.shape[-1])[wanted]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """Codes that stand for ``(code - zero point) * scale``."""

    table: Table
    scale: Factors | None
    zero: Factors | None = None
    block: int = 0
    """Codes that share a scale along the blocked axis; 0 where there are no blocks."""
    rounded: str = "F32"
    """The type in which the operator gives its result."""

    @property
    def n_bytes(self) -> int:
        """Stored bytes with scales and zero points."""
        return sum(part.n_bytes for part in self._parts())

    def _parts(self) -> list[Stored]:
        factors = [item.stored for item in (self.scale, self.zero) if item is not None]
        return [self.table.stored, *factors]

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan some lines. Scales are few: they are read whole."""
        cut = self.table.cut(runs)
        ranges: dict[str, list[ByteRange]] = {self.table.stored.file: list(cut.ranges)}
        for part in self._parts()[1:]:
            ranges.setdefault(part.file, []).append(ByteRange(part.start, part.stop))
        return LinePlan(ranges=ranges, build=partial(self._build, cut=cut, runs=runs))

    def _build(self, view: View, *, cut: _Cut, runs: LineRuns) -> Array:
        values = _as_floats(self.table.lines(view, cut, runs))
        wanted, codes, turned = numbers_of(runs), self.table.stored.shape, self.table.turned
        with np.errstate(all="ignore"):  # scales that are no numbers make weights that are none
            if self.zero is not None:
                values = values - self.zero.lines(view, wanted, codes, self.block, turned=turned)
            if self.scale is not None:
                values = values * self.scale.lines(view, wanted, codes, self.block, turned=turned)
            return _rounded(values.astype(np.float32, copy=False), self.rounded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Rows of a few bits in blocks, each with a scale and perhaps a zero point (MatMulNBits and its kin)."""

    codes: Stored
    """``rows * n_blocks`` blocks of ``block * bits / 8`` bytes, the first code in the lowest bits."""
    scales: Stored
    """One for each block."""
    zeros: Stored | None
    """One for each block: packed like the codes, each row beginning on a byte; or plain floats."""
    n_rows: int
    width: int
    """Elements of a row; the last block may have more room than that."""
    bits: int
    block: int
    default_zero: int
    """Zero point where none is stored."""

    @property
    def n_blocks(self) -> int:
        """Blocks of a row."""
        return -(-self.width // self.block)

    @property
    def n_bytes(self) -> int:
        """Stored bytes with scales and zero points."""
        return self.codes.n_bytes + self.scales.n_bytes + (self.zeros.n_bytes if self.zeros else 0)

    @property
    def _row_bytes(self) -> int:
        return self.n_blocks * self.block * self.bits // 8

    @property
    def _zero_bytes(self) -> int:
        return -(-self.n_blocks * self.bits // 8)

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan some rows: their codes, scales and zero points lie in rows, too."""
        ranges: dict[str, list[ByteRange]] = {}
        for start, stop in runs:
            ranges.setdefault(self.codes.file, []).append(
                self._bytes(self.codes, start, stop, self._row_bytes)
            )
            ranges.setdefault(self.scales.file, []).append(
                self.scales.span(start * self.n_blocks, stop * self.n_blocks)
            )
            if self.zeros is not None:
                ranges.setdefault(self.zeros.file, []).append(self._zero_range(self.zeros, start, stop))
        return LinePlan(ranges=ranges, build=partial(self._build, runs=runs))

    def _bytes(self, stored: Stored, start: int, stop: int, row: int) -> ByteRange:
        return ByteRange(stored.start + start * row, stored.start + stop * row)

    def _zero_range(self, zeros: Stored, start: int, stop: int) -> ByteRange:
        if zeros.dtype == "U8":
            return self._bytes(zeros, start, stop, self._zero_bytes)
        return zeros.span(start * self.n_blocks, stop * self.n_blocks)

    def _build(self, view: View, *, runs: LineRuns) -> Array:
        parts = [self._rows(view, start, stop) for start, stop in runs]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _rows(self, view: View, start: int, stop: int) -> Array:
        n_rows, n_blocks = stop - start, self.n_blocks
        codes = self._codes(view(self.codes.file, self._bytes(self.codes, start, stop, self._row_bytes)))
        values = codes.reshape(n_rows, n_blocks, self.block).astype(np.float32)
        scales = self.scales.read(view, start * n_blocks, stop * n_blocks)
        with np.errstate(all="ignore"):
            values -= self._zeros(view, start, stop)
            values *= scales.astype(np.float32, copy=False).reshape(n_rows, n_blocks, 1)
        lines: Array = values.reshape(n_rows, -1)[:, : self.width]
        return np.ascontiguousarray(lines)

    def _zeros(self, view: View, start: int, stop: int) -> Array | np.float32:
        if self.zeros is None:
            return np.float32(self.default_zero)
        if self.zeros.dtype != "U8":
            found = self.zeros.read(view, start * self.n_blocks, stop * self.n_blocks)
            return found.astype(np.float32, copy=False).reshape(stop - start, self.n_blocks, 1)
        packed = self._codes(view(self.zeros.file, self._zero_range(self.zeros, start, stop)))
        rows = packed.reshape(stop - start, -1)[:, : self.n_blocks]
        return rows[:, :, None].astype(np.float32)

    def _codes(self, data: bytes | bytearray | memoryview) -> Array:
        packed = np.frombuffer(data, np.uint8)
        if self.bits == 8:
            return packed
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)
        codes: Array = (packed[:, None] >> shifts & np.uint8((1 << self.bits) - 1)).reshape(-1)
        return codes


@dataclass(frozen=True, slots=True, kw_only=True)
class SomeLines:
    """Lines of a larger weight: queries, keys and values are often stored as one."""

    of: Storage
    start: int
    stop: int
    n_lines: int
    """Of the larger one."""

    @property
    def n_bytes(self) -> int:
        """Its share of the stored bytes."""
        return -(-self.of.n_bytes * (self.stop - self.start) // max(1, self.n_lines))

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan some lines."""
        return self.of.plan([(self.start + first, self.start + last) for first, last in runs])


def _as_floats(values: Array) -> Array:
    return values if values.dtype == np.float64 else values.astype(np.float32, copy=False)


def _rounded(values: Array, dtype: str) -> Array:
    if dtype == "F32":
        return values
    return decode(encode(values, dtype), dtype, values.size).reshape(values.shape)


def factor_shape(
    factors: Stored, codes: Sequence[int], *, axis: int | None, block: int = 0
) -> tuple[int, ...] | None:
    """Return how scales stand against codes, or None when they cannot.

    Parameters
    ----------
    factors
        The scales or zero points.
    codes
        Shape of the codes.
    axis
        The axis that an operator names; None when they are broadcast as they are.
    block
        Codes along that axis that share one.
    """
    if factors.n_elements == 1:
        return (1,) * len(codes)
    if axis is None:
        shape = (1,) * (len(codes) - len(factors.shape)) + factors.shape
        fits = len(shape) == len(codes) and all(
            mine in (1, whole) for mine, whole in zip(shape, codes, strict=True)
        )
        return shape if fits else None
    if not -len(codes) <= axis < len(codes):
        return None
    axis %= len(codes)
    if block:
        blocked = tuple(-(-whole // block) if place == axis else whole for place, whole in enumerate(codes))
        return blocked if factors.shape == blocked else None
    if factors.n_elements != codes[axis] or math.prod(factors.shape) != max(factors.shape, default=1):
        return None
    return tuple(whole if place == axis else 1 for place, whole in enumerate(codes))
