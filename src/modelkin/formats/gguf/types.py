"""The number types of GGUF, and how blocks of codes and scales become numbers.

Types are decoded by `gguf.quants`, or by decoders of our own where `benchmarks.formats_gguf` finds these at
least twice as fast. They do the arithmetic of llama.cpp in its order, in float32, so the results are equal to
the last bit; they differ in the number of passes over memory. Blocks are taken some thousands at a time: what
is written between two passes then stays in the CPU cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from modelkin.tensors import Array, Buffer, decode


@dataclass(frozen=True, slots=True, kw_only=True)
class GgmlType:
    """One number type. Rows are runs of whole blocks; a block never spans two rows."""

    number: int
    """As written in the file."""
    name: str
    block: int
    """Numbers in one block."""
    block_bytes: int
    plain: str | None = None
    """The same type among those of `modelkin.tensors.DTYPES`; None for blocks of codes with scales."""

    def row_bytes(self, width: int) -> int:
        """Return the bytes of a row of `width` numbers, a multiple of the block."""
        return width // self.block * self.block_bytes


def _table() -> Mapping[int, GgmlType]:
    plain = [
        (0, "F32", 4),
        (1, "F16", 2),
        (24, "I8", 1),
        (25, "I16", 2),
        (26, "I32", 4),
        (27, "I64", 8),
        (28, "F64", 8),
        (30, "BF16", 2),
    ]
    coded = [
        (2, "Q4_0", 32, 18),
        (3, "Q4_1", 32, 20),
        (6, "Q5_0", 32, 22),
        (7, "Q5_1", 32, 24),
        (8, "Q8_0", 32, 34),
        (10, "Q2_K", 256, 84),
        (11, "Q3_K", 256, 110),
        (12, "Q4_K", 256, 144),
        (13, "Q5_K", 256, 176),
        (14, "Q6_K", 256, 210),
        (16, "IQ2_XXS", 256, 66),
        (17, "IQ2_XS", 256, 74),
        (18, "IQ3_XXS", 256, 98),
        (19, "IQ1_S", 256, 50),
        (20, "IQ4_NL", 32, 18),
        (21, "IQ3_S", 256, 110),
        (22, "IQ2_S", 256, 82),
        (23, "IQ4_XS", 256, 136),
        (29, "IQ1_M", 256, 56),
        (34, "TQ1_0", 256, 54),
        (35, "TQ2_0", 256, 66),
        (39, "MXFP4", 32, 17),
        (40, "NVFP4", 64, 36),
    ]
    types = {
        number: GgmlType(number=number, name=name, block=1, block_bytes=size, plain=name)
        for number, name, size in plain
    }
    types |= {
        number: GgmlType(number=number, name=name, block=block, block_bytes=size)
        for number, name, block, size in coded
    }
    return MappingProxyType(types)


TYPES: Mapping[int, GgmlType] = _table()
"""Every type that can be read, by its number."""

UNREAD: Mapping[int, str] = MappingProxyType(
    {
        4: "Q4_2",
        5: "Q4_3",
        9: "Q8_1",
        15: "Q8_K",
        31: "Q4_0_4_4",
        32: "Q4_0_4_8",
        33: "Q4_0_8_8",
        36: "IQ4_NL_4_4",
        37: "IQ4_NL_4_8",
        38: "IQ4_NL_8_8",
        41: "Q1_0",
    }
)
"""Types with a name but no reader: dropped from the format, not meant for files, or too new."""


Bytes: TypeAlias = npt.NDArray[np.uint8]
Floats: TypeAlias = npt.NDArray[np.float32]
Decoder: TypeAlias = Callable[[Bytes, Floats], None]
"""Fills (blocks, numbers) from (blocks, bytes)."""

_NUMBERS_AT_ONCE = 1 << 17
_LOW = np.uint8(0x0F)
_FOUR = np.uint8(4)


def decode_rows(data: Buffer, kind: GgmlType, *, n_rows: int, width: int) -> Array:
    """Return whole rows of exactly these bytes as numbers (rows, width); `width` is a multiple of the block.

    The result is float32; for plain types as `modelkin.tensors.decode` says.
    """
    if kind.plain is not None:
        return decode(data, kind.plain, n_rows * width).reshape(n_rows, width)
    coded = np.frombuffer(data, np.uint8).reshape(n_rows, -1)
    # Scales of a hostile file may be infinite or NaN; then so is the result, without a warning.
    with np.errstate(all="ignore"):
        decoder = _DECODERS.get(kind.name) or _of_gguf(kind)
        return _in_pieces(coded, kind, decoder).reshape(n_rows, width)


def _in_pieces(rows: Bytes, kind: GgmlType, decoder: Decoder) -> Floats:
    coded = rows.reshape(-1, kind.block_bytes)
    values = np.empty((len(coded), kind.block), np.float32)
    step = max(1, _NUMBERS_AT_ONCE // kind.block)
    for first in range(0, len(coded), step):
        decoder(coded[first : first + step], values[first : first + step])
    return values


def _of_gguf(kind: GgmlType) -> Decoder:
    import gguf  # takes a fifth of a second, and files of a single type may not need it

    official = gguf.GGMLQuantizationType(kind.number)

    def decoder(coded: Bytes, values: Floats) -> None:
        values[...] = gguf.quants.dequantize(coded, official)

    return decoder


def _halves(coded: Bytes, start: int) -> Floats:
    """Return the float16 at one place of each block, as a column."""
    column = np.ascontiguousarray(coded[:, start : start + 2]).view("<f2")
    return column.astype(np.float32)


def _nibbles(codes: Bytes, values: Floats) -> None:
    """Write the low halves of bytes, then the high ones."""
    half = codes.shape[-1]
    values[..., :half] = codes & _LOW
    values[..., half:] = codes >> _FOUR


def _q4_0(coded: Bytes, values: Floats) -> None:
    _nibbles(coded[:, 2:], values)
    values -= np.float32(8)
    values *= _halves(coded, 0)


def _q4_1(coded: Bytes, values: Floats) -> None:
    _nibbles(coded[:, 4:], values)
    values *= _halves(coded, 0)
    values += _halves(coded, 2)


def _q8_0(coded: Bytes, values: Floats) -> None:
    values[...] = coded[:, 2:].view(np.int8)
    values *= _halves(coded, 0)


def _k_scales(packed: Bytes) -> tuple[Floats, Floats]:
    """Return 8 scales and 8 minima of six bits in twelve bytes."""
    first, second, both = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    six, two = np.uint8(0x3F), np.uint8(0x30)
    scales = np.concatenate([first & six, (both & _LOW) | ((first >> np.uint8(2)) & two)], axis=1)
    minima = np.concatenate([second & six, (both >> _FOUR) | ((second >> np.uint8(2)) & two)], axis=1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _scale_k(coded: Bytes, values: Floats) -> None:
    scales, minima = _k_scales(coded[:, 4:16])
    grouped = values.reshape(-1, 8, 32)
    grouped *= (_halves(coded, 0) * scales)[:, :, None]
    grouped -= (_halves(coded, 2) * minima)[:, :, None]


def _q4_k(coded: Bytes, values: Floats) -> None:
    codes, pairs = coded[:, 16:].reshape(-1, 4, 32), values.reshape(-1, 4, 64)
    _nibbles(codes, pairs)
    _scale_k(coded, values)


_STEPS = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""What the sixteen codes of IQ4 stand for."""
_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""What the sixteen codes of MXFP4 stand for, doubled."""


def _halves_of_bytes(steps: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return what the low and the high half of each of the 256 bytes stand for."""
    values = np.array(steps, np.float32)
    every = np.arange(256)
    return values[every & 15], values[every >> 4]


_STEPS_OF_BYTES = _halves_of_bytes(_STEPS)
_E2M1_OF_BYTES = _halves_of_bytes(_E2M1)


def _looked_up(codes: Bytes, tables: tuple[Floats, Floats], values: Floats) -> None:
    half = codes.shape[-1]
    values[..., :half] = tables[0][codes]
    values[..., half:] = tables[1][codes]


def _iq4_nl(coded: Bytes, values: Floats) -> None:
    _looked_up(coded[:, 2:], _STEPS_OF_BYTES, values)
    values *= _halves(coded, 0)


def _iq4_xs(coded: Bytes, values: Floats) -> None:
    _looked_up(coded[:, 8:].reshape(-1, 8, 16), _STEPS_OF_BYTES, values.reshape(-1, 8, 32))
    low = np.stack([coded[:, 4:8] & _LOW, coded[:, 4:8] >> _FOUR], axis=-1).reshape(-1, 8)
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4)
    high = ((coded[:, 2:4, None] >> shifts) & np.uint8(3)).reshape(-1, 8)
    scales = (low | (high << _FOUR)).astype(np.float32) - np.float32(32)
    grouped = values.reshape(-1, 8, 32)
    grouped *= (_halves(coded, 0) * scales)[:, :, None]


def _mxfp4(coded: Bytes, values: Floats) -> None:
    _looked_up(coded[:, 1:], _E2M1_OF_BYTES, values)
    exponent = coded[:, :1].astype(np.uint32)
    tiny = np.uint32(0x00200000) << np.minimum(exponent, np.uint32(1))
    bits = np.where(exponent < 2, tiny, (exponent - np.uint32(1)) << np.uint32(23))
    values *= bits.view(np.float32)  # half the power of two, since the table holds doubled values


_DECODERS: Mapping[str, Decoder] = MappingProxyType(
    {
        "Q4_0": _q4_0,
        "Q4_1": _q4_1,
        "Q8_0": _q8_0,
        "Q4_K": _q4_k,
        "IQ4_NL": _iq4_nl,
        "IQ4_XS": _iq4_xs,
        "MXFP4": _mxfp4,
    }
)
