"""How the numbers of one ONNX tensor lie in a file: raw, as packed nibbles, or as protobuf's varints."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from modelkin.errors import HeaderError
from modelkin.source import ByteRange
from modelkin.tensors import DTYPES, Array, View, decode, unpacked
from modelkin.untrusted import quoted

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
class Stored:
    """One tensor of the file, as it lies there."""

    name: str
    dtype: str
    """A value of `TYPES`."""
    shape: tuple[int, ...]
    file: str
    start: int
    stop: int
    varints: bool = False
    """Each number is a protobuf varint: its place is known only after reading all before it."""

    @property
    def n_elements(self) -> int:
        """Number of numbers."""
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
                raise HeaderError(self.file, f"tensor {quoted(self.name)} has not {self.n_elements} numbers")
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
        return ((codes ^ half) - half).view(np.int8)  # the highest bit counts negative
    return codes


def _from_varints(data: Array, dtype: str, count: int) -> Array | None:
    """Return numbers that protobuf keeps as integers, or None when there are not that many."""
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
