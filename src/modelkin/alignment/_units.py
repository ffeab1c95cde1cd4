"""Which unit of one layer faces which of another: the best match of each, never storing all similarities."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
_BLOCK_ELEMENTS = 4_000_000
"""About 16 MB of similarities at once."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitMatch:
    """For every candidate unit the base unit that is most alike."""

    places: npt.NDArray[np.intp] = field(repr=False)
    cosines: Array = field(repr=False)
    """Signed, of the best match."""

    def __len__(self) -> int:
        return len(self.places)


def match_units(candidate: npt.ArrayLike, base: npt.ArrayLike, *, sign_free: bool = False) -> UnitMatch:
    """Find the best match of each candidate unit among all base units.

    Not an assignment: two candidate units may take the same base unit, as copies in an up-cycled mixture do.
    Where the best matches are all different they are the optimal assignment as well.

    Parameters
    ----------
    candidate, base
        Units by features, any numbers of units.
    sign_free
        Compare sizes of cosines, for units whose sign is free.
    """
    mine, theirs = _unit_rows(candidate), np.asarray(base)
    places = np.zeros(len(mine), dtype=np.intp)
    cosines = np.zeros(len(mine), dtype=np.float32)
    best = np.full(len(mine), -np.inf, dtype=np.float32)
    # Base units are scaled block by block: a whole matrix of a large model is not copied.
    step = max(1, _BLOCK_ELEMENTS // max(1, len(mine), mine.shape[1]))
    for start in range(0, len(theirs), step):
        block = mine @ _unit_rows(theirs[start : start + step]).T
        size = np.abs(block) if sign_free else block
        at = np.argmax(size, axis=1)
        rows = np.arange(len(mine))
        better = size[rows, at] > best
        best = np.where(better, size[rows, at], best)
        places = np.where(better, at + start, places)
        cosines = np.where(better, block[rows, at], cosines)
    return UnitMatch(places=places, cosines=cosines)


def agreement(first: UnitMatch, second: UnitMatch) -> float:
    """Return the share of candidate units for which two matchings name the same base unit."""
    if len(first) != len(second):
        raise ValueError(f"second: expected {len(first)} units, got {len(second)}")
    return float(np.mean(first.places == second.places)) if len(first) else 0.0


def _unit_rows(values: npt.ArrayLike) -> Array:
    rows = np.array(values, dtype=np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    usable = np.isfinite(norms) & (norms > 0)
    return np.where(usable, rows / np.where(usable, norms, 1.0), np.float32(0.0)).astype(np.float32)
