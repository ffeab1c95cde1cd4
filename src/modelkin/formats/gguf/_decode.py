"""Blocks of codes and scales to numbers: by `gguf.quants`, and by decoders that are twice as fast.

Only types that `benchmarks.formats_gguf` finds at least twice as fast have a decoder here. Each does the
arithmetic of llama.cpp in its order, in float32, so its results are equal to those of `gguf.quants` to the
last bit; they differ in the number of passes over memory. Blocks are taken some thousands at a time: what is
written between two passes then stays in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from modelkin.tensors import Array, Buffer, decode

from ._types import GgmlType

Bytes: TypeAlias = npt.NDArray[np.uint8]
Floats: TypeAlias = npt.NDArray[np.float32]
Decoder: TypeAlias = Callable[[Bytes, Floats], None]
"""Fills (blocks, numbers) from (blocks, bytes)."""

_NUMBERS_AT_ONCE = 1 << 17
_LOW = np.uint8(0x0F)
_FOUR = np.uint8(4)


def decode_rows(data: Buffer, kind: GgmlType, *, n_rows: int, width: int) -> Array:
    """Return whole rows as numbers.

    Parameters
    ----------
    data
        Just the bytes of these rows.
    kind
        How they are stored.
    n_rows, width
        The shape of the result; `width` is a multiple of the block.

    Returns
    -------
    ndarray
        (rows, width), float32; of plain types as `modelkin.tensors.decode` says.
    """
    if kind.plain is not None:
        return decode(data, kind.plain, n_rows * width).reshape(n_rows, width)
    coded = np.frombuffer(data, np.uint8).reshape(n_rows, -1)
    # Scales from a stranger's file may be infinite or no numbers; so is then the result, without a warning.
    with np.errstate(all="ignore"):
        own = _DECODERS.get(kind.name)
        return _of_gguf(coded, kind) if own is None else _in_pieces(coded, kind, own).reshape(n_rows, width)


def _in_pieces(rows: Bytes, kind: GgmlType, decoder: Decoder) -> Floats:
    coded = rows.reshape(-1, kind.block_bytes)
    values = np.empty((len(coded), kind.block), np.float32)
    step = max(1, _NUMBERS_AT_ONCE // kind.block)
    for first in range(0, len(coded), step):
        decoder(coded[first : first + step], values[first : first + step])
    return values


def _of_gguf(coded: Bytes, kind: GgmlType) -> Array:
    import gguf  # takes a fifth of a second, and files of a single type may do without

    values: Array = gguf.quants.dequantize(coded, gguf.GGMLQuantizationType(kind.number))
    return values


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
    values *= bits.view(np.float32)  # half of the power of two, since the table has doubles


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
