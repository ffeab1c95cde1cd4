"""Counting stored bits of two tensors, block by block: in numpy, or compiled if numba is installed.

What stored bits can tell is read from them: 16-bit integers are added and compared several times as fast as
they are converted to floats. Equal blocks are not examined further, except for zeros and sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from threading import local
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bits = npt.NDArray[np.generic]

_BLOCK = 1 << 18
"""Values handled at once: fewer cost more calls, more leave the cache of a core (a quarter slower at 2^16 and
at 2^20). Even, as numbers of sixteen bits are taken two at a time."""
_WORTH_COMPILING = 1 << 30
"""Bytes of each model up to which numpy finishes before numba is imported, which takes half a second, and two
or three if nothing is cached from an earlier run."""
_NEAR, _NEARBY = 1, 16
"""Steps of the stored format, as `EqualityCount` has them."""
F16_SPECIAL = 0x7C00
"""Bits of infinity in F16; NaN are larger."""
F16_SCALE = np.float32(2.0**112)
"""F16 bits shifted into the positions of F32 give a number that is smaller by the difference of the two
formats' exponent biases."""


@dataclass(slots=True)
class Tally:
    """Sums over some values; they add up in any order, except for the last digits."""

    values: int = 0
    equal: int = 0
    near: int = 0
    nearby: int = 0
    zeros: int = 0
    base_zeros: int = 0
    difference: float = 0.0
    base: float = 0.0
    largest: float = 0.0

    def add(self, other: Tally) -> None:
        """Add the sums of further values; a largest difference of NaN stays NaN."""
        self.values += other.values
        self.equal += other.equal
        self.near += other.near
        self.nearby += other.nearby
        self.zeros += other.zeros
        self.base_zeros += other.base_zeros
        self.difference += other.difference
        self.base += other.base
        if other.largest > self.largest or other.largest != other.largest:
            self.largest = other.largest


Kernel: TypeAlias = Callable[[Bits, Bits, str], Tally]


@cache
def kernels() -> dict[str, Kernel]:
    """Return the available ways of counting, the fastest first."""
    found: dict[str, Kernel] = {}
    if find_spec("numba") is not None:  # the extra `fast`
        from .compiled import tally_compiled

        found["numba"] = tally_compiled
    found["numpy"] = tally_with_numpy
    return found


def chosen_kernel(n_bytes: int) -> Kernel:
    """Return the way of counting that finishes first with this many bytes of each model."""
    if n_bytes < _WORTH_COMPILING:
        return tally_with_numpy
    return next(iter(kernels().values()))


class _Buffers(local):
    """Arrays of one thread, allocated once: large temporaries cost more than the work on them."""

    def __init__(self) -> None:
        self.flags = np.empty(_BLOCK, np.bool_)
        self.whole = {size: [np.empty(_BLOCK, f"u{size}") for _ in range(3)] for size in (2, 4)}
        self.floats = [np.empty(_BLOCK // 2, np.float32) for _ in range(4)]
        self.change = np.empty(_BLOCK, np.float32)


_buffers = _Buffers()


def tally_with_numpy(left: Bits, right: Bits, dtype: str) -> Tally:
    """Count stored bits of two tensors of one format: equal, near, zero, and how far apart."""
    total = Tally()
    for start in range(0, left.size, _BLOCK):
        mine, theirs = left[start : start + _BLOCK], right[start : start + _BLOCK]
        if mine.size % 2 and dtype != "F32":
            odd = np.zeros((2, mine.size + 1), mine.dtype)
            odd[0, :-1], odd[1, :-1] = mine, theirs
            found = _tally_block(odd[0], odd[1], dtype)
            one = Tally(values=1, equal=1, near=1, nearby=1, zeros=1, base_zeros=1)
            total.add(_less(found, one))
        else:
            total.add(_tally_block(mine, theirs, dtype))
    return total


def _less(found: Tally, zero: Tally) -> Tally:
    """Subtract the zero that was added to make the number of values even."""
    for name in ("values", "equal", "near", "nearby", "zeros", "base_zeros"):
        setattr(found, name, getattr(found, name) - getattr(zero, name))
    return found


def _tally_block(mine: Bits, theirs: Bits, dtype: str) -> Tally:
    n = mine.size
    room = _buffers.whole[mine.dtype.itemsize]
    sizes = np.left_shift(theirs, 1, out=room[0][:n])  # magnitudes: the sign is shifted out
    zeros = n - int(np.count_nonzero(sizes))
    numbers = _as_floats(theirs, sizes, dtype, _buffers.floats[:2])
    square = sum(float(np.dot(part, part)) for part in numbers)
    apart = np.subtract(mine, theirs, out=room[1][:n])
    differ = int(np.count_nonzero(apart))
    if not differ:
        return Tally(values=n, equal=n, near=n, nearby=n, zeros=zeros, base_zeros=zeros, base=square)
    own_sizes = np.left_shift(mine, 1, out=room[2][:n])
    own_zeros = n - int(np.count_nonzero(own_sizes))
    others = _as_floats(mine, own_sizes, dtype, _buffers.floats[2:])
    if min(int(sizes.min()), int(own_sizes.min())) <= 2 * _NEARBY:
        apart = _apart(mine, theirs)  # numbers on both sides of zero may be neighbours
    near, nearby = (_within(apart, reach) for reach in (_NEAR, _NEARBY))
    change, largest = 0.0, 0.0
    for one, other in zip(others, numbers, strict=True):
        difference = np.subtract(one, other, out=_buffers.change[: one.size])
        change += float(np.dot(difference, difference))
        largest = float(np.maximum(largest, max(float(difference.max()), -float(difference.min()))))
    return Tally(
        values=n,
        equal=n - differ,
        near=near,
        nearby=nearby,
        zeros=own_zeros,
        base_zeros=zeros,
        difference=change,
        base=square,
        largest=largest,
    )


def _within(apart: Bits, reach: int) -> int:
    """Count differences of at most this many steps, up or down: unsigned integers wrap around at zero."""
    n = apart.size
    moved = np.add(apart, reach, out=_buffers.whole[apart.dtype.itemsize][0][:n])
    return int(np.count_nonzero(np.less_equal(moved, 2 * reach, out=_buffers.flags[:n])))


def _apart(mine: Bits, theirs: Bits) -> Bits:
    """Return differences in steps, as integers in the order of the numbers, also across zero."""
    n, size = mine.size, mine.dtype.itemsize
    bits, signed = 8 * size - 1, f"i{size}"
    ordered = []
    for values, out in zip((mine, theirs), _buffers.whole[size][1:], strict=True):
        # Negative numbers run backwards: flip all bits but the sign.
        turned = np.right_shift(values.view(signed), bits, out=out[:n].view(signed))
        np.bitwise_and(turned, (1 << bits) - 1, out=turned)
        ordered.append(np.bitwise_xor(turned, values.view(signed), out=turned).view(values.dtype))
    apart: Bits = np.subtract(ordered[0], ordered[1], out=ordered[0])
    return apart


def _as_floats(bits: Bits, sizes: Bits, dtype: str, rooms: Sequence[Floats]) -> tuple[Floats, ...]:
    """Return the numbers; for 16-bit formats, the upper and the lower ones of each 32-bit word."""
    if dtype == "F32":
        return (bits.view(np.float32),)
    words = bits.view(np.uint32)
    high, low = (room[: words.size] for room in rooms)
    if dtype == "BF16":
        np.bitwise_and(words, 0xFFFF0000, out=high.view(np.uint32))
        np.left_shift(words, 16, out=low.view(np.uint32))
        return high, low
    if int(sizes.max()) >= 2 * F16_SPECIAL:
        halves = bits.view(np.float16)
        np.copyto(low, halves[0::2])
        np.copyto(high, halves[1::2])
        return high, low
    np.copyto(high.view(np.uint32), words)
    np.left_shift(words, 16, out=low.view(np.uint32))
    for part in (high, low):
        # The exponent moves to its place in 32 bits, the sign stays; the rest is a power of two.
        whole = np.right_shift(part.view(np.int32), 3, out=part.view(np.int32)).view(np.uint32)
        np.bitwise_and(whole, 0x8FFFE000, out=whole)
        np.multiply(part, F16_SCALE, out=part)
    return high, low
