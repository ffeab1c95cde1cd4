"""The storage of most quantised tensors: codes with scales for blocks of them, as stored or transposed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from modelkin.source import ByteRange
from modelkin.tensors import Array, LinePlan, LineRuns, View, across_rows, by_file, count_lines, numbers_of

from ._matrix import Matrix, Rows, ScaleGrid

_ROWS_AT_ONCE: Final = 128
"""What is decoded at once stays in the CPU cache."""
_CACHE_LINE: Final = 16
"""Numbers of four bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledRows:
    """Weights ``(code - zero) * scale * factor + bias``, read row by row."""

    shape: tuple[int, ...]
    codes: Matrix
    scale: ScaleGrid
    zero: ScaleGrid | None = None
    bias: ScaleGrid | None = None
    outer: ScaleGrid | None = None
    """One more scale, of the scales."""
    outer_divides: bool = False
    factor: float | None = None

    @property
    def n_bytes(self) -> int:
        return self.codes.info.n_bytes + sum(grid.n_bytes for grid in self._grids)

    @property
    def align(self) -> int:
        """Where stretches of columns may begin: at multiples of this."""
        return math.lcm(self.codes.align, *(grid.align for grid in self._grids))

    @property
    def _grids(self) -> tuple[ScaleGrid, ...]:
        return tuple(grid for grid in (self.scale, self.zero, self.bias, self.outer) if grid is not None)

    def plan(self, runs: LineRuns) -> LinePlan:
        rows = numbers_of(runs)
        width = self.shape[-1]
        return LinePlan(
            ranges=by_file(self.window_ranges(rows, 0, width)),
            build=partial(self.window, rows=rows, start=0, stop=width),
        )

    def window_ranges(self, rows: Rows, start: int, stop: int) -> list[tuple[str, ByteRange]]:
        """Return the bytes of some columns of some rows, with their files."""
        file = self.codes.info.file
        wanted = [(file, item) for item in self.codes.ranges(rows, start, stop)]
        for grid in self._grids:
            wanted += grid.ranges(rows, start, stop)
        return wanted

    def window(self, view: View, *, rows: Rows, start: int, stop: int) -> Array:
        """Return some columns of some rows."""
        weights = self.codes.read(view, rows, start, stop)
        if not weights.flags.writeable:
            weights = weights.copy()
        # Hostile scales may overflow; the result is then NaN, and treated as such.
        with np.errstate(all="ignore"):
            if self.zero is not None:
                zero = self.zero.read(view, rows, start, stop)
                self.zero.applied(np.subtract, weights, zero, start)
            scale = self.scale.read(view, rows, start, stop)
            if self.outer is not None:
                change = np.divide if self.outer_divides else np.multiply
                scale = change(scale, self.outer.read(view, rows, start, stop))
            self.scale.applied(np.multiply, weights, scale, start)
            if self.factor is not None:
                weights *= np.float32(self.factor)
            if self.bias is not None:
                bias = self.bias.read(view, rows, start, stop)
                self.bias.applied(np.add, weights, bias, start)
        return weights


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledColumns:
    """Weights stored input-first: lines run across the rows of the file, so a few columns are cheaper."""

    stored: ScaledRows

    @property
    def n_bytes(self) -> int:
        return self.stored.n_bytes

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weights as presented."""
        *lead, rows, columns = self.stored.shape
        return (*lead, columns, rows)

    def plan(self, runs: LineRuns) -> LinePlan:
        return self.plan_window(runs, (0, self.shape[-1]))

    def plan_window(self, runs: LineRuns, columns: tuple[int, int]) -> LinePlan:
        each, height = self.shape[-1], self.shape[-2]
        wanted = _by_lead(runs, height)
        windows = []
        for lead, spans in wanted.items():
            rows = np.arange(columns[0], columns[1], dtype=np.int64) + lead * each
            windows += [(lead, rows, *span) for span in self._strips(spans)]
        ranges = [
            item for _, rows, start, stop in windows for item in self.stored.window_ranges(rows, start, stop)
        ]
        return LinePlan(ranges=by_file(ranges), build=partial(self._build, wanted, windows))

    @property
    def _row_bytes(self) -> int:
        """Bytes of one row of codes as the file has it."""
        info = self.stored.codes.info
        return info.n_bytes // max(1, count_lines(info.shape))

    def _strips(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Widen stretches of stored columns to where codes begin, and join those that are near."""
        align, width = self.stored.align, self.stored.shape[-1]
        wide = ((start // align * align, min(-(-stop // align) * align, width)) for start, stop in spans)
        return across_rows(wide, width, self._row_bytes)

    def _build(
        self,
        wanted: dict[int, list[tuple[int, int]]],
        windows: list[tuple[int, Rows, int, int]],
        view: View,
    ) -> Array:
        n_lines = sum(stop - start for spans in wanted.values() for start, stop in spans)
        lines = np.empty((n_lines, len(windows[0][1])), np.float32)
        place = 0
        for lead, rows, first, last in windows:
            spans = [(start, stop) for start, stop in wanted[lead] if first <= start and stop <= last]
            n_here = sum(stop - start for start, stop in spans)
            for at in range(0, len(rows), _ROWS_AT_ONCE):
                piece = rows[at : at + _ROWS_AT_ONCE]
                read = self.stored.window(view, rows=piece, start=first, stop=last)
                if n_here < last - first:
                    read = np.concatenate([read[:, a - first : b - first] for a, b in spans], axis=1)
                _turn(read, lines[place : place + n_here, at : at + len(piece)])
            place += n_here
        return lines


def _turn(rows: Array, out: Array) -> None:
    """Transpose, a cache line at a time: five times as fast as at once where rows are long."""
    for at in range(0, len(rows), _CACHE_LINE):
        out[:, at : at + _CACHE_LINE] = rows[at : at + _CACHE_LINE].T


def _by_lead(runs: LineRuns, height: int) -> dict[int, list[tuple[int, int]]]:
    """Cut runs of lines where a matrix of the stack ends: number of the matrix -> stretches of its lines."""
    found: dict[int, list[tuple[int, int]]] = {}
    for start, stop in runs:
        while start < stop:
            lead, first = divmod(start, height)
            end = min(stop, (lead + 1) * height)
            found.setdefault(lead, []).append((first, end - lead * height))
            start = end
    return found
