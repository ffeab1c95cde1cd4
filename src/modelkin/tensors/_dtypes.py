"""The number formats of safetensors, and the only place that turns stored bytes into numbers and back.

Nothing here knows names, shapes or files. All formats are little-endian.

Formats narrower than a byte are packed without padding as one little-endian bit stream: element i holds the
bits ``i * bits`` up to ``(i + 1) * bits``, bit 0 being the lowest bit of byte 0. So F4 has its first element
in the low nibble, and four F6 elements fill three bytes. A stretch of such elements can be cut out at whole
bytes only where an element begins on a byte: at every `Dtype.group` elements. A slice that begins elsewhere
is widened to the group and trimmed with `skip`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ._codes import Array, looked_up, unpacked

Kind = Literal["float", "int", "uint", "bool", "complex"]

Buffer: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtype:
    """One number format of the file format."""

    name: str
    """As written in the header: ``BF16``, ``F8_E4M3``."""
    bits: int
    """Width of one stored element."""
    kind: Kind

    @property
    def group(self) -> int:
        """Number of elements after which an element begins on a byte again; 1 for whole-byte formats."""
        return 8 // math.gcd(self.bits, 8)

    @property
    def group_bytes(self) -> int:
        """Bytes of one group."""
        return self.bits * self.group // 8

    def n_bytes(self, count: int) -> int:
        """Return how many bytes `count` elements take from a byte boundary on, the last byte rounded up."""
        return (self.bits * count + 7) // 8


def _table() -> Mapping[str, Dtype]:
    known: list[tuple[str, int, Kind]] = [
        ("BOOL", 8, "bool"),
        ("U8", 8, "uint"),
        ("U16", 16, "uint"),
        ("U32", 32, "uint"),
        ("U64", 64, "uint"),
        ("I8", 8, "int"),
        ("I16", 16, "int"),
        ("I32", 32, "int"),
        ("I64", 64, "int"),
        ("F4", 4, "float"),
        ("F6_E2M3", 6, "float"),
        ("F6_E3M2", 6, "float"),
        ("F8_E4M3", 8, "float"),
        ("F8_E4M3FNUZ", 8, "float"),
        ("F8_E5M2", 8, "float"),
        ("F8_E5M2FNUZ", 8, "float"),
        ("F8_E8M0", 8, "float"),
        ("F16", 16, "float"),
        ("BF16", 16, "float"),
        ("F32", 32, "float"),
        ("F64", 64, "float"),
        ("C64", 64, "complex"),
    ]
    return MappingProxyType({name: Dtype(name=name, bits=bits, kind=kind) for name, bits, kind in known})


DTYPES: Mapping[str, Dtype] = _table()
"""Every format of the file format, by name."""

# Formats that numpy itself has.
_NATIVE = {
    "U8": "<u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
    "I8": "<i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "C64": "<c8",
}

# Formats that ml_dtypes adds. Where a name is ambiguous, the finite-only variant is meant: that is what
# writers of the file format store.
_EXTENDED = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "F6_E2M3": "float6_e2m3fn",
    "F6_E3M2": "float6_e3m2fn",
    "F4": "float4_e2m1fn",
}


def decode(data: Buffer, dtype: str, count: int, *, skip: int = 0) -> Array:
    """Turn stored bytes, in any alignment, into `count` numbers in one dimension.

    Floats of up to 32 bits become float32 (exact: each of those formats is a subset of it), F64 float64, C64
    complex64; integers and booleans stay. Bytes after the last element are ignored. `skip` leading elements
    are left out, for a slice of a packed format that had to be widened to whole bytes. The result may share
    memory with `data`; it is then read-only. Raises `ValueError` for fewer bytes than needed, or an unknown
    format.
    """
    known = _known(dtype)
    if dtype == "BF16":
        return _widened_bf16(_stored(data, known, count, skip))
    if known.kind == "float" and known.bits <= 8:
        return looked_up(float_table(dtype), _stored(data, known, count, skip))
    if dtype == "BOOL":
        # Any byte but 0 and 1 is malformed; a numpy bool with such a byte would be neither true nor false.
        truth: Array = _stored(data, known, count, skip) != 0
        return truth
    values = _stored(data, known, count, skip, as_type=_NATIVE[dtype])
    return values.astype(np.float32) if dtype == "F16" else values


def raw_bits(data: Buffer, dtype: str, count: int, *, skip: int = 0) -> Array:
    """Return the stored bits of each element as an unsigned integer; takes what `decode` takes.

    Two elements are stored alike exactly when these are equal, which numbers cannot say: NaN differs from
    itself, and 0 equals -0. Packed formats give one uint8 per element, C64 one uint64.
    """
    return _stored(data, _known(dtype), count, skip)


def encode(array: npt.ArrayLike, dtype: str) -> bytes:
    """Turn numbers into stored bytes, the inverse of `decode`; floats are rounded to nearest even.

    Raises `ValueError` for an integer or boolean format that cannot hold these numbers, or a packed format
    whose elements do not fill whole bytes.
    """
    known = _known(dtype)
    given = np.asarray(array)
    if known.bits * given.size % 8:
        raise ValueError(f"array: {given.size} elements of {dtype} do not fill whole bytes")
    if dtype in _EXTENDED:
        # Infinities and signalling NaNs are stored like any other number, without a warning.
        with np.errstate(invalid="ignore", over="ignore"):
            narrow = given.astype(np.float32).astype(_extended_type(dtype))
        codes: Array = narrow.view(np.uint16 if known.bits == 16 else np.uint8).reshape(-1)
        if known.bits < 8:
            return _packed(codes, known.bits)
        return codes.astype(codes.dtype.newbyteorder("<")).tobytes()
    stored = given.astype(np.bool_ if dtype == "BOOL" else _NATIVE[dtype])
    if known.kind in {"int", "uint", "bool"} and not np.array_equal(stored, given):
        raise ValueError(f"array: {dtype} cannot hold these numbers exactly")
    return stored.tobytes()


def _known(name: str) -> Dtype:
    if name not in DTYPES:
        raise ValueError(f"dtype: expected one of {', '.join(DTYPES)}, got {name!r}")
    return DTYPES[name]


def _stored(data: Buffer, dtype: Dtype, count: int, skip: int, *, as_type: str | None = None) -> Array:
    """Return elements as stored: aligned, in native byte order, and never writable through to `data`."""
    if count < 0 or skip < 0:
        raise ValueError(f"count and skip: expected numbers from 0 on, got {count} and {skip}")
    view = memoryview(data).cast("B")
    needed = dtype.n_bytes(skip + count)
    if view.nbytes < needed:
        raise ValueError(
            f"data: {skip + count} elements of {dtype.name} need {needed} bytes, got {view.nbytes}"
        )
    if dtype.bits < 8:
        padded = np.zeros(-(-needed // dtype.bits) * dtype.bits, np.uint8)
        padded[:needed] = view[:needed]
        return unpacked(padded, dtype.bits)[skip : skip + count]
    width = dtype.bits // 8
    stored: Array = np.frombuffer(view[skip * width : needed], as_type or f"<u{width}")
    if sys.byteorder == "big":
        stored = stored.astype(stored.dtype.newbyteorder("="))
    if not stored.flags.aligned:
        stored = stored.copy()
    # A view of a caller's bytearray would otherwise be writable.
    stored.flags.writeable = False
    return stored


def _widened_bf16(bits: Array) -> Array:
    # bfloat16 is the upper half of a float32.
    return np.left_shift(bits, 16, dtype=np.uint32).view(np.float32)


def _packed(codes: Array, bits: int) -> bytes:
    stream = np.unpackbits(codes[:, None], axis=1, bitorder="little")[:, :bits]
    return np.packbits(stream.reshape(-1), bitorder="little").tobytes()


def _extended_type(name: str) -> np.dtype[Any]:
    # Imported late: most models are BF16, which needs no table.
    import ml_dtypes

    extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _EXTENDED[name]))
    return extended


@cache
def float_table(name: str) -> npt.NDArray[np.float32]:
    """Return the numbers that the codes of a float format of at most eight bits stand for."""
    codes = np.arange(1 << DTYPES[name].bits, dtype=np.uint8)
    table = codes.view(_extended_type(name)).astype(np.float32)
    table.flags.writeable = False
    return table
