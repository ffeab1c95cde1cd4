"""The same counting as in `tally`, compiled by numba: one pass over the bits instead of a dozen.

Imported only where numba is installed. Each loop handles numbers of one width and walks over an array from
its beginning: then the compiler uses vectors (eight times as fast as loops that mix widths or begin at an
offset). Sums are taken in blocks of float32 and added up in float64. The largest difference is found on the
bits of its magnitude, which are ordered as the numbers are and show NaN as the largest: a maximum of floats
would keep the compiler from using vectors at all.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from .tally import F16_SCALE, F16_SPECIAL, Bits, Tally, tally_with_numpy

_BLOCK = 4096
"""Values summed in float32: two blocks of them stay in the first cache, the sum keeps six digits, and counts
fit into sixteen bits."""
_GLANCE = 256
"""64-bit words that are compared before a block counts as equal so far."""
_REORDERED = {"reassoc", "contract", "nsz"}
"""Sums may be taken in any order; NaN and infinity stay what they are."""

_i16, _u16, _i32, _u32, _f32 = np.int16, np.uint16, np.int32, np.uint32, np.float32
_SCALE = _f32(F16_SCALE)


def _jit(function: Any) -> Any:  # noqa: ANN401
    """Compile on first use; the result is cached for the next run if there is a place for it."""
    try:
        return numba.njit(nogil=True, fastmath=_REORDERED, cache=True)(function)
    except RuntimeError:  # numba found no folder it may write to
        return numba.njit(nogil=True, fastmath=_REORDERED)(function)


@_jit
def _same(left: Any, right: Any) -> bool:  # noqa: ANN401
    for start in range(0, left.size, _GLANCE):  # differences show early
        mine, theirs = left[start : start + _GLANCE], right[start : start + _GLANCE]
        other = np.uint64(0)
        for i in range(mine.size):
            other |= mine[i] ^ theirs[i]
        if other != np.uint64(0):
            return False
    return True


@_jit
def _zeros_16(values: Any) -> int:  # noqa: ANN401
    zeros = _u16(0)
    for i in range(values.size):
        zeros = _u16(zeros + _u16(_u16(_u16(values[i]) << _u16(1)) == _u16(0)))
    return np.int64(zeros)  # type: ignore[return-value]


@_jit
def _steps_16(left: Any, right: Any, counts: Any) -> None:  # noqa: ANN401
    equal = near = nearby = zeros = base_zeros = _u16(0)
    for i in range(left.size):
        a, b = left[i], right[i]
        # Negative numbers run backwards: flip all bits but the sign.
        mine = _i16(a ^ _i16(_i16(a >> _i16(15)) & _i16(0x7FFF)))
        theirs = _i16(b ^ _i16(_i16(b >> _i16(15)) & _i16(0x7FFF)))
        apart = _u16(_u16(mine) - _u16(theirs))
        equal = _u16(equal + _u16(apart == _u16(0)))
        near = _u16(near + _u16(_u16(apart + _u16(1)) <= _u16(2)))
        nearby = _u16(nearby + _u16(_u16(apart + _u16(16)) <= _u16(32)))
        zeros = _u16(zeros + _u16(_u16(_u16(a) << _u16(1)) == _u16(0)))
        base_zeros = _u16(base_zeros + _u16(_u16(_u16(b) << _u16(1)) == _u16(0)))
    counts[0] += equal
    counts[1] += near
    counts[2] += nearby
    counts[3] += zeros
    counts[4] += base_zeros


@_jit
def _zeros_32(values: Any) -> int:  # noqa: ANN401
    zeros = _i32(0)
    for i in range(values.size):
        zeros = _i32(zeros + _i32(_u32(_u32(values[i]) << _u32(1)) == _u32(0)))
    return np.int64(zeros)  # type: ignore[return-value]


@_jit
def _steps_32(left: Any, right: Any, counts: Any) -> None:  # noqa: ANN401
    equal = near = nearby = zeros = base_zeros = _u32(0)
    for i in range(left.size):
        a, b = left[i], right[i]
        mine = _i32(a ^ _i32(_i32(a >> _i32(31)) & _i32(0x7FFFFFFF)))
        theirs = _i32(b ^ _i32(_i32(b >> _i32(31)) & _i32(0x7FFFFFFF)))
        apart = _u32(_u32(mine) - _u32(theirs))
        equal = _u32(equal + _u32(apart == _u32(0)))
        near = _u32(near + _u32(_u32(apart + _u32(1)) <= _u32(2)))
        nearby = _u32(nearby + _u32(_u32(apart + _u32(16)) <= _u32(32)))
        zeros = _u32(zeros + _u32(_u32(_u32(a) << _u32(1)) == _u32(0)))
        base_zeros = _u32(base_zeros + _u32(_u32(_u32(b) << _u32(1)) == _u32(0)))
    counts[0] += equal
    counts[1] += near
    counts[2] += nearby
    counts[3] += zeros
    counts[4] += base_zeros


@_jit
def _sizes_32(left: Any, right: Any, sums: Any, counts: Any) -> None:  # noqa: ANN401
    change = square = _f32(0)
    top = _i32(0)
    for i in range(left.size):
        difference = _f32(left[i] - right[i])
        change += difference * difference
        square += right[i] * right[i]
        size = _i32(difference.view(_i32) & _i32(0x7FFFFFFF))
        top = size if size > top else top
    sums[0] += change
    sums[1] += square
    counts[5] = max(counts[5], np.int64(top))


@_jit
def _square_32(values: Any) -> float:  # noqa: ANN401
    square = _f32(0)
    for i in range(values.size):
        square += values[i] * values[i]
    return np.float64(square)


@_jit
def _sizes_bf16(left: Any, right: Any, sums: Any, counts: Any) -> None:  # noqa: ANN401
    """Take two numbers from each 32-bit word: the upper is in place, the lower is shifted up."""
    change = square = _f32(0)
    top = _i32(0)
    for i in range(left.size):
        a, b = left[i], right[i]
        base_high = _u32(b & _u32(0xFFFF0000)).view(_f32)
        base_low = _u32(b << _u32(16)).view(_f32)
        high = _f32(_u32(a & _u32(0xFFFF0000)).view(_f32) - base_high)
        low = _f32(_u32(a << _u32(16)).view(_f32) - base_low)
        change += _f32(high * high + low * low)
        square += _f32(base_high * base_high + base_low * base_low)
        one, other = _i32(high.view(_i32) & _i32(0x7FFFFFFF)), _i32(low.view(_i32) & _i32(0x7FFFFFFF))
        larger = one if one > other else other
        top = larger if larger > top else top
    sums[0] += change
    sums[1] += square
    counts[5] = max(counts[5], np.int64(top))


@_jit
def _square_bf16(values: Any) -> float:  # noqa: ANN401
    square = _f32(0)
    for i in range(values.size):
        high = _u32(values[i] & _u32(0xFFFF0000)).view(_f32)
        low = _u32(values[i] << _u32(16)).view(_f32)
        square += _f32(high * high + low * low)
    return np.float64(square)


@_jit
def _count_bf16(left: Any, right: Any, sums: Any, counts: Any) -> bool:  # noqa: ANN401
    """Count whole 64-bit words, four numbers in each."""
    for start in range(0, left.size, _BLOCK // 4):
        mine, theirs = left[start : start + _BLOCK // 4], right[start : start + _BLOCK // 4]
        words = theirs.view(_u32)
        if _same(mine, theirs):
            _copied(4 * mine.size, _zeros_16(theirs.view(_i16)), _square_bf16(words), sums, counts)
        else:
            _steps_16(mine.view(_i16), theirs.view(_i16), counts)
            _sizes_bf16(mine.view(_u32), words, sums, counts)
    return True


@_jit
def _largest_16(values: Any) -> int:  # noqa: ANN401
    top = _u16(0)
    for i in range(values.size):
        size = _u16(_u16(values[i]) & _u16(0x7FFF))
        top = size if size > top else top
    return np.int64(top)  # type: ignore[return-value]


@_jit
def _wide(word: Any) -> Any:  # noqa: ANN401
    """Put the F16 in the upper half of a word into the places of F32 (see `tally.F16_SCALE`)."""
    return _f32(_i32(_i32(word >> _i32(3)) & _i32(-0x70002000)).view(_f32) * _SCALE)


@_jit
def _sizes_f16(left: Any, right: Any, sums: Any, counts: Any) -> None:  # noqa: ANN401
    change = square = _f32(0)
    top = _i32(0)
    for i in range(left.size):
        a, b = left[i], right[i]
        base_high, base_low = _wide(b), _wide(_i32(b << _i32(16)))
        high, low = _f32(_wide(a) - base_high), _f32(_wide(_i32(a << _i32(16))) - base_low)
        change += _f32(high * high + low * low)
        square += _f32(base_high * base_high + base_low * base_low)
        one, other = _i32(high.view(_i32) & _i32(0x7FFFFFFF)), _i32(low.view(_i32) & _i32(0x7FFFFFFF))
        larger = one if one > other else other
        top = larger if larger > top else top
    sums[0] += change
    sums[1] += square
    counts[5] = max(counts[5], np.int64(top))


@_jit
def _square_f16(values: Any) -> float:  # noqa: ANN401
    square = _f32(0)
    for i in range(values.size):
        high, low = _wide(values[i]), _wide(_i32(values[i] << _i32(16)))
        square += _f32(high * high + low * low)
    return np.float64(square)


@_jit
def _count_f16(left: Any, right: Any, sums: Any, counts: Any) -> bool:  # noqa: ANN401
    for start in range(0, left.size, _BLOCK // 4):
        mine, theirs = left[start : start + _BLOCK // 4], right[start : start + _BLOCK // 4]
        most = max(_largest_16(mine.view(_i16)), _largest_16(theirs.view(_i16)))
        if most >= F16_SPECIAL:
            return False
        words = theirs.view(_i32)
        if _same(mine, theirs):
            _copied(4 * mine.size, _zeros_16(theirs.view(_i16)), _square_f16(words), sums, counts)
        else:
            _steps_16(mine.view(_i16), theirs.view(_i16), counts)
            _sizes_f16(mine.view(_i32), words, sums, counts)
    return True


@_jit
def _count_f32(left: Any, right: Any, sums: Any, counts: Any) -> bool:  # noqa: ANN401
    for start in range(0, left.size, _BLOCK // 2):
        mine, theirs = left[start : start + _BLOCK // 2], right[start : start + _BLOCK // 2]
        numbers = theirs.view(_f32)
        if _same(mine, theirs):
            _copied(2 * mine.size, _zeros_32(theirs.view(_i32)), _square_32(numbers), sums, counts)
        else:
            _steps_32(mine.view(_i32), theirs.view(_i32), counts)
            _sizes_32(mine.view(_f32), numbers, sums, counts)
    return True


@_jit
def _copied(n: int, zeros: int, square: float, sums: Any, counts: Any) -> None:  # noqa: ANN401
    for place in range(3):
        counts[place] += n
    counts[3] += zeros
    counts[4] += zeros
    sums[1] += square


_COUNTED = {"BF16": _count_bf16, "F16": _count_f16, "F32": _count_f32}


def tally_compiled(left: Bits, right: Bits, dtype: str) -> Tally:
    """Count stored bits; F16 with infinities or NaN is left to numpy."""
    a_word = 8 // left.dtype.itemsize
    whole = left.size // a_word * a_word
    sums, counts = np.zeros(2), np.zeros(6, np.int64)
    if not _COUNTED[dtype](left[:whole].view(np.uint64), right[:whole].view(np.uint64), sums, counts):
        return tally_with_numpy(left, right, dtype)
    found = Tally(
        values=whole,
        equal=int(counts[0]),
        near=int(counts[1]),
        nearby=int(counts[2]),
        zeros=int(counts[3]),
        base_zeros=int(counts[4]),
        difference=float(sums[0]),
        base=float(sums[1]),
        largest=float(np.array([counts[5]], np.uint32).view(np.float32)[0]),
    )
    if whole < left.size:
        found.add(tally_with_numpy(left[whole:], right[whole:], dtype))
    return found
