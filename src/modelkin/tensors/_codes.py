"""Codes of a few bits: packed as one little-endian stream without padding, taken apart and looked up."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

# The element type follows from the data at run time, so the static type cannot say it.
Array: TypeAlias = npt.NDArray[Any]

_PIECE: Final = 1 << 16
"""Codes looked up at a time: 256 KB of numbers stay in a core's cache."""


def unpacked(data: Array, bits: int) -> Array:
    """Unpack bit streams (..., bytes of a row) into codes (..., codes of a row), one in each byte.

    A row has a multiple of `bits` bytes, or any number where codes of 1 to 8 `bits` fill bytes. Code i has
    the bits ``i * bits`` up to ``(i + 1) * bits``.
    """
    if bits == 8:
        return data
    # Eight codes fill `bits` bytes; fewer codes of 1, 2 or 4 bits fill a single byte.
    n_codes, n_bytes = (8 // bits, 1) if 8 % bits == 0 else (8, bits)
    groups = data.reshape(*data.shape[:-1], -1, n_bytes)
    codes = np.empty((*groups.shape[:-1], n_codes), np.uint8)
    for place in range(n_codes):
        byte, shift = divmod(place * bits, 8)
        np.right_shift(groups[..., byte], shift, out=codes[..., place])
        if shift + bits > 8:
            codes[..., place] |= groups[..., byte + 1] << (8 - shift)
    codes &= np.uint8((1 << bits) - 1)
    return codes.reshape(*data.shape[:-1], -1)


def looked_up(table: npt.NDArray[np.float32], codes: Array) -> npt.NDArray[np.float32]:
    """Return the number that each code stands for."""
    # numpy widens indices to eight bytes each. In pieces that stay in the CPU cache that costs no
    # memory and a quarter of the time. No code is out of range: clipping only saves the check.
    flat = codes.reshape(-1)
    values = np.empty(flat.size, np.float32)
    for start in range(0, flat.size, _PIECE):
        piece = slice(start, start + _PIECE)
        np.take(table, flat[piece], out=values[piece], mode="clip")
    return values.reshape(codes.shape)
