"""The same counting as in `tally`, compiled by numba: one pass over the bits instead of a dozen.

Imported only where numba is installed. Sums are taken in blocks of float32 and added up in float64. The
largest difference is found on the bits of its magnitude, which are ordered as the numbers are: a maximum of
floats would keep the compiler from using vectors for the whole loop.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from .tally import Bits, Tally, tally_with_numpy

_BLOCK = 4096
"""Values summed in float32: two blocks of them stay in the first cache, and the sum keeps six digits."""


@numba.njit(nogil=True, fastmath=True)  # type: ignore[untyped-decorator, unused-ignore]
def _count(left: Any, right: Any, wide_left: Any, wide_right: Any, sums: Any, counts: Any) -> None:  # noqa: ANN401
    n = left.size
    mine, theirs = wide_left.view(np.float32), wide_right.view(np.float32)
    for start in range(0, n, _BLOCK):
        length = min(_BLOCK, n - start)
        equal = near = nearby = zeros = base_zeros = np.int32(0)
        for i in range(length):
            a, b = np.int32(left[start + i]), np.int32(right[start + i])
            wide_left[i] = a << np.int32(16)
            wide_right[i] = b << np.int32(16)
            # Negative numbers run backwards: turn all bits but the sign.
            apart = (a ^ ((a >> np.int32(15)) & np.int32(0x7FFF))) - (
                b ^ ((b >> np.int32(15)) & np.int32(0x7FFF))
            )
            away = abs(apart)
            equal += np.int32(away == np.int32(0))
            near += np.int32(away <= np.int32(1))
            nearby += np.int32(away <= np.int32(16))
            zeros += np.int32((a & np.int32(0x7FFF)) == np.int32(0))
            base_zeros += np.int32((b & np.int32(0x7FFF)) == np.int32(0))
        square = change = np.float32(0)
        for i in range(length):
            difference = mine[i] - theirs[i]
            change += difference * difference
            square += theirs[i] * theirs[i]
            mine[i] = difference
        top = np.int32(0)
        for i in range(length):
            size = wide_left[i] & np.int32(0x7FFFFFFF)
            top = size if size > top else top
        counts[0] += equal
        counts[1] += near
        counts[2] += nearby
        counts[3] += zeros
        counts[4] += base_zeros
        counts[5] = max(counts[5], np.int64(top))
        sums[0] += change
        sums[1] += square


def tally_compiled(left: Bits, right: Bits, dtype: str) -> Tally:
    """Count stored bits of BF16; other formats are left to numpy, which is as fast at them."""
    if dtype != "BF16":
        return tally_with_numpy(left, right, dtype)
    sums, counts = np.zeros(2), np.zeros(6, np.int64)
    wide = np.empty(_BLOCK, np.int32), np.empty(_BLOCK, np.int32)
    _count(left.view(np.int16), right.view(np.int16), *wide, sums, counts)
    return Tally(
        values=left.size,
        equal=int(counts[0]),
        near=int(counts[1]),
        nearby=int(counts[2]),
        zeros=int(counts[3]),
        base_zeros=int(counts[4]),
        difference=float(sums[0]),
        base=float(sums[1]),
        largest=float(np.array([counts[5]], np.uint32).view(np.float32)[0]),
    )
