"""Codes of a few bits each, packed as one little-endian stream without padding, taken apart."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from modelkin.tensors import Array, decode

Table = npt.NDArray[np.float32]

_PIECE: Final = 1 << 18
_BY_BYTE: Final = frozenset({1, 2, 4, 8})


def unpacked(data: Array, bits: int) -> Array:
    """Take streams apart, one for each row.

    Parameters
    ----------
    data
        Bytes (rows, bytes), the bytes of a row a multiple of `bits`, or of one where codes fill bytes.
    bits
        Of one code, 1 to 8. Code i has the bits ``i * bits`` up to ``(i + 1) * bits``.

    Returns
    -------
    ndarray
        Codes (rows, codes), one in each byte.
    """
    if bits == 8:
        return data
    rows = len(data)
    if bits in _BY_BYTE:
        per = 8 // bits
        codes = np.empty((*data.shape, per), np.uint8)
        for place in range(per):
            np.right_shift(data, place * bits, out=codes[..., place])
        codes &= np.uint8((1 << bits) - 1)
        return codes.reshape(rows, -1)
    # Eight codes fill as many bytes as each has bits: each lies in one byte or in two neighbours.
    groups = data.reshape(rows, -1, bits)
    codes = np.empty((rows, groups.shape[1], 8), np.uint8)
    for place in range(8):
        byte, shift = divmod(place * bits, 8)
        np.right_shift(groups[..., byte], shift, out=codes[..., place])
        if shift + bits > 8:
            codes[..., place] |= groups[..., byte + 1] << (8 - shift)
    codes &= np.uint8((1 << bits) - 1)
    return codes.reshape(rows, -1)


def looked_up(table: Table, codes: Array) -> Array:
    """Return the number that each code stands for."""
    # numpy widens indices to eight bytes each: in pieces that costs no memory and less time.
    flat = codes.reshape(-1)
    values = np.empty(flat.size, np.float32)
    for start in range(0, flat.size, _PIECE):
        piece = slice(start, start + _PIECE)
        np.take(table, flat[piece], out=values[piece], mode="clip")
    return values.reshape(codes.shape)


@cache
def float_table(dtype: str) -> Table:
    """Return the numbers that the codes of a float format of at most eight bits stand for."""
    bits = 4 if dtype == "F4" else 8
    codes = np.arange(1 << bits, dtype=np.uint8)
    data = (codes[0::2] | codes[1::2] << 4).tobytes() if bits == 4 else codes.tobytes()
    table: Table = np.array(decode(data, dtype, codes.size), np.float32)
    table.flags.writeable = False
    return table
