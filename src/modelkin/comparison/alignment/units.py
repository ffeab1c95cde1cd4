"""Which unit of one layer faces which of another: the best match of each, never storing all similarities."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
_BLOCK_ELEMENTS = 4_000_000
"""About 16 MB of similarities at once."""
_COPY = 0.9
"""Cosine from which two units of one model are copies of each other, as in experts made from one MLP: with
30 % of noise on each they have 0.92."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitMatch:
    """For every candidate unit, the base unit that is most similar."""

    places: npt.NDArray[np.intp] = field(repr=False)
    """-1 for units that are zero or not finite: they resemble nothing but each other."""
    cosines: Array = field(repr=False)
    """Signed, of the best match; 0 where there is none."""

    def __len__(self) -> int:
        return len(self.places)

    @property
    def usable(self) -> npt.NDArray[np.bool_]:
        """Which units have a match."""
        return np.asarray(self.places >= 0)


def match_units(
    candidate: npt.ArrayLike,
    base: npt.ArrayLike,
    *,
    seed: int,
    sign_free: bool = False,
    besides: npt.NDArray[np.intp] | None = None,
) -> UnitMatch:
    """Find the best match of each candidate unit among all base units.

    Not an assignment: two candidate units may take the same base unit, as copies in an up-cycled mixture do.
    Where the best matches are all different they are the optimal assignment as well.

    Both are units by features, any numbers of units. The seed breaks ties at random: always taking the first
    would suggest an order where there is none, and the same one in every matching. If `sign_free`, the sign
    of a unit means nothing, and sizes of cosines are compared. `besides` names a base unit for each candidate
    unit: it and its copies are passed over.
    """
    mine, theirs = _unit_rows(candidate), np.asarray(base, dtype=np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", theirs, theirs, dtype=np.float64))
    wanted = np.flatnonzero(mine.any(axis=1))
    offered = np.random.default_rng(seed).permutation(np.flatnonzero(np.isfinite(norms) & (norms > 0)))
    places = np.full(len(mine), -1, dtype=np.intp)
    cosines = np.zeros(len(mine), dtype=np.float32)
    known = None if besides is None else _unit_rows(theirs[besides[wanted]])
    mine, best = mine[wanted], np.full(len(wanted), -np.inf, dtype=np.float32)
    # Base units are scaled block by block: a whole matrix of a large model is not copied.
    step = max(1, _BLOCK_ELEMENTS // max(1, len(mine), mine.shape[1]))
    for start in range(0, len(offered) if len(mine) else 0, step):
        rows = offered[start : start + step]
        scaled = (theirs[rows] / norms[rows, None].astype(np.float32)).T
        block = mine @ scaled
        if known is not None:
            block[known @ scaled > _COPY] = -np.inf
        size = np.abs(block) if sign_free else block
        at = np.argmax(size, axis=1)
        found = size[np.arange(len(mine)), at]
        better = np.flatnonzero(found > best)
        best[better] = found[better]
        places[wanted[better]] = rows[at[better]]
        cosines[wanted[better]] = block[better, at[better]]
    return UnitMatch(places=places, cosines=cosines)


def agreement(first: UnitMatch, second: UnitMatch) -> float | None:
    """Return the share of candidate units for which two matchings name the same base unit.

    Units without a match are left out; None if there are no others.
    """
    if len(first) != len(second):
        raise ValueError(f"second: expected {len(first)} units, got {len(second)}")
    both = first.usable & second.usable
    return float(np.mean(first.places[both] == second.places[both])) if both.any() else None


def _unit_rows(values: npt.ArrayLike) -> Array:
    rows = np.array(values, dtype=np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    usable = np.isfinite(norms) & (norms > 0)
    return np.where(usable, rows / np.where(usable, norms, 1.0), np.float32(0.0)).astype(np.float32)
