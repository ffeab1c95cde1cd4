"""How the numbers of an ONNX tensor are stored: raw, packed, in blocks, or as protobuf varints."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from modelkin.errors import HeaderError, NotFound
from modelkin.message import Message, say
from modelkin.source import ByteRange, FileInfo, Source
from modelkin.tensors import DTYPES, Array, LinePlan, LineRuns, View, decode, unpacked
from modelkin.untrusted import path_problem, quoted

TYPES = {
    1: "F32",
    2: "U8",
    3: "I8",
    4: "U16",
    5: "I16",
    6: "I32",
    7: "I64",
    9: "BOOL",
    10: "F16",
    11: "F64",
    12: "U32",
    13: "U64",
    14: "C64",
    16: "BF16",
    17: "F8_E4M3",
    18: "F8_E4M3FNUZ",
    19: "F8_E5M2",
    20: "F8_E5M2FNUZ",
    21: "U4",
    22: "I4",
    23: "F4",
    24: "F8_E8M0",
    25: "U2",
    26: "I2",
}
"""Numbers of ONNX's element types -> names of ours, or of `PACKED`."""

PACKED = {"U4": 4, "I4": 4, "U2": 2, "I2": 2}
"""Integers narrower than a byte, with their bits; the first is in the lowest bits."""


def bits_of(dtype: str) -> int:
    """Return the width of one element."""
    return PACKED.get(dtype) or DTYPES[dtype].bits


def is_float(dtype: str) -> bool:
    """Say whether numbers of this type are weights as they stand."""
    return dtype in DTYPES and DTYPES[dtype].kind == "float"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxTensor:
    """One tensor of the file, as it is stored."""

    name: str
    dtype: str
    """A value of `TYPES`."""
    shape: tuple[int, ...]
    file: str
    start: int
    stop: int
    varints: bool = False
    """Each number is a protobuf varint: its offset is known only after reading all before it."""

    @property
    def n_elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def n_bytes(self) -> int:
        """Number of stored bytes."""
        return self.stop - self.start

    def span(self, first: int, last: int) -> ByteRange:
        """Return the bytes that hold the elements `first` up to `last`, widened to whole bytes."""
        if self.varints:
            return ByteRange(self.start, self.stop)
        bits = bits_of(self.dtype)
        return ByteRange(self.start + first * bits // 8, self.start + (last * bits + 7) // 8)

    def read(self, view: View, first: int = 0, last: int | None = None) -> Array:
        """Return some elements, flat: floats as float32 (F64 as float64), integers as themselves."""
        last = self.n_elements if last is None else last
        data = view(self.file, self.span(first, last))
        if self.varints:
            values = _from_varints(np.frombuffer(data, np.uint8), self.dtype, self.n_elements)
            if values is None:
                raise HeaderError(
                    self.file, say("problem.onnx-few-numbers", name=quoted(self.name), n=self.n_elements)
                )
            return values[first:last]
        if self.dtype in PACKED:
            bits = PACKED[self.dtype]
            skip = first % (8 // bits)
            return _unpacked(np.frombuffer(data, np.uint8), self.dtype)[skip : skip + last - first]
        skip = first % DTYPES[self.dtype].group
        return decode(data, self.dtype, last - first, skip=skip)


def _unpacked(data: Array, dtype: str) -> Array:
    bits = PACKED[dtype]
    codes = unpacked(data, bits)
    if dtype.startswith("I"):
        half = np.uint8(1 << bits - 1)
        return ((codes ^ half) - half).view(np.int8)  # the highest bit is the sign
    return codes


def _from_varints(data: Array, dtype: str, count: int) -> Array | None:
    """Return numbers that protobuf stores as varints, or None if there are not that many."""
    ends = np.flatnonzero(data < 0x80)
    packed = PACKED.get(dtype) or (4 if dtype == "F4" else 0)
    expected = -(-count * packed // 8) if packed else count
    if ends.size != expected or (data.size and ends[-1] != data.size - 1):
        return None
    if not ends.size:
        return decode(b"", dtype, 0) if dtype in DTYPES else np.empty(0, np.int8)
    starts = np.concatenate(([0], ends[:-1] + 1))
    place = np.arange(data.size) - np.repeat(starts, ends - starts + 1)
    parts = (data & 0x7F).astype(np.uint64) << (7 * np.minimum(place, 9)).astype(np.uint64)
    words = np.bitwise_or.reduceat(parts, starts)
    if packed:
        low = words.astype(np.uint8)
        return (_unpacked(low, dtype) if dtype in PACKED else decode(low.tobytes(), dtype, count))[:count]
    width = bits_of(dtype) // 8
    return decode(words.astype(f"<u{width}").tobytes(), dtype, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class NBitBlocks:
    """Rows of few-bit codes in blocks, each with a scale, maybe a zero point (MatMulNBits and the like)."""

    codes: OnnxTensor
    """``rows * n_blocks`` blocks of ``block * bits / 8`` bytes, the first code in the lowest bits."""
    scales: OnnxTensor
    """One for each block."""
    zeros: OnnxTensor | None
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
        """Blocks in a row."""
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
        """Plan some rows: their codes, scales and zero points are stored in rows too."""
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

    def _bytes(self, stored: OnnxTensor, start: int, stop: int, row: int) -> ByteRange:
        return ByteRange(stored.start + start * row, stored.start + stop * row)

    def _zero_range(self, zeros: OnnxTensor, start: int, stop: int) -> ByteRange:
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


class External:
    """Finds the data of one graph's tensors, relative to its folder and nowhere outside the model."""

    def __init__(self, source: Source, file: str) -> None:
        self._source = source
        self._file = file
        self._known: dict[str, FileInfo] = {}

    def __call__(self, tensor: str, stated: Mapping[str, str], n_bytes: int) -> tuple[str, ByteRange]:
        """Return file and offset of a tensor's data."""
        location = stated.get("location", "")
        if (problem := path_problem(location)) is not None:
            raise HeaderError(
                self._file,
                say("problem.onnx-location", name=quoted(tensor), file=quoted(location), problem=problem),
                hint=say("hint.own-folder"),
            )
        info = self._info(tensor, location)
        offset = self._number(tensor, stated, "offset", 0)
        length = self._number(tensor, stated, "length", n_bytes)
        if length != n_bytes:
            raise self._error(
                tensor, say("problem.onnx-stated", n_bytes=n_bytes, length=length, file=quoted(location))
            )
        if offset + length > info.size:
            raise self._error(
                tensor,
                say(
                    "problem.onnx-claims",
                    start=offset,
                    stop=offset + length,
                    file=quoted(location),
                    size=info.size,
                ),
            )
        return info.name, ByteRange(offset, offset + length)

    def _info(self, tensor: str, location: str) -> FileInfo:
        if location not in self._known:
            path = posixpath.join(posixpath.dirname(self._file), location)
            info = self._source.find(path)
            if info is None:
                raise NotFound(
                    f"{self._source.location.ref}/{path}",
                    say("problem.onnx-no-data", name=quoted(tensor), file=self._file),
                    hint=say("hint.this-file-too"),
                )
            self._known[location] = info
        return self._known[location]

    def _number(self, tensor: str, stated: Mapping[str, str], key: str, default: int) -> int:
        text = stated.get(key, "")
        if not text:
            return default
        if len(text) > 19 or not (text.isascii() and text.isdigit()):
            raise self._error(tensor, say("problem.onnx-no-length", key=key, value=quoted(text)))
        return int(text)

    def _error(self, tensor: str, problem: Message) -> HeaderError:
        return HeaderError(
            self._file,
            say("problem.tensor-is", name=quoted(tensor), problem=problem),
            hint=say("hint.damaged"),
        )
