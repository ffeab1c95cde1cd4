"""Do numbers lie on few evenly spaced levels, as quantisers leave them? Pure arrays."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Counts = npt.NDArray[np.intp]
Steps = Callable[[Floats], Floats]
Levels = Literal["symmetric", "asymmetric", "table"]

_SMALLEST_GROUP, _LARGEST_GROUP = 8, 2048
"""Group sizes in which numbers of a line may share levels, besides a whole line; no tool uses others."""
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
_FEWEST_TELLING = 10
"""Fewest numbers of a group that the stored format resolves: fewer could all be near a level by chance."""
_MOST_BITS = 8
"""More levels than 256 cannot be told from plain numbers of sixteen bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lattice:
    """The levels that the numbers of a matrix lie on."""

    bits: int
    group: int
    """Neighbours in a line that share their levels; the length of the line if all do."""
    levels: Levels
    """``symmetric``: as many below zero as above. ``table``: few values that are not evenly spaced."""
    share: float
    """Share of the examined groups that lie on such levels."""


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
    held = _held(values)
    # Two groups together have few values too: evenly spaced levels are searched for first.
    return _found(values, held, steps, tables=False) or _found(values, held, steps, tables=True)


def _found(values: Floats, held: Counts, steps: Steps, *, tables: bool) -> Lattice | None:
    for size in group_sizes(values.shape[1]):
        levels = _table if tables else _levels
        groups = _groups(values, held, size)
        told, missed = [], 0
        for numbers in groups:
            found = levels(numbers, steps(numbers))
            told += [] if found is None else [found]
            missed += found is None
            if missed > (1 - _NEARLY_ALL) * len(groups):
                break  # usually after three groups: plain weights cost next to nothing
        else:
            if not told:
                continue
            bits = statistics.mode(bits for bits, _ in told)
            kinds = [kind for _, kind in told]
            common: Levels = max(("symmetric", "asymmetric", "table"), key=kinds.count)
            # A single group may happen to be symmetric about zero.
            if common == "symmetric" and kinds.count("asymmetric") > 0.2 * len(kinds):
                common = "asymmetric"
            return Lattice(bits=bits, group=size, levels=common, share=len(told) / len(groups))
    return None


def group_sizes(width: int) -> list[int]:
    """Return how many neighbours may share their levels, a whole line first: the largest that fits counts."""
    most = min(width - 1, _LARGEST_GROUP)
    parts = {size for size in range(_SMALLEST_GROUP, most + 1) if width % size == 0}
    parts |= {size for size in _UNEVEN_GROUPS if size <= most}
    return [size for size in (width, *sorted(parts, reverse=True)) if size >= _SMALLEST_GROUP]


def level_steps(values: Floats, lattice: Lattice) -> Floats:
    """Return the distance of neighbouring levels at each place."""
    found = np.empty_like(values)
    for start in range(0, values.shape[1], lattice.group):
        block = values[:, start : start + lattice.group]
        if lattice.levels == "symmetric":
            reach = np.abs(block).max(axis=1) / max(1.0, 2.0 ** (lattice.bits - 1) - 1)
        else:
            reach = (block.max(axis=1) - block.min(axis=1)) / (2.0**lattice.bits - 1)
        # The outer values of tables that are not evenly spaced are further apart.
        factor = 2 if lattice.levels == "table" else 1
        found[:, start : start + lattice.group] = factor * reach[:, None]
    return found


def _held(values: Floats) -> Counts:
    """Count the numbers that are not zero in runs of a line, once for groups of every size."""
    whole = values.shape[1] // _RUN * _RUN
    return np.asarray(np.count_nonzero(values[:, :whole].reshape(len(values), -1, _RUN), axis=2))


def _groups(values: Floats, held: Counts, size: int) -> list[Floats]:
    """Return groups that are spread over the matrix and hold more than zeros."""
    each = values.shape[1] // size  # a shorter remainder is left out
    if size % _RUN:
        counts = np.count_nonzero(values[:, : each * size].reshape(-1, size), axis=1)
    else:
        counts = held[:, : each * size // _RUN].reshape(-1, size // _RUN).sum(axis=1)
    usable = np.flatnonzero(counts >= min(size, 16) // 2)
    places = usable[np.linspace(0, len(usable) - 1, min(_LOOKED_AT, len(usable))).astype(int)]
    return [values[at // each, at % each * size : (at % each + 1) * size] for at in places.tolist()]


def _levels(numbers: Floats, steps: Floats) -> tuple[int, Levels] | None:
    """Return bits and kind of the evenly spaced levels of one group, or None."""
    distinct, first = np.unique(numbers.astype(np.float64), return_index=True)
    if len(distinct) < 3:
        return None
    low, high = float(distinct[0]), float(distinct[-1])
    reach = max(abs(low), abs(high))
    width = steps[first].astype(np.float64)
    most = _MOST_BITS if len(numbers) >= _SMALL_GROUP else _SMALL_BITS
    for bits in range(2, most + 1):
        if len(distinct) > 2**bits:
            continue
        for kind, step, origin in (
            ("symmetric", reach / max(1, 2 ** (bits - 1) - 1), 0.0),
            ("symmetric", reach / 2 ** (bits - 1), 0.0),
            ("asymmetric", (high - low) / (2**bits - 1), low),
        ):
            if _on_levels(distinct, width, step, origin):
                return bits, kind  # type: ignore[return-value]
    if step := _common_step(distinct, width):
        count = round((high - low) / step) + 1
        if count <= 2**most and _on_levels(distinct, width, step, low):
            bits = max(2, math.ceil(math.log2(count)))
            return bits, "asymmetric"
    return None


def _table(numbers: Floats, _: Floats) -> tuple[int, Levels] | None:
    """Return the bits of a group that has few values, however they are spaced."""
    count = len(np.unique(numbers))
    if len(numbers) < 32 or 2 * count > len(numbers) or not 3 <= count <= 16:
        return None
    return max(2, math.ceil(math.log2(count))), "table"


def _common_step(distinct: npt.NDArray[np.float64], width: npt.NDArray[np.float64]) -> float | None:
    """Return the smallest distance between two numbers that is not due to storage."""
    gaps = np.diff(distinct)
    real = gaps[gaps > 2 * np.maximum(width[1:], width[:-1])]
    if not len(real):
        return None
    near = real[real < 1.5 * real.min()]
    return float(np.mean(near))


def _on_levels(
    distinct: npt.NDArray[np.float64], width: npt.NDArray[np.float64], step: float, origin: float
) -> bool:
    if step <= 0:
        return False
    telling = width < 0.25 * step
    if telling.sum() < min(_FEWEST_TELLING, 0.6 * len(distinct)):
        return False
    values, error = distinct[telling] - origin, width[telling]
    if not len(values):
        return False
    for _ in range(2):  # the extremes were rounded in storage: the step is refitted from all
        places = np.round(values / step)
        square = float(places @ places)
        step = float(places @ values) / square if square else step
    off = np.abs(values - np.round(values / step) * step)
    return bool(np.mean(off <= _ON_LEVEL * step + 0.5 * error) >= 0.97)
