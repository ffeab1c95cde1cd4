"""Do numbers lie on few evenly spaced levels, as quantisers leave them? Pure arrays."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.intp]
Steps = Callable[[Floats], Floats]
Levels = Literal["ternary", "symmetric", "asymmetric", "table", "float"]

_SMALLEST_GROUP, _LARGEST_GROUP = 8, 2048
"""Group sizes in which numbers of a line may share levels, besides a whole line; no tool uses others."""
_FEWEST_LEVELS = 3
"""Distinct numbers that have a spacing to speak of."""
_SMALL_GROUP, _SMALL_BITS = 16, 6
"""In groups smaller than this, only up to this many bits are searched for. By chance all of eight numbers are
near some levels in one of 200 groups, of BF16 in one of 20, and 22 of 24 groups have to be: none of 3,301
matrices of the zoo is."""
_UNEVEN_GROUPS = (128, 64, 32)
"""Group sizes that tools use even if they do not divide a line; a shorter remainder is left out."""
_RUN = 16
"""Divides nearly all sizes of groups."""
_LOOKED_AT = 24
"""Groups of a matrix that are examined, each on its own."""
_NEARLY_ALL = 0.9
"""Share of groups that must be on levels: single groups of zeros, or of numbers left as they were, are
not."""
_ON_LEVEL = 0.12
"""As a share of a step: a number this close to a level is on it. Any number is with probability 0.24."""
_RESOLVED = 0.25
"""Steps of the stored format, as a share of a level's, up to which a number tells whether it is on a level:
half of that is its rounding error, about as much as `_ON_LEVEL` allows."""
_MOST_RESOLVED = 0.6
"""Share of its numbers that must tell where a group has fewer than `_FEWEST_TELLING` of them: most, not
half."""
_ALL_ON_LEVELS = 0.97
"""Share of the telling numbers of a group that must be on levels: one of forty may be an outlier that was
left as it was."""
_ONE_STEP = 1.5
"""Gaps up to this many times the smallest are one step and not two: rounding moves none by half a step."""
_TABLE_FEWEST, _TABLE_VALUES = 32, (3, 16)
"""A table (NF4, FP4) has up to 16 values, of 4 bits; two have no spacing to speak of. With fewer than 32
numbers, each value would occur once or twice, as in any group of coarsely stored numbers."""
_UNEVEN = 0.2
"""Share of groups with a shifted zero from which all have one: symmetric groups among them are so by
chance."""
_FEWEST_HELD = 8
"""Numbers other than zero that a group must hold to be looked at, or half of it if it is smaller than twice
that."""
_FEWEST_TELLING = 10
"""Fewest numbers of a group that the stored format resolves: fewer could all be near a level by chance."""
_MOST_BITS = 8
"""More levels than 256 cannot be told from plain numbers of sixteen bits."""


_FLOAT_DIGITS = {"E5M2": 2, "E4M3": 3}
"""Bits that 8-bit floats have after the leading one: as many numbers between two powers of two as these give,
whatever the scale."""
_FLOAT_FEWEST = 64
"""Numbers other than zero that a group must hold: eight significands in 64 numbers are no accident where BF16
has 128 of them."""
_FLOAT_GROUPS = (128, 64)
"""Neighbours in a line that may share a scale, besides a whole line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lattice:
    """The levels that the numbers of a matrix lie on."""

    bits: int
    group: int
    """Neighbours in a line that share their levels; the length of the line if all do."""
    levels: Levels
    """``ternary``: zero and one on either side. ``symmetric``: as many below zero as above. ``table``: few
    values that are not evenly spaced. ``float``: those of an 8-bit float times a scale."""
    share: float
    """Share of the examined groups that lie on such levels."""
    digits: int = 0
    """Of the levels of a float, after the leading one."""


def find_lattice(values: Floats, steps: Steps) -> Lattice | None:
    """Find the levels of a matrix whose lines were quantised in groups; None if there are none.

    Parameters
    ----------
    values
        Lines of numbers.
    steps
        Gives the distance of neighbouring numbers in the stored format, for each number: levels that were
        rounded again for storage are off by half of it.
    """
    lines = _LineGroups(values)
    # Two groups together have few values too: the fewest levels come first, then evenly spaced ones.
    return (
        _ternary(lines)
        or _found(lines, steps, tables=False)
        or _found(lines, steps, tables=True)
        or _scaled_floats(lines)
    )


def _ternary(lines: _LineGroups) -> Lattice | None:
    """Find groups of which every number is zero or one of two that are opposite."""
    if not lines.has_zeros:
        return None
    for size in group_sizes(lines.values.shape[1]):
        groups = lines.groups(size)
        missed = 0
        for numbers in groups:
            missed += not _is_ternary(numbers)
            if len(groups) - missed < _NEARLY_ALL * len(groups):
                break
        else:
            if groups:
                share = 1 - missed / len(groups)
                return Lattice(bits=2, group=size, levels="ternary", share=share)
    return None


def _is_ternary(numbers: Floats) -> bool:
    sizes = np.abs(numbers)
    top = sizes.max()
    # All three are there: a mask and a constant have no spacing to speak of.
    return bool(
        np.all((sizes == 0) | (sizes == top)) and numbers.min() < 0 < numbers.max() and np.any(sizes == 0)
    )


def _scaled_floats(lines: _LineGroups) -> Lattice | None:
    """Find numbers that are 8-bit floats times a scale: their significands are few in every group."""
    width = lines.values.shape[1]
    for size in (width, *(group for group in _FLOAT_GROUPS if group < width and width % group == 0)):
        groups = [numbers for numbers in lines.groups(size) if np.count_nonzero(numbers) >= _FLOAT_FEWEST]
        if not groups:
            return None
        counts, missed = [], 0
        for numbers in groups:
            counts.append(len(np.unique(np.frexp(np.abs(numbers[numbers != 0]))[0])))
            missed += counts[-1] > 2 ** max(_FLOAT_DIGITS.values())
            if len(groups) - missed < _NEARLY_ALL * len(groups):
                break  # as in plain weights, after a few groups
        for digits in _FLOAT_DIGITS.values() if len(counts) == len(groups) else ():
            held = sum(count <= 2**digits for count in counts)
            if held >= _NEARLY_ALL * len(groups):
                share = held / len(groups)
                return Lattice(bits=8, group=size, levels="float", share=share, digits=digits)
    return None


def _found(lines: _LineGroups, steps: Steps, *, tables: bool) -> Lattice | None:
    for size in group_sizes(lines.values.shape[1]):
        groups = lines.groups(size)
        missed = int((1 - _NEARLY_ALL) * len(groups))  # groups that may be off levels
        told: list[tuple[int, Levels]] = []
        # As many as may miss, and one: plain weights, of which these all miss, cost next to nothing.
        for some in (groups[: missed + 1], groups[missed + 1 :]):
            found = _tables(some) if tables else _levels(some, steps)
            told += [one for one in found if one is not None]
            missed -= sum(one is None for one in found)
            if missed < 0:
                break
        if missed < 0 or not told:
            continue
        bits = statistics.mode(bits for bits, _ in told)
        kinds = [kind for _, kind in told]
        common: Levels = max(("symmetric", "asymmetric", "table"), key=kinds.count)
        # A single group may happen to be symmetric about zero.
        if common == "symmetric" and kinds.count("asymmetric") > _UNEVEN * len(kinds):
            common = "asymmetric"
        return Lattice(bits=bits, group=size, levels=common, share=len(told) / len(groups))
    return None


@cache
def group_sizes(width: int) -> tuple[int, ...]:
    """Return how many neighbours may share their levels, a whole line first: the largest that fits counts."""
    most = min(width - 1, _LARGEST_GROUP)
    parts = {size for size in range(_SMALLEST_GROUP, most + 1) if width % size == 0}
    parts |= {size for size in _UNEVEN_GROUPS if size <= most}
    return tuple(size for size in (width, *sorted(parts, reverse=True)) if size >= _SMALLEST_GROUP)


def level_steps(values: Floats, lattice: Lattice) -> Floats:
    """Return the distance of neighbouring levels at each place."""
    if lattice.levels == "float":
        # Next to a power of two they are half as far apart; below the smallest one there is only zero.
        sizes = np.abs(values)
        least = np.min(sizes, initial=np.inf, where=sizes > 0)
        return np.asarray(np.maximum(sizes * 2.0**-lattice.digits, least), np.float32)
    found = np.empty_like(values)
    for start in range(0, values.shape[1], lattice.group):
        block = values[:, start : start + lattice.group]
        if lattice.levels in ("symmetric", "ternary"):
            reach = np.abs(block).max(axis=1) / max(1.0, 2.0 ** (lattice.bits - 1) - 1)
        else:
            reach = (block.max(axis=1) - block.min(axis=1)) / (2.0**lattice.bits - 1)
        # The outer values of tables that are not evenly spaced are further apart.
        factor = 2 if lattice.levels == "table" else 1
        found[:, start : start + lattice.group] = factor * reach[:, None]
    return found


class _LineGroups:
    """The lines of a matrix, and groups of them that were chosen."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self._zeros = int(np.count_nonzero(values == 0))
        self._chosen: dict[int, list[Floats]] = {}

    @property
    def has_zeros(self) -> bool:
        """Whether any number is zero."""
        return self._zeros > 0

    def groups(self, size: int) -> list[Floats]:
        """Return groups that are spread over the matrix and hold more than zeros."""
        if size not in self._chosen:
            each = self.values.shape[1] // size  # a shorter remainder is left out
            places = self._usable(size, each)
            places = places[np.linspace(0, len(places) - 1, min(_LOOKED_AT, len(places))).astype(int)]
            self._chosen[size] = [
                self.values[at // each, at % each * size : (at % each + 1) * size] for at in places.tolist()
            ]
        return self._chosen[size]

    def _usable(self, size: int, each: int) -> Counts:
        fewest = min(size // 2, _FEWEST_HELD)
        if self._zeros <= size - fewest:  # all of them in one group would not be too many
            return np.arange(each * len(self.values))
        if size % _RUN:
            counts = np.count_nonzero(self.values[:, : each * size].reshape(-1, size), axis=1)
        else:
            counts = self._held[:, : each * size // _RUN].reshape(-1, size // _RUN).sum(axis=1)
        return np.flatnonzero(counts >= fewest)

    @cached_property
    def _held(self) -> Counts:
        """How many numbers in runs of a line are not zero, once for groups of every size."""
        whole = self.values.shape[1] // _RUN * _RUN
        runs = self.values[:, :whole].reshape(len(self.values), -1, _RUN)
        return np.asarray(np.count_nonzero(runs, axis=2))


def _levels(groups: Sequence[Floats], steps: Steps) -> list[tuple[int, Levels] | None]:
    """Return bits and kind of the evenly spaced levels of each group, or None; groups are of one size."""
    found: list[tuple[int, Levels] | None] = [None] * len(groups)
    if not groups:
        return found
    # All groups at once: the calls cost far more than the numbers.
    held = _Sorted.of(groups, steps)
    most = _MOST_BITS if len(groups[0]) >= _SMALL_GROUP else _SMALL_BITS
    ways = _Ways.of(held, most)
    for at in np.flatnonzero(_on_levels(held, ways))[::-1].tolist():  # the first way of a group is kept
        found[ways.groups[at]] = ways.told[at]
    rest = [at for at, one in enumerate(found) if one is None and held.n_distinct[at] >= _FEWEST_LEVELS]
    for at, told in zip(rest, _commonly_spaced(held.some(rest), most), strict=True):
        found[at] = told
    return found


def _tables(groups: Sequence[Floats]) -> list[tuple[int, Levels] | None]:
    """Return the bits of groups that have few values, however they are spaced."""
    return [_table(numbers) for numbers in groups]


def _table(numbers: Floats) -> tuple[int, Levels] | None:
    if len(numbers) < _TABLE_FEWEST:
        return None
    count = len(np.unique(numbers))
    fewest, most = _TABLE_VALUES
    # Zeros that were set are one value, and leave few others.
    n_held = np.count_nonzero(numbers)
    if 2 * (count - (n_held < len(numbers))) > n_held or not fewest <= count <= most:
        return None
    return max(2, math.ceil(math.log2(count))), "table"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sorted:
    """Groups of one size, a row each, in ascending order."""

    numbers: Doubles
    widths: Doubles
    """Distance of the next number that can be stored."""
    first: npt.NDArray[np.bool_]
    """Whether a number is not equal to the one before it."""
    n_distinct: Counts

    @classmethod
    def of(cls, groups: Sequence[Floats], steps: Steps) -> _Sorted:
        numbers = np.sort(np.stack(groups), axis=1)
        first = np.ones(numbers.shape, np.bool_)
        np.not_equal(numbers[:, 1:], numbers[:, :-1], out=first[:, 1:])
        return cls(
            numbers=numbers.astype(np.float64),
            widths=steps(numbers).astype(np.float64),
            first=first,
            n_distinct=np.count_nonzero(first, axis=1),
        )

    def some(self, at: Sequence[int] | Counts) -> _Sorted:
        """Return some of the groups, each as often as it is named."""
        return _Sorted(
            numbers=self.numbers[at],
            widths=self.widths[at],
            first=self.first[at],
            n_distinct=self.n_distinct[at],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ways:
    """Levels that groups might lie on: of which group, what they would be called, and where they are."""

    groups: list[int] = field(default_factory=list)
    told: list[tuple[int, Levels]] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    origins: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, held: _Sorted, most: int) -> _Ways:
        """Return those whose outermost levels are the outermost numbers, up to so many bits."""
        ways = cls()
        for at, n_distinct in enumerate(held.n_distinct.tolist()):
            low, high = float(held.numbers[at, 0]), float(held.numbers[at, -1])
            reach = max(abs(low), abs(high))
            for bits in range(2, most + 1) if n_distinct >= _FEWEST_LEVELS else ():
                if n_distinct <= 2**bits:
                    ways.add(at, (bits, "symmetric"), reach / max(1, 2 ** (bits - 1) - 1), 0.0)
                    ways.add(at, (bits, "symmetric"), reach / 2 ** (bits - 1), 0.0)
                    ways.add(at, (bits, "asymmetric"), (high - low) / (2**bits - 1), low)
        return ways

    def add(self, group: int, told: tuple[int, Levels], step: float, origin: float) -> None:
        """Add one."""
        self.groups.append(group)
        self.told.append(told)
        self.steps.append(step)
        self.origins.append(origin)


def _commonly_spaced(held: _Sorted, most: int) -> list[tuple[int, Levels] | None]:
    """Return bits of groups whose numbers are multiples of their smallest distance not due to storage."""
    found: list[tuple[int, Levels] | None] = [None] * len(held.numbers)
    gaps = np.diff(held.numbers, axis=1)
    real = gaps > 2 * np.maximum(held.widths[:, 1:], held.widths[:, :-1])
    least = np.min(gaps, axis=1, initial=np.inf, where=real)
    reach = held.numbers[:, -1] - held.numbers[:, 0]
    # Otherwise too many steps lie between the outermost numbers, as in nearly all plain weights.
    few = np.isfinite(least) & (reach < _ONE_STEP * least * 2**most)
    ways = _Ways()
    for at in np.flatnonzero(few).tolist():
        step = float(np.mean(gaps[at][real[at] & (gaps[at] < _ONE_STEP * least[at])]))
        low, high = float(held.numbers[at, 0]), float(held.numbers[at, -1])
        count = round((high - low) / step) + 1
        if count <= 2**most:
            ways.add(at, (max(2, math.ceil(math.log2(count))), "asymmetric"), step, low)
    for at in np.flatnonzero(_on_levels(held, ways)).tolist():
        found[ways.groups[at]] = ways.told[at]
    return found


def _on_levels(held: _Sorted, ways: _Ways) -> npt.NDArray[np.bool_]:
    """Say for each way whether nearly all distinct numbers of its group lie on levels."""
    if not ways.groups:
        return np.zeros(0, np.bool_)
    some = held.some(ways.groups)
    step, origin = np.array(ways.steps)[:, None], np.array(ways.origins)[:, None]
    possible = step[:, 0] > 0
    step = np.where(step > 0, step, 1.0)
    telling = some.first & (some.widths < _RESOLVED * step)
    n_telling = np.count_nonzero(telling, axis=1)
    possible &= (n_telling >= np.minimum(_FEWEST_TELLING, _MOST_RESOLVED * some.n_distinct)) & (n_telling > 0)
    values = np.where(telling, some.numbers - origin, 0.0)
    for _ in range(2):  # the extremes were rounded in storage: the step is refitted from all
        places = np.round(values / step)
        square = np.einsum("ij,ij->i", places, places)[:, None]
        fitted = np.einsum("ij,ij->i", places, values)[:, None]
        step = np.where(square > 0, fitted / np.where(square > 0, square, 1.0), step)
    off = np.abs(values - np.round(values / step) * step)
    near = (off <= _ON_LEVEL * step + some.widths / 2) & telling
    share = np.count_nonzero(near, axis=1) / np.maximum(n_telling, 1)
    return np.asarray(possible & (share >= _ALL_ON_LEVELS))
