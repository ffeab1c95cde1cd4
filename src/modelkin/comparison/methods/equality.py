"""Plain equality of values: counts, without a statistic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modelkin.tensors import DTYPES, Array, decode, encode

FEWEST_VALUES = 256
"""Fewer equal values than this are no basis for calling models equal."""
_COARSE = ("BF16", "F16", "F8_E4M3")
"""Formats a copy may have been rounded to, fine first."""
_STEPS = {"BF16": (2.0**-7, 0.0), "F16": (2.0**-10, 2.0**-24), "F8_E4M3": (2.0**-3, 2.0**-9)}
"""One step of a coarse format as a share of the number, and the step of the smallest numbers."""
_ODDLY_ROUNDED = 1e-3
"""Share of values that a converter may have rounded in its own way; see `equal_after_rounding`."""
_BITS_OF_CODES = re.compile(r"[1-8](?![0-9])")
_FLOAT_CODES, _TABLE_CODES = ("FP", "MXFP", "NVFP"), ("NF", "IQ")
_FLOAT_GAPS = {4: 1 / 3, 8: 1 / 7}
"""Of E2M1 (6 and 4) and E5M2 (57344 and 49152), the wider of the formats of eight bits."""
_BITS: dict[str, type[np.unsignedinteger]] = {"F32": np.uint32, "BF16": np.uint16, "F16": np.uint16}

Steps = npt.NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class EqualityCount:
    """How many values of two models are equal, or nearly so."""

    n_compared: int = 0
    n_equal: int = 0
    n_equal_after_rounding: int = 0
    """Equal once both are rounded to the coarser of the two formats."""
    n_within_1_ulp: int = 0
    """At most one step of the stored format apart; counted where both are stored alike."""
    n_within_16_ulps: int = 0
    n_ulps_known: int = 0

    def __add__(self, other: EqualityCount) -> EqualityCount:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return EqualityCount(*(mine + theirs for mine, theirs in pairs))

    @property
    def all_equal(self) -> bool:
        """Whether enough was compared and all of it is equal."""
        return FEWEST_VALUES <= self.n_compared == self.n_equal


def count_equal(
    candidate: Sequence[Array], base: Sequence[Array], *, dtypes: tuple[str, str]
) -> EqualityCount:
    """Count equal values in arrays of equal shape.

    Arrays of different shapes, of integers or booleans (indices and masks, which training never touches), and
    constant ones are left out: gains that are all one and biases that are all zero are equal even between
    strangers.

    Both are the same slices, decoded; `dtypes` says how they are stored.
    """
    total = EqualityCount()
    for mine, theirs in zip(candidate, base, strict=True):
        if mine.shape == theirs.shape and _varies(mine) and _varies(theirs):
            total += _counted(mine, theirs, dtypes)
    return total


def equal_after_rounding(candidate: Array, base: Array, *, dtypes: tuple[str, str]) -> bool:
    """Say whether all values are equal once both are rounded to the coarser of their formats.

    If values are stored differently, one in a thousand may be off by one step of the coarser format: some
    converters round ties or tiny numbers in their own way.
    """
    odd = candidate.size - _counted(candidate, base, dtypes).n_equal_after_rounding
    if odd == 0 or dtypes[0] == dtypes[1]:
        return odd == 0
    return odd <= _ODDLY_ROUNDED * candidate.size and any(
        bool((np.abs(candidate - base) <= step * np.maximum(np.abs(candidate), np.abs(base)) + least).all())
        for step, least in (_STEPS[dtype] for dtype in dtypes if dtype in _STEPS)
    )


def code_step(dtype: str) -> float | None:
    """Return the widest gap between neighbouring codes of a format, relative to the largest magnitude.

    None for formats of plain numbers, and for those whose name does not say.

    >>> code_step("GPTQ-4"), code_step("Q8_0"), code_step("BF16")
    (0.13333333333333333, 0.00784313725490196, None)
    """
    if dtype in DTYPES or (bits := _BITS_OF_CODES.search(dtype)) is None:
        return None
    evenly = 2.0 / ((1 << int(bits.group())) - 1)
    if dtype.startswith(_FLOAT_CODES):
        return _FLOAT_GAPS.get(int(bits.group()))
    # Codes from tables are denser in the middle, and so wider apart at the ends.
    return 2.5 * evenly if dtype.startswith(_TABLE_CODES) else evenly


def share_within(candidate: Array, base: Array, *, steps: float, largest: float | None = None) -> float:
    """Return the share of values that differ by at most a fraction of the largest magnitude.

    The fraction is `steps`. The largest magnitude is that of each row, if it is not given.
    """
    by_row = np.maximum(np.abs(candidate).max(axis=-1), np.abs(base).max(axis=-1))[..., None]
    near = np.abs(candidate - base) <= steps * (by_row if largest is None else largest)
    return float(np.mean(near)) if near.size else 1.0


def ulp_distance(candidate: Array, base: Array, dtype: str) -> Steps | None:
    """Return how many steps of a stored format lie between values; None for formats without steps."""
    if dtype not in _BITS:
        return None
    return np.asarray(np.abs(_steps(candidate, dtype) - _steps(base, dtype)))


def _varies(values: Array) -> bool:
    """Say whether an array holds trained numbers: floats that are not all the same."""
    return bool(values.size and np.issubdtype(values.dtype, np.floating) and (values != values.flat[0]).any())


def _n_equal(mine: Array, theirs: Array) -> int:
    return int(np.count_nonzero((mine == theirs) | (np.isnan(mine) & np.isnan(theirs))))


def _counted(mine: Array, theirs: Array, dtypes: tuple[str, str]) -> EqualityCount:
    equal = _n_equal(mine, theirs)
    if dtypes[0] == dtypes[1]:
        steps = ulp_distance(mine, theirs, dtypes[0])
        if steps is None:
            return EqualityCount(mine.size, equal, equal)
        near, nearer = (int(np.count_nonzero(steps <= limit)) for limit in (16, 1))
        return EqualityCount(mine.size, equal, equal, nearer, near, mine.size)
    # Either side may be the rounded one: BF16 is coarser than F16 for some values and finer for others.
    rounded = [
        _n_equal(_rounded(mine, dtype), _rounded(theirs, dtype)) for dtype in dtypes if dtype in _COARSE
    ]
    return EqualityCount(mine.size, equal, max([equal, *rounded]))


def _steps(values: Array, dtype: str) -> Steps:
    """Return the place of each value among all values of its format, counted from zero."""
    kind = _BITS[dtype]
    wide = np.int32 if kind is np.uint16 else np.int64  # differences fit too, in half the time
    bits: Steps = np.frombuffer(encode(np.asarray(values, np.float32), dtype), dtype=kind).astype(wide)
    last = kind().itemsize * 8 - 1
    signs = -(bits >> last)
    sizes = bits & ((1 << last) - 1)
    return (sizes ^ signs) - signs  # minus the size where the sign is set, without a branch


def _rounded(values: Array, dtype: str) -> Array:
    plain = np.asarray(values, np.float32)
    return decode(encode(plain, dtype), dtype, plain.size).reshape(plain.shape)
