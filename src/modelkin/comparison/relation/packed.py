"""Matrices held in half the memory, where their numbers allow it: widened again they are the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
_STRIPE = 1 << 20
"""Numbers that are looked at together: a mask of a whole matrix would take as much memory as is saved."""
_LOWER = np.uint32(0xFFFF)
"""Bits of a float32 that BF16 does not have."""
_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A matrix as BF16 or F16 codes if all its numbers have one, else as it was read."""

    codes: npt.NDArray[np.uint16] | npt.NDArray[np.float16] | Floats = field(repr=False)

    @classmethod
    def of(cls, values: Floats) -> Packed:
        """Pack a matrix."""
        values = np.ascontiguousarray(values, np.float32)
        bits = values.view(np.uint32)
        if not any((stripe & _LOWER).any() for stripe in _stripes(bits)):
            upper = np.empty(values.shape, np.uint16)
            for there, stripe in zip(_stripes(upper), _stripes(bits), strict=True):
                there[...] = stripe >> np.uint32(16)
            return cls(upper)
        with np.errstate(over="ignore", invalid="ignore"):
            if all(_is_half(stripe) for stripe in _stripes(values)):
                return cls(values.astype(np.float16))
        return cls(values)

    def wide(self) -> Floats:
        """Return the matrix: a new array, unless it could not be packed."""
        if self.codes.dtype != np.uint16:
            return np.asarray(self.codes, np.float32)
        values = np.empty(self.codes.shape, np.float32)
        for there, stripe in zip(_stripes(values.view(np.uint32)), _stripes(self.codes), strict=True):
            np.left_shift(stripe, 16, out=there, dtype=np.uint32)
        return values


def _stripes(values: npt.NDArray[_Number]) -> Iterator[npt.NDArray[_Number]]:
    flat = values.reshape(-1)
    return (flat[start : start + _STRIPE] for start in range(0, flat.size, _STRIPE))


def _is_half(values: Floats) -> bool:
    """Say whether numbers are the same once stored as F16; the sign of zero and NaN count too."""
    back = values.astype(np.float16).astype(np.float32)
    return np.array_equal(back.view(np.uint32), values.view(np.uint32))
