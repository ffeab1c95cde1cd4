"""What rounding to levels of a quantiser adds to the distance of a model from a mixture. Pure arrays."""

from __future__ import annotations

import math

import numpy as np

from modelkin.lineage.geometry import Floats

_GROUPS = (256, 128, 64, 32, 16)
"""Neighbours in a line that share their levels, besides a whole line."""
_BLUR = 4.0
"""Gaps up to this many steps of the stored format are one level, rounded in storage."""
_ONE_STEP = 1.5
"""Gaps up to this many times the smallest are one step of the levels and not two."""
_ON_LEVEL = 0.12
"""As a share of a step: a number this close to a level is on it."""
_ALL, _NEARLY_ALL = 0.97, 0.9
"""Share of a group's numbers on levels, and of groups of which that holds."""
_MOST_LEVELS = 256
"""More cannot be told from plain numbers of sixteen bits."""
_FEWEST = 8
"""Distinct numbers in a group, so that their spacing is no accident."""
_WITHIN = 0.55
"""Steps that a rounded number is from what it was before: half of one, and storage."""
_ALL_WITHIN = 0.98
"""Share of numbers that are. Of normal errors of the same size, one of twelve is not."""
_AS_LARGE = (0.8, 1.15)
"""Squared errors over those of even rounding: largest numbers of groups have none, and storage adds some.
Less is not rounding alone: a model on levels from the start has no such errors."""


def level_errors(mine: Floats, made: Floats, width: int, steps: Floats) -> float | None:
    """Return the sum of squares that rounding to levels leaves, if that explains how two arrays differ.

    None if there are no levels, or if numbers are further apart than rounding puts them, or closer.

    Parameters
    ----------
    mine
        Numbers of one tensor, some of its lines after another.
    made
        What they may have been before they were rounded.
    width
        Length of the lines, or of pieces of lines that quantisers do not cut.
    steps
        Distance of neighbouring numbers in the stored format.
    """
    levels = _spacing(mine, width, steps)
    if levels is None:
        return None
    apart = np.abs(mine - made)
    within = np.count_nonzero(apart <= _WITHIN * levels + steps) / mine.size
    expected = float((levels**2).sum() / 12.0)
    low, high = _AS_LARGE
    if within < _ALL_WITHIN or not low * expected <= float((apart**2).sum()) <= high * expected:
        return None
    return expected


def piece_of_lines(shape: tuple[int, ...], read: int, n_blocks: int) -> int:
    """Return the length of pieces that lines are read in: whole lines, or what fits them and the blocks."""
    return shape[-1] if read == math.prod(shape) else math.gcd(shape[-1], max(1, read // n_blocks))


def _spacing(mine: Floats, width: int, steps: Floats) -> Floats | None:
    """Return the distance of neighbouring levels at each place, for the largest groups that have levels."""
    for size in (width, *(group for group in _GROUPS if group < width and width % group == 0)):
        if size < min(_GROUPS) or mine.size % size:
            continue
        found = _of_groups(mine.reshape(-1, size), steps.reshape(-1, size))
        on_levels = np.isfinite(found)
        if np.count_nonzero(on_levels) >= _NEARLY_ALL * len(found):
            found = np.where(on_levels, found, np.median(found[on_levels]))
            return np.repeat(found, size)
    return None


def _of_groups(groups: Floats, steps: Floats) -> Floats:
    """Return the distance of levels of each group; NaN where numbers do not lie on any."""
    order = np.sort(groups, axis=1)
    blur = _BLUR * steps.max(axis=1)
    gaps = np.diff(order, axis=1)
    real = gaps > blur[:, None]
    least = np.min(gaps, axis=1, initial=np.inf, where=real)
    one = real & (gaps < _ONE_STEP * least[:, None])
    n_one = np.count_nonzero(one, axis=1)
    spacing = np.where(one, gaps, 0.0).sum(axis=1) / np.maximum(n_one, 1)
    fine = np.isfinite(least) & (np.count_nonzero(real, axis=1) + 1 >= _FEWEST)
    safe = np.where(fine, spacing, 1.0)[:, None]
    away = order - order[:, :1]
    for _ in range(2):  # found from few gaps, and refitted from all numbers
        places = np.round(away / safe)
        square = (places**2).sum(axis=1, keepdims=True)
        safe = np.where(square > 0, (places * away).sum(axis=1, keepdims=True) / np.maximum(square, 1), safe)
    off = np.abs(away - np.round(away / safe) * safe)
    near = np.count_nonzero(off <= _ON_LEVEL * safe + steps.max(axis=1, keepdims=True), axis=1)
    fine &= (near >= _ALL * groups.shape[1]) & (away[:, -1] < _MOST_LEVELS * safe[:, 0])
    return np.asarray(np.where(fine, safe[:, 0], np.nan))
