"""Which stored numbers some lines of a weight take, where the file has it turned or not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modelkin.source import ByteRange
from modelkin.tensors import Array, LineRuns, View, line_elements, numbers_of

from ._stored import PACKED, Stored

FAR = 64 << 10
"""Bytes between two pieces of neighbouring rows from which on it pays to leave them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Some lines of a weight, and what to read of its stored tensor for them."""

    runs: LineRuns
    columns: tuple[int, int]
    """Which elements of each line; all of them, unless the weight is turned."""
    spans: tuple[tuple[int, int], ...]
    """Stored elements, stretch by stretch."""


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

    @property
    def by_columns(self) -> bool:
        """Whether some columns of the weight cost less than all: numbers of unknown places are read whole."""
        return self.turned and not self.stored.varints

    def cut(self, runs: LineRuns, columns: tuple[int, int] | None = None) -> Cut:
        """Say what to read for some lines, or of a turned weight for some columns of them."""
        columns = columns or (0, line_elements(self.shape))
        spans = self._turned_spans(runs, *columns) if self.turned else self._spans(runs)
        return Cut(runs=runs, columns=columns, spans=spans)

    def ranges(self, cut: Cut) -> tuple[ByteRange, ...]:
        """Return the bytes of a cut."""
        return tuple(self.stored.span(*span) for span in cut.spans)

    def _spans(self, runs: LineRuns) -> tuple[tuple[int, int], ...]:
        """Return runs of lines as they lie."""
        if self.stored.varints:
            return ((0, self.stored.n_elements),)
        width = line_elements(self.shape)
        return tuple((start * width, stop * width) for start, stop in runs)

    def _turned_spans(self, runs: LineRuns, start: int, stop: int) -> tuple[tuple[int, int], ...]:
        """Return what holds lines in the stored rows: one stretch, or one of each row where rows are long."""
        stored, width = self.stored, self.stored.shape[1]
        first, last = runs[0][0], runs[-1][1]
        if stored.varints:
            return ((0, stored.n_elements),)
        if stored.dtype in PACKED or stored.dtype == "F4":
            return ((start * width, stop * width),)
        if stored.span(0, width).length - stored.span(first, last).length >= FAR:
            return tuple((row * width + first, row * width + last) for row in range(start, stop))
        return ((start * width + first, (stop - 1) * width + last),)

    def lines(self, view: View, cut: Cut) -> Array:
        """Return the lines of a cut as stored numbers (lines, elements of a line)."""
        if self.turned:
            return self._turned_lines(view, cut)
        parts = [self.stored.read(view, *span) for span in cut.spans]
        flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
        lines: Array = flat.reshape(-1, line_elements(self.shape))
        return lines[numbers_of(cut.runs)] if self.stored.varints else lines

    def _turned_lines(self, view: View, cut: Cut) -> Array:
        wanted, (start, stop), width = numbers_of(cut.runs), cut.columns, self.stored.shape[1]
        if len(cut.spans) > 1:
            rows = np.stack([self.stored.read(view, *span) for span in cut.spans])
            return np.ascontiguousarray(rows[:, wanted - cut.runs[0][0]].T)
        first, last = cut.spans[0]
        flat = self.stored.read(view, first, last)
        # The last row may lack its end, and the first its beginning.
        begin, end = min(first, start * width), max(last, stop * width)
        whole = flat
        if (first, last) != (begin, end):
            whole = np.zeros(end - begin, flat.dtype)
            whole[first - begin : last - begin] = flat
        rows = whole.reshape(-1, width)[start - begin // width :][: stop - start]
        return np.ascontiguousarray(rows[:, wanted].T)


def as_floats(values: Array) -> Array:
    """Return numbers as float32, those in double precision as they are."""
    return values if values.dtype == np.float64 else values.astype(np.float32, copy=False)
