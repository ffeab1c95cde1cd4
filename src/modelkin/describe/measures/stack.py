"""Vectors of equal length stacked as rows, and what all measures need from them, computed once.

A row that a measure cannot use is a `Fault`, not a number. All sums are in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntFlag
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, say

Floats = npt.NDArray[np.float64]
Stored = npt.NDArray[Any]

PART_VALUES = 1_000_000
"""Values of one side whose features are held at the same time. A dozen features of 8 MB are little; those of
all routers of a large mixture together took nine gigabytes."""
LEAST_RHO = 0.1
"""Below this ratio of mean to root mean square, a coefficient of variation means nothing."""

_BITS: dict[str, tuple[type[np.floating[Any]], type[np.unsignedinteger[Any]], int]] = {
    "F32": (np.float32, np.uint32, 0),
    "BF16": (np.float32, np.uint32, 16),  # the upper half of a float32
    "F16": (np.float16, np.uint16, 0),
}


class Fault(IntFlag):
    """Why a row cannot be used, by what is wrong with it."""

    NONE = 0
    EMPTY = 1
    NOT_FINITE = 2
    ZERO = 4
    CONSTANT = 8
    ALL_ONE = 16
    MEAN_NEAR_ZERO = 32
    NO_STEPS = 64

    @property
    def message(self) -> Message | None:
        """What is wrong, the most serious first; None if nothing is."""
        found = next((fault for fault in Fault if fault & self), None)
        return None if found is None else say(f"fault.{str(found.name).lower()}")


_Array = TypeVar("_Array", bound=npt.NDArray[Any])
_LONG = ["sorted", "about_one"]
"""Names of the features that have a number for each place, one way or another."""


def _feature(function: Callable[[Stack], _Array], *, by_place: bool) -> cached_property[_Array]:
    @wraps(function)
    def feature(stack: Stack) -> _Array:
        if stack.origin is None:
            return function(stack)
        origin, order = stack.origin
        found: _Array = getattr(origin, function.__name__)
        # An order is a permutation, so nothing is clipped; otherwise bounds are checked for each value.
        return found.take(order, axis=1, mode="clip") if by_place else found  # type: ignore[return-value]

    return cached_property(feature)


def _by_row(function: Callable[[Stack], _Array]) -> cached_property[_Array]:
    """Make a feature that no reordering of places changes: a reordered stack takes that of its origin."""
    return _feature(function, by_place=False)


def _by_place(function: Callable[[Stack], _Array]) -> cached_property[_Array]:
    """Make a feature with a column for each place: a reordered stack reorders that of its origin."""
    _LONG.append(function.__name__)
    return _feature(function, by_place=True)


class Stack:
    """Vectors as rows, with their features. Treat it as read-only.

    Rows are vectors of one length, of any kind of number. `formats` says how they are stored (``BF16``,
    ``F16``, ``F32``, ...), with one name for all or one for each; only measures in steps of the format need
    it.

    Examples
    --------
    >>> stack = Stack([[1.0, 3.0], [2.0, 2.0]])
    >>> stack.mean.tolist(), [str(Fault(int(fault)).message) for fault in stack.faults & Fault.CONSTANT]
    ([2.0, 2.0], ['None', 'all values are equal'])
    """

    def __init__(self, rows: npt.ArrayLike, formats: str | Sequence[str | None] | None = None) -> None:
        stored = np.asarray(rows)
        if stored.ndim != 2:
            raise ValueError(f"rows: expected vectors in rows, got shape {stored.shape}")
        if not np.issubdtype(stored.dtype, np.floating):
            stored = stored.astype(np.float64)
        self._rows: Stored = stored
        self.origin: tuple[Stack, npt.NDArray[np.intp]] | None = None
        many = [formats] * len(stored) if formats is None or isinstance(formats, str) else list(formats)
        if len(many) != len(stored):
            raise ValueError(f"formats: expected {len(stored)}, got {len(many)}")
        self.formats: tuple[str | None, ...] = tuple(many)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def n(self) -> int:
        """Length of the vectors."""
        return int(self._rows.shape[1])

    def shuffled(self, order: npt.NDArray[np.intp]) -> Stack:
        """Return the stack with the places of all rows reordered in the same way.

        Features are reordered on demand, not recomputed: this makes many draws cheap.
        """
        other = Stack(self._rows, self.formats)
        other.origin = (self, order)
        return other

    def part(self, rows: slice) -> Stack:
        """Return some of the rows. Their features are separate: they are freed with the part."""
        if self.origin is not None:
            return self.origin[0].part(rows).shuffled(self.origin[1])
        return Stack(self._rows[rows], self.formats[rows])

    @property
    def rows_at_once(self) -> int:
        """How many rows may be processed together: all, unless their features would fill the memory."""
        return max(1, PART_VALUES // max(1, self.n))

    def forget(self) -> None:
        """Release everything that has one number per place, except the rows themselves.

        One row of many millions of values takes more than the features of a whole part should: for such rows
        a feature is recomputed for each measure that needs it, which is cheaper than holding a dozen of them.
        """
        for name in _LONG:
            self.__dict__.pop(name, None)

    # -- the values ------------------------------------------------------------------------------------

    @_by_place
    def stored(self) -> Stored:
        """Return the rows as they were given."""
        return self._rows

    @_by_row
    def finite(self) -> npt.NDArray[np.bool_]:
        """Say for each row whether all its values are finite."""
        return np.asarray(np.isfinite(self.stored).all(axis=1), dtype=np.bool_)

    @_by_place
    def wide(self) -> Floats:
        """Return the rows in double precision; rows that are not finite are zeros, and a `Fault`."""
        wide = self.stored.astype(np.float64)
        wide[~self.finite] = 0.0
        return wide

    @_by_row
    def faults(self) -> npt.NDArray[np.int64]:
        """Return everything that is wrong with each row, as bits of `Fault`."""
        faults = np.zeros(len(self), dtype=np.int64)
        if self.n == 0:
            faults |= Fault.EMPTY
            return faults
        tests = {
            Fault.NOT_FINITE: ~self.finite,
            Fault.ZERO: ~self.wide.any(axis=1),
            Fault.CONSTANT: ~self.varies,
            Fault.ALL_ONE: (self.wide == 1.0).all(axis=1),
            Fault.MEAN_NEAR_ZERO: np.abs(self.rho) < LEAST_RHO,
            Fault.NO_STEPS: np.array([name not in _BITS for name in self.formats], dtype=np.bool_),
        }
        for fault, holds in tests.items():
            faults[holds] |= fault
        return faults

    # -- one number for each row -----------------------------------------------------------------------

    @_by_row
    def scale(self) -> Floats:
        """Return the largest absolute value of each row, or 1: dividing by it keeps squares in range."""
        largest = np.abs(self.wide).max(axis=1, initial=0.0)
        return np.asarray(np.where(largest > 0.0, largest, 1.0), dtype=np.float64)

    @_by_row
    def norm(self) -> Floats:
        """Return the Euclidean length."""
        return np.asarray(self.scale * _lengths(self.wide / self.scale[:, None]), dtype=np.float64)

    @_by_row
    def mean(self) -> Floats:
        """Return the mean."""
        return _row_means(self.wide)

    @_by_row
    def std(self) -> Floats:
        """Return the population standard deviation."""
        return np.asarray(self.scale * self._size / np.sqrt(max(self.n, 1)), dtype=np.float64)

    @_by_row
    def varies(self) -> npt.NDArray[np.bool_]:
        """Say whether a row has different values."""
        if self.n == 0:
            return np.zeros(len(self), dtype=np.bool_)
        different = ~(self.wide == self.wide[:, :1]).all(axis=1)
        return np.asarray(different & (self._size > 0.0), dtype=np.bool_)

    @_by_row
    def rho(self) -> Floats:
        """Return the cosine with the vector of ones: the mean over the root mean square."""
        length = np.where(self.norm > 0.0, self.norm / self.scale, 1.0)
        share = _row_means(self.wide / self.scale[:, None]) * np.sqrt(self.n) / length
        return np.asarray(np.where(self.varies, share, np.sign(self.mean)), dtype=np.float64)

    @_by_row
    def spread(self) -> Floats:
        """Return sqrt(1 - rho^2), from the deviations, so that no digits are lost when rho is near 1."""
        length = np.where(self.norm > 0.0, self.norm / self.scale, 1.0)
        return np.asarray(np.where(self.varies, self._size / length, 0.0), dtype=np.float64)

    @_by_row
    def p99(self) -> Floats:
        """Return the 99th percentile of the absolute values."""
        if self.n == 0:
            return np.zeros(len(self))
        return np.asarray(np.quantile(np.abs(self.wide), 0.99, axis=1), dtype=np.float64)

    @_by_row
    def cv(self) -> Floats:
        """Return the coefficient of variation; only if the mean is not near zero."""
        usable = np.abs(self.mean) > 0.0
        return np.asarray(self.std / np.where(usable, np.abs(self.mean), 1.0), dtype=np.float64)

    # -- one number for each place ---------------------------------------------------------------------

    @_by_place
    def _centred(self) -> Floats:
        scaled = self.wide / self.scale[:, None]
        return scaled - _row_means(scaled)[:, None]

    @_by_row
    def _size(self) -> Floats:
        return _lengths(self._centred)

    @_by_place
    def units(self) -> Floats:
        """Return each row divided by its length."""
        return _directions(self.wide / self.scale[:, None])

    @_by_place
    def directions(self) -> Floats:
        """Return each row without its mean, divided by the length of what is left."""
        return _directions(self._centred)

    @_by_place
    def rank_directions(self) -> Floats:
        """Return the same of the ranks; equal values share their mean rank."""
        ranked = _row_ranks(self.wide)
        return _directions(ranked - _row_means(ranked)[:, None])

    @cached_property
    def about_one(self) -> Stack:
        """The rows minus one."""
        if self.origin is not None:
            return self.origin[0].about_one.shuffled(self.origin[1])
        return Stack(self.wide - 1.0)

    @_by_row
    def sorted(self) -> Floats:
        """Return each row in ascending order."""
        return np.sort(self.wide, axis=1)

    @_by_place
    def bits(self) -> Stored:
        """Return the values as unsigned integers, bit by bit: what byte identity compares."""
        with np.errstate(invalid="ignore"):
            # One width for all: a stack may hold single precision in double. Widening keeps bits apart.
            return np.ascontiguousarray(self.stored.astype(np.float64)).view(np.uint64)

    @_by_place
    def steps(self) -> npt.NDArray[np.int64]:
        """Return the place of each value among all numbers of its stored format, counted from zero."""
        steps = np.zeros(self.stored.shape, dtype=np.int64)
        for name, (kind, unsigned, shift) in _BITS.items():
            rows = [i for i, own in enumerate(self.formats) if own == name]
            if rows:
                with np.errstate(over="ignore"):
                    narrow = np.ascontiguousarray(self.stored[rows].astype(kind))
                bits = narrow.view(unsigned).astype(np.int64) >> shift
                sign = np.int64(1) << np.int64(8 * narrow.dtype.itemsize - shift - 1)
                steps[rows] = np.where(bits & sign, sign - bits, bits)
        return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One vector in numbers. All are None if it cannot be described; `reason` says why."""

    n: int
    mean: float | None = None
    std: float | None = None
    """Population standard deviation."""
    minimum: float | None = None
    maximum: float | None = None
    norm: float | None = None
    p99: float | None = None
    """99th percentile of the absolute values."""
    rho: float | None = None
    """Mean over root mean square: 1 for a constant, 0 for a balanced vector. None for a vector of zeros."""
    reason: Message | None = None


def describe_rows(stack: Stack) -> tuple[Description, ...]:
    """Describe each row of a stack on its own."""
    step = stack.rows_at_once
    return tuple(
        _described(part, row)
        for start in range(0, len(stack), step)
        for part in [stack if step >= len(stack) else stack.part(slice(start, start + step))]
        for row in range(len(part))
    )


def _described(stack: Stack, row: int) -> Description:
    faults = Fault(int(stack.faults[row]))
    if useless := faults & (Fault.EMPTY | Fault.NOT_FINITE):
        return Description(n=stack.n, reason=useless.message)
    zero = Fault.ZERO in faults
    return Description(
        n=stack.n,
        mean=float(stack.mean[row]),
        std=float(stack.std[row]) if stack.varies[row] else 0.0,
        minimum=float(stack.wide[row].min()),
        maximum=float(stack.wide[row].max()),
        norm=float(stack.norm[row]),
        p99=float(stack.p99[row]),
        rho=None if zero else float(stack.rho[row]),
        reason=Fault.ZERO.message if zero else None,
    )


def _row_ranks(rows: Floats) -> Floats:
    """Return the rank of each value in its row, from 1 on; equal values share the mean of their ranks."""
    n_rows, n = rows.shape
    if n == 0:
        return np.zeros(rows.shape)
    order = np.argsort(rows, axis=1)
    ordered = np.take_along_axis(rows, order, axis=1)
    place = np.arange(n)
    ranks = np.empty(rows.shape)
    new = np.ones((n_rows, n), dtype=np.bool_)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    if new.all():  # no ties: most tensors in single precision, and all drawn numbers
        np.put_along_axis(ranks, order, np.broadcast_to(place + 1.0, rows.shape), axis=1)
        return ranks
    first = np.maximum.accumulate(np.where(new, place, 0), axis=1)
    ends = np.ones((n_rows, n), dtype=np.bool_)
    ends[:, :-1] = new[:, 1:]
    last = np.minimum.accumulate(np.where(ends, place, n)[:, ::-1], axis=1)[:, ::-1]
    np.put_along_axis(ranks, order, (first + last) / 2.0 + 1.0, axis=1)
    return ranks


def _row_means(rows: Floats) -> Floats:
    return np.asarray(rows.sum(axis=1) / max(rows.shape[1], 1), dtype=np.float64)


def _lengths(rows: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)), dtype=np.float64)


def _directions(rows: Floats) -> Floats:
    lengths = _lengths(rows)
    return rows / np.where(lengths > 0.0, lengths, 1.0)[:, None]
