"""Storages that several formats share: plain lines, lines in another order, codes with scales."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from modelkin.source import ByteRange
from modelkin.tensors import DTYPES, Array, LinePlan, LineRuns, Storage, View, decode, numbers_of, runs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLines:
    """Numbers as they are, one line after another: the ground that `RotaryOrder` stands on."""

    file: str
    start: int
    dtype: str
    n_lines: int
    width: int

    @property
    def n_bytes(self) -> int:
        """Stored bytes."""
        return DTYPES[self.dtype].n_bytes(self.n_lines * self.width)

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan one range for each run."""
        step = DTYPES[self.dtype].n_bytes(self.width)
        places = [ByteRange(self.start + step * first, self.start + step * last) for first, last in runs]
        return LinePlan(ranges={self.file: places}, build=partial(self._build, places))

    def _build(self, places: list[ByteRange], view: View) -> Array:
        data = joined(view, self.file, places)
        count = len(data) * 8 // DTYPES[self.dtype].bits
        return decode(data, self.dtype, count).reshape(-1, self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryOrder:
    """The rows of queries or keys as transformers has them, out of those that Meta's own code stores.

    Rotary positions turn pairs of dimensions. Meta stores the two of a pair side by side, transformers the
    first of all pairs and then the second of all pairs, head by head.
    """

    inner: Storage
    head_dim: int

    @property
    def n_bytes(self) -> int:
        """Stored bytes."""
        return self.inner.n_bytes

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan the stored lines, sorted; `build` puts them in order."""
        wanted = numbers_of(runs)
        head, row = np.divmod(wanted, self.head_dim)
        second, pair = np.divmod(row, self.head_dim // 2)
        stored = head * self.head_dim + 2 * pair + second
        ordered, places = np.unique(stored, return_inverse=True)
        inner = self.inner.plan(runs_of(ordered))
        return LinePlan(ranges=inner.ranges, build=partial(_gathered, inner, places))


def _gathered(inner: LinePlan, places: npt.NDArray[np.intp], view: View) -> Array:
    lines: Array = inner.build(view)[places]
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledCodes:
    """Integers with one scale for some lines each, by which they were multiplied: CTranslate2's way.

    Parameters
    ----------
    file, start
        Where the codes begin.
    code
        ``i1`` or ``i2``.
    n_lines, width
        Lines of codes.
    scales
        Where the scales begin, float32; None for `scale`.
    lines_per_scale
        Number of lines that share one; 0 when all do.
    scale
        The scale of all, where the file has none.
    """

    file: str
    start: int
    code: str
    n_lines: int
    width: int
    scales: int | None
    lines_per_scale: int
    scale: float = 1.0

    @property
    def n_bytes(self) -> int:
        """Stored bytes of codes and scales."""
        return self.n_lines * self._step + (0 if self.scales is None else 4 * self._n_scales)

    @property
    def _step(self) -> int:
        return self.width * np.dtype(self.code).itemsize

    @property
    def _n_scales(self) -> int:
        return math.ceil(self.n_lines / self.lines_per_scale) if self.lines_per_scale else 1

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan the codes of each run, and the scales they need."""
        codes = [ByteRange(self.start + self._step * a, self.start + self._step * b) for a, b in runs]
        lines = numbers_of(runs)
        owners = lines // self.lines_per_scale if self.lines_per_scale else np.zeros_like(lines)
        needed, which = np.unique(owners, return_inverse=True)
        base = self.scales
        scales = [] if base is None else [ByteRange(base + 4 * a, base + 4 * b) for a, b in runs_of(needed)]
        return LinePlan(
            ranges={self.file: [*codes, *scales]}, build=partial(self._build, codes, scales, which)
        )

    def _build(
        self, codes: list[ByteRange], scales: list[ByteRange], which: npt.NDArray[np.intp], view: View
    ) -> Array:
        stored = np.frombuffer(joined(view, self.file, codes), f"<{self.code}").reshape(-1, self.width)
        if scales:
            factors = np.frombuffer(joined(view, self.file, scales), "<f4")
        else:
            factors = np.full(which.max(initial=0) + 1, self.scale, np.float32)
        # As CTranslate2 does it: the reciprocal is rounded first. No honest scale is zero.
        with np.errstate(all="ignore"):
            back = np.float32(1) / factors
            lines: Array = stored.astype(np.float32) * back[which][:, None]
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedCodes:
    """Bytes in groups of one size, each with a float32 scale, counted through the whole tensor.

    A group can reach over the end of a line.
    """

    file: str
    start: int
    scales: int
    group: int
    n_lines: int
    width: int

    @property
    def n_bytes(self) -> int:
        """Stored bytes of codes and scales."""
        count = self.n_lines * self.width
        return count + 4 * (count // self.group)

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan the codes of each run, and the scales of the groups it touches."""
        stretches = [(first * self.width, last * self.width) for first, last in runs]
        codes = [ByteRange(self.start + a, self.start + b) for a, b in stretches]
        groups = [(a // self.group, -(-b // self.group)) for a, b in stretches]
        scales = [ByteRange(self.scales + 4 * a, self.scales + 4 * b) for a, b in groups]
        return LinePlan(
            ranges={self.file: [*codes, *scales]}, build=partial(self._build, stretches, codes, scales)
        )

    def _build(
        self, stretches: list[tuple[int, int]], codes: list[ByteRange], scales: list[ByteRange], view: View
    ) -> Array:
        parts = []
        for (start, stop), code, scale in zip(stretches, codes, scales, strict=True):
            stored = np.frombuffer(view(self.file, code), np.int8).astype(np.float32)
            factors = np.repeat(np.frombuffer(view(self.file, scale), "<f4"), self.group)
            first = start % self.group
            with np.errstate(invalid="ignore", over="ignore"):
                parts.append(stored * factors[first : first + stop - start])
        return np.concatenate(parts).reshape(-1, self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class GgmlBlocks:
    """Blocks of ggml: codes with their scales, side by side. A line is a whole number of blocks."""

    file: str
    start: int
    kind: int
    """Number of the type in ggml."""
    n_lines: int
    line_bytes: int
    width: int

    @property
    def n_bytes(self) -> int:
        """Stored bytes."""
        return self.n_lines * self.line_bytes

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan one range for each run."""
        step = self.line_bytes
        places = [ByteRange(self.start + step * a, self.start + step * b) for a, b in runs]
        return LinePlan(ranges={self.file: places}, build=partial(self._build, places))

    def _build(self, places: list[ByteRange], view: View) -> Array:
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        stored = np.frombuffer(joined(view, self.file, places), np.uint8).reshape(-1, self.line_bytes)
        with np.errstate(invalid="ignore", over="ignore"):
            lines: Array = dequantize(stored, GGMLQuantizationType(self.kind))
        return lines


def joined(view: View, file: str, places: list[ByteRange]) -> bytes:
    """Return the bytes of several ranges, one after another."""
    return b"".join(bytes(view(file, place)) for place in places)
