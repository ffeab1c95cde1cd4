"""How the numbers of a weight follow from what an ONNX file stores: transposed, scaled, or unpacked.

All arithmetic is that of the operator that would compute the weight at run time: results are bit-equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.source import ByteRange
from modelkin.tensors import (
    Array,
    ColumnStorage,
    LinePlan,
    LineRuns,
    Storage,
    View,
    across_rows,
    decode,
    encode,
    line_elements,
    numbers_of,
)

from .stored import PACKED, OnnxTensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCut:
    """Some lines of a weight, and what to read of its stored tensor for them."""

    runs: LineRuns
    columns: tuple[int, int]
    """Which elements of each line; all of them, unless the weight is turned."""
    spans: tuple[tuple[int, int], ...]
    """Stored elements, stretch by stretch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLines:
    """A stored tensor seen as lines, turned or not."""

    stored: OnnxTensor
    turned: bool = False
    """Whether the two axes are swapped: a line of the weight is a column here."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weight."""
        return self.stored.shape[::-1] if self.turned else self.stored.shape

    @property
    def by_columns(self) -> bool:
        """Whether some columns of the weight cost less than all; varints are always read whole."""
        return self.turned and not self.stored.varints

    def cut(self, runs: LineRuns, columns: tuple[int, int] | None = None) -> LineCut:
        """Say what to read for some lines or, for a transposed weight, some columns of them."""
        columns = columns or (0, line_elements(self.shape))
        spans = self._turned_spans(runs, *columns) if self.turned else self._spans(runs)
        return LineCut(runs=runs, columns=columns, spans=spans)

    def ranges(self, cut: LineCut) -> tuple[ByteRange, ...]:
        """Return the bytes of a cut."""
        return tuple(self.stored.span(*span) for span in cut.spans)

    def _spans(self, runs: LineRuns) -> tuple[tuple[int, int], ...]:
        """Return runs of lines as they are stored."""
        if self.stored.varints:
            return ((0, self.stored.n_elements),)
        width = line_elements(self.shape)
        return tuple((start * width, stop * width) for start, stop in runs)

    def _turned_spans(self, runs: LineRuns, start: int, stop: int) -> tuple[tuple[int, int], ...]:
        """Return where lines are in the stored rows: one stretch, or one per row if rows are long."""
        stored, width = self.stored, self.stored.shape[1]
        first, last = runs[0][0], runs[-1][1]
        if stored.varints:
            return ((0, stored.n_elements),)
        if stored.dtype in PACKED or stored.dtype == "F4":
            return ((start * width, stop * width),)
        if across_rows([(first, last)], width, stored.span(0, width).length) != [(0, width)]:
            return tuple((row * width + first, row * width + last) for row in range(start, stop))
        return ((start * width + first, (stop - 1) * width + last),)

    def lines(self, view: View, cut: LineCut) -> Array:
        """Return the lines of a cut as stored numbers (lines, elements of a line)."""
        if self.turned:
            return self._turned_lines(view, cut)
        parts = [self.stored.read(view, *span) for span in cut.spans]
        flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
        lines: Array = flat.reshape(-1, line_elements(self.shape))
        return lines[numbers_of(cut.runs)] if self.stored.varints else lines

    def _turned_lines(self, view: View, cut: LineCut) -> Array:
        wanted, (start, stop), width = numbers_of(cut.runs), cut.columns, self.stored.shape[1]
        if len(cut.spans) > 1:
            rows = np.stack([self.stored.read(view, *span) for span in cut.spans])
            return np.ascontiguousarray(rows[:, wanted - cut.runs[0][0]].T)
        first, last = cut.spans[0]
        flat = self.stored.read(view, first, last)
        # The last row may lack its end and the first its beginning.
        begin, end = min(first, start * width), max(last, stop * width)
        whole = flat
        if (first, last) != (begin, end):
            whole = np.zeros(end - begin, flat.dtype)
            whole[first - begin : last - begin] = flat
        rows = whole.reshape(-1, width)[start - begin // width :][: stop - start]
        return np.ascontiguousarray(rows[:, wanted].T)


def as_floats(values: Array) -> Array:
    """Return numbers as float32, or unchanged if in double precision."""
    return values if values.dtype == np.float64 else values.astype(np.float32, copy=False)


_Lines = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """Plain numbers in another order, or stored as protobuf varints."""

    table: StoredLines

    @property
    def n_bytes(self) -> int:
        """Stored bytes."""
        return self.table.stored.n_bytes

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan some lines."""
        return self._planned(self.table.cut(runs))

    def _planned(self, cut: LineCut) -> LinePlan:
        return LinePlan(
            ranges={self.table.stored.file: self.table.ranges(cut)}, build=partial(self._build, cut=cut)
        )

    def _build(self, view: View, *, cut: LineCut) -> Array:
        return as_floats(self.table.lines(view, cut))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedArranged(Arranged):
    """Numbers of a transposed table: its stored rows are columns of the weight, and can be skipped."""

    def plan_window(self, runs: LineRuns, columns: tuple[int, int]) -> LinePlan:
        """Plan some columns of some lines."""
        return self._planned(self.table.cut(runs, columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFactors:
    """Scales or zero points of a quantised weight: one for all, per index of an axis, or per block."""

    stored: OnnxTensor
    shape: tuple[int, ...]
    """Relative to the stored codes: as many axes, each of length 1, that of the codes, or that of the
    blocks."""

    def span(self, codes: tuple[int, ...], block: int, cut: LineCut, *, turned: bool) -> tuple[int, int]:
        """Return which of them to read: they are few, but those of skipped columns are left out."""
        if not turned or self.shape[0] == 1:
            return 0, self.stored.n_elements
        first, last = cut.columns
        if self.shape[0] != codes[0]:
            first, last = first // block, -(-last // block)
        return first * self.shape[1], last * self.shape[1]

    def lines(self, view: View, codes: tuple[int, ...], block: int, cut: LineCut, *, turned: bool) -> Array:
        """Return the factors for the lines of a cut; broadcasts against (lines, elements of a line)."""
        wanted = numbers_of(cut.runs)
        first, last = self.span(codes, block, cut, turned=turned)
        values = as_floats(self.stored.read(view, first, last))
        if turned:
            return self._turned(values.reshape(-1, self.shape[1]), codes, block, wanted, cut.columns)
        values = values.reshape(self.shape)
        for axis, (mine, whole) in enumerate(zip(self.shape, codes, strict=True)):
            if mine not in (1, whole):
                values = np.repeat(values, block, axis=axis).take(range(whole), axis=axis)
        if all(length == 1 for length in values.shape[:-1]):
            return values.reshape(1, -1)
        full = codes[:-1]
        flat = np.broadcast_to(values, (*full, values.shape[-1])) if values.shape[:-1] != full else values
        return flat.reshape(-1, values.shape[-1])[wanted]

    def _turned(
        self, values: Array, codes: tuple[int, ...], block: int, wanted: _Lines, columns: tuple[int, int]
    ) -> Array:
        """Transpose factors of some stored rows, and give each column and line of the weight its own."""
        n_rows, width = self.shape
        if n_rows not in (1, codes[0]):
            blocks = np.arange(*columns) // block
            values = values[blocks - blocks[0]]
        if width == 1:
            return values.T
        return values.T[wanted if width == codes[1] else wanted // block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """Codes that stand for ``(code - zero point) * scale``."""

    table: StoredLines
    scale: CodeFactors | None
    zero: CodeFactors | None = None
    block: int = 0
    """Codes that share a scale along the blocked axis; 0 if there are no blocks."""
    rounded: str = "F32"
    """The type in which the operator gives its result."""

    @property
    def n_bytes(self) -> int:
        """Stored bytes with scales and zero points."""
        return sum(part.n_bytes for part in self._parts())

    def _parts(self) -> list[OnnxTensor]:
        factors = [item.stored for item in (self.scale, self.zero) if item is not None]
        return [self.table.stored, *factors]

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan some lines."""
        return self._planned(self.table.cut(runs))

    def _planned(self, cut: LineCut) -> LinePlan:
        codes, turned = self.table.stored.shape, self.table.turned
        ranges: dict[str, list[ByteRange]] = {self.table.stored.file: list(self.table.ranges(cut))}
        for part in (self.scale, self.zero):
            if part is not None:
                span = part.span(codes, self.block, cut, turned=turned)
                ranges.setdefault(part.stored.file, []).append(part.stored.span(*span))
        return LinePlan(ranges=ranges, build=partial(self._build, cut=cut))

    def _build(self, view: View, *, cut: LineCut) -> Array:
        values = as_floats(self.table.lines(view, cut))
        codes, turned = self.table.stored.shape, self.table.turned
        with np.errstate(all="ignore"):  # scales that are NaN make weights that are NaN
            if self.zero is not None:
                values = values - self.zero.lines(view, codes, self.block, cut, turned=turned)
            if self.scale is not None:
                values = values * self.scale.lines(view, codes, self.block, cut, turned=turned)
            return _rounded(values.astype(np.float32, copy=False), self.rounded)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedScaled(Scaled):
    """Codes of a transposed table: its stored rows are columns of the weight, and can be skipped."""

    def plan_window(self, runs: LineRuns, columns: tuple[int, int]) -> LinePlan:
        """Plan some columns of some lines."""
        return self._planned(self.table.cut(runs, columns))


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
        return self.of.plan(self._shifted(runs))

    def _shifted(self, runs: LineRuns) -> LineRuns:
        return [(self.start + first, self.start + last) for first, last in runs]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SomeTurnedLines(SomeLines):
    """Lines of a larger weight whose bytes run along the columns."""

    of: ColumnStorage

    def plan_window(self, runs: LineRuns, columns: tuple[int, int]) -> LinePlan:
        """Plan some columns of some lines."""
        return self.of.plan_window(self._shifted(runs), columns)


def _rounded(values: Array, dtype: str) -> Array:
    if dtype == "F32":
        return values
    return decode(encode(values, dtype), dtype, values.size).reshape(values.shape)


def factor_shape(
    factors: OnnxTensor, codes: Sequence[int], *, axis: int | None, block: int = 0
) -> tuple[int, ...] | None:
    """Return the shape of scales or zero points relative to codes, or None if they do not fit.

    `axis` is the one that an operator names, with `block` codes along it that share a scale; None if scales
    are broadcast as they are.
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


def arranged(table: StoredLines) -> Storage:
    """Return how plain numbers are read: also by columns, if their bytes run that way."""
    return TurnedArranged(table=table) if table.by_columns else Arranged(table=table)


def scaled(
    table: StoredLines, *, scale: CodeFactors | None, zero: CodeFactors | None, block: int, rounded: str
) -> Storage:
    """Return how codes are read: also by columns, if their bytes run that way."""
    kind = TurnedScaled if table.by_columns else Scaled
    return kind(table=table, scale=scale, zero=zero, block=block, rounded=rounded)


def some_lines(of: Storage, start: int, stop: int, n_lines: int) -> Storage:
    """Return some lines of a larger weight."""
    if isinstance(of, ColumnStorage):
        return SomeTurnedLines(of=of, start=start, stop=stop, n_lines=n_lines)
    return SomeLines(of=of, start=start, stop=stop, n_lines=n_lines)
