"""Counting stored bits of two tensors, block by block: in numpy always, compiled where numba is installed.

What can be told from stored bits is told from them: whole numbers of sixteen bits are added and compared
several times as fast as floats are made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from importlib.util import find_spec
from threading import local
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bits = npt.NDArray[np.generic]

_BLOCK = 1 << 16
"""Values handled at once: what is made of them stays in the cache of a core."""
_NEAR, _NEARBY = 1, 16
"""Steps of the stored format, as `EqualityCount` has them."""


@dataclass(slots=True)
class Tally:
    """Sums over some values; they add up in any order but for the last digits."""

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
        """Add the sums of further values."""
        for item in fields(Tally):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            setattr(self, item.name, max(mine, theirs) if item.name == "largest" else mine + theirs)


Kernel: TypeAlias = Callable[[Bits, Bits, str], Tally]


@cache
def kernels() -> dict[str, Kernel]:
    """Return the ways of counting that there are here, the fastest first."""
    found: dict[str, Kernel] = {}
    if find_spec("numba") is not None:  # the extra `fast`
        from .compiled import tally_compiled

        found["numba"] = tally_compiled
    found["numpy"] = tally_with_numpy
    return found


class _Buffers(local):
    """Arrays of one thread, made once: large temporaries cost more than what is done with them."""

    def __init__(self) -> None:
        self.left = np.empty(_BLOCK, np.float32)
        self.right = np.empty(_BLOCK, np.float32)
        self.flags = np.empty(_BLOCK, np.bool_)
        self.orders = (np.empty(_BLOCK, np.int32), np.empty(_BLOCK, np.int32))
        self.short = (np.empty(_BLOCK, np.int16), np.empty(_BLOCK, np.int16))


_buffers = _Buffers()


def tally_with_numpy(left: Bits, right: Bits, dtype: str) -> Tally:
    """Count stored bits of two tensors of one format: equal, near, zero, and how far apart."""
    total = Tally()
    for start in range(0, left.size, _BLOCK):
        mine, theirs = left[start : start + _BLOCK], right[start : start + _BLOCK]
        total.add(_tally_block(mine, theirs, dtype))
    return total


def _tally_block(mine: Bits, theirs: Bits, dtype: str) -> Tally:
    n = mine.size
    numbers = _as_floats(theirs, dtype, _buffers.right)
    flags = np.not_equal(mine, theirs, out=_buffers.flags[:n])
    differ = int(np.count_nonzero(flags))
    zeros = n - int(np.count_nonzero(numbers))
    square = float(np.dot(numbers, numbers))
    if not differ:
        return Tally(values=n, equal=n, near=n, nearby=n, zeros=zeros, base_zeros=zeros, base=square)
    others = _as_floats(mine, dtype, _buffers.left)
    own_zeros = n - int(np.count_nonzero(others))
    near, nearby = _near(mine, theirs)
    change = np.subtract(others, numbers, out=others)
    return Tally(
        values=n,
        equal=n - differ,
        near=near,
        nearby=nearby,
        zeros=own_zeros,
        base_zeros=zeros,
        difference=float(np.dot(change, change)),
        base=square,
        largest=max(float(change.max()), -float(change.min())),
    )


def _near(mine: Bits, theirs: Bits) -> tuple[int, int]:
    """Count values at most one and at most sixteen steps apart, in whole numbers that are ordered alike."""
    n = mine.size
    short = mine.dtype.itemsize == 2
    room: tuple[npt.NDArray[Any], npt.NDArray[Any]] = _buffers.short if short else _buffers.orders
    signed, unsigned = (np.int16, np.uint16) if short else (np.int32, np.uint32)
    bits = 15 if short else 31
    ordered = []
    for values, out in zip((mine, theirs), room, strict=True):
        whole = values.view(signed)
        # Negative numbers run backwards: turn all bits but the sign.
        turned = np.right_shift(whole, bits, out=out[:n])
        np.bitwise_and(turned, signed((1 << bits) - 1), out=turned)
        ordered.append(np.bitwise_xor(turned, whole, out=turned))
    apart = np.subtract(ordered[0], ordered[1], out=ordered[0])
    flags = _buffers.flags[:n]
    counts = []
    for reach in (_NEAR, _NEARBY):
        moved = np.add(apart, signed(reach), out=ordered[1])
        counts.append(int(np.count_nonzero(np.less_equal(moved.view(unsigned), 2 * reach, out=flags))))
    return counts[0], counts[1]


def _as_floats(bits: Bits, dtype: str, room: Floats) -> Floats:
    n = bits.size
    out = room[:n]
    if dtype == "F32":
        np.copyto(out, bits.view(np.float32))
    elif dtype == "F16":
        np.copyto(out, bits.view(np.float16))
    else:
        np.left_shift(bits, 16, out=out.view(np.uint32), dtype=np.uint32)
    return out
