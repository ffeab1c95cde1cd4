"""Weights of a few bits in blocks, as onnxruntime's own operators have them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from modelkin.source import ByteRange
from modelkin.tensors import Array, LinePlan, LineRuns, View, unpacked

from ._stored import Stored


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
        return unpacked(np.frombuffer(data, np.uint8), self.bits)
