"""Coordinates from the units themselves: no token, no gain, no numbering is needed.

Units are matched by numbers that no change of coordinates alters. Right or wrong, the matches give an
orthogonal map (Procrustes), in which units can be matched by their directions, which gives a better map. For
relatives this converges within a few rounds; for strangers it wanders, and what it learned is worth nothing
on unseen layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, say

from .layer_units import Array, Indices, LayerUnits, mutual_nearest, standardised
from .residual import Frame, polar_factor

_ROUNDS = 8
"""Limit for a map that goes back and forth between two sets of matches; others settle before."""
_SETTLED = 0.995
"""Share of matches that stay the same from one round to the next."""
_FEWEST_MATCHES = 8
"""With fewer matched units a map would fit whatever it was learned from."""
_MOST_PRODUCTS = 24_000_000
"""Most units times dimensions of a candidate's layer to learn from: more than enough in wide models."""
_WIDEST_EXACT = 768
"""Up to this width the map is the polar factor. Beyond, only its strongest directions are made even, which
takes seconds where the factor takes minutes: in that many dimensions the rest are even enough."""
_STRONGEST = 128
"""Directions that are made even in a wide model: those that outlier dimensions and common directions
stretch."""
_WIDE = 256
"""From this width on, a start that leads nowhere is given up at once: there, a right one is never that
bad."""

_ONE_PLACE, _AN_ORDER = 0.71, 0.9
"""Part of a dimension's direction that one other must hold to be its place, since no second one can hold as
much; and share of dimensions that must have one: in a rotation of 16 dimensions hardly any has."""

_UNITS = say("units-of-layers")

Matches = list[tuple[Indices, Indices]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearnedMap:
    """An orthogonal map from the candidate's residual coordinates to the base's."""

    matrix: Array = field(repr=False)
    fit: float
    """Mean cosine of the first rows of matched units: not evidence, as the map was learned from them."""
    n_units: int
    """Matched units it was learned from."""
    rounds: int
    learned_from: Message = _UNITS
    sign_open: bool = False
    """Whether it may be all of it times minus one."""

    def reversed(self) -> LearnedMap:
        """Return the map times minus one."""
        return replace(self, matrix=-self.matrix)

    def as_frame(self) -> Frame:
        """Return the map as an order of dimensions where it is nearly one, else as it is."""
        blank = Frame(
            kind="rotation",
            learned_from=self.learned_from,
            n_rows=self.n_units,
            fit=self.fit,
            chance=0.0,
            widths=(self.matrix.shape[0], self.matrix.shape[1]),
            matrix=self.matrix,
        )
        order = _order_of(self.matrix)
        if order is None:
            return blank
        signs = np.sign(self.matrix[order, np.arange(len(order))]).astype(np.float32)
        kind: Literal["permutation", "signed-permutation"] = (
            "signed-permutation" if (signs < 0).any() else "permutation"
        )
        return replace(blank, kind=kind, places=order, signs=signs, matrix=None)


def learn_map(
    candidate: Sequence[LayerUnits], base: Sequence[LayerUnits], *, start: Array | None = None
) -> LearnedMap | None:
    """Learn a map from layers that are assumed to face each other, in order; None if too few units match.

    Both have equally many layers. `start` is a first guess of the map; without it, units are matched by their
    invariants.
    """
    pairs = [(_some(a), b) for a, b in zip(candidate, base, strict=True)]
    matches = [mutual_nearest(*_common(a, b)) for a, b in pairs] if start is None else None
    matrix = start
    found: LearnedMap | None = None
    for number in range(1, _ROUNDS + 1):
        if matches is None:
            assert matrix is not None
            matches = [_by_direction(a, b, matrix) for a, b in pairs]
        n_units = sum(len(mine) for mine, _ in matches)
        if n_units < _FEWEST_MATCHES:
            return found
        known, matrix = matrix, _orthogonal(_products(pairs, matches, matrix))
        if known is None and len(matrix) > _WIDE and not _promising(pairs, matches, matrix):
            return found
        found = LearnedMap(matrix=matrix, fit=_fit(pairs, matches, matrix), n_units=n_units, rounds=number)
        again = [_by_direction(a, b, matrix) for a, b in pairs]
        if _share_kept(matches, again) > _SETTLED:
            break
        matches = again
    return found


def _order_of(matrix: Array) -> Indices | None:
    """Return the candidate's dimension at each of the base's places; None if the map is no order."""
    if matrix.shape[0] != matrix.shape[1]:
        return None
    size = np.abs(matrix) / np.maximum(np.linalg.norm(matrix, axis=0), 1e-20)
    places: Indices = np.argmax(size, axis=0)
    sure = size[places, np.arange(len(size))] > _ONE_PLACE
    if np.count_nonzero(sure) < _AN_ORDER * len(size) or len(np.unique(places[sure])) < sure.sum():
        return None
    left = np.setdiff1d(np.arange(len(size)), places[sure])
    for place in np.flatnonzero(~sure):
        best = int(np.argmax(size[left, place]))
        places[place], left = left[best], np.delete(left, best)
    return places


def permutation_of_gains(candidate: npt.ArrayLike, base: npt.ArrayLike) -> Array | None:
    """Return the permutation that maps dimensions to those with similar gains; None if few match mutually.

    Each residual dimension has one gain in every norm. Gains say nothing about signs.

    Both are norms by dimensions, the same norms of both models.
    """
    if 0 in (np.size(candidate), np.size(base)):
        return None
    mine, theirs = (_standardised(gains) for gains in (candidate, base))
    if mine.shape != theirs.shape or mine.shape[1] < 2:
        return None
    here, there = mutual_nearest(mine, theirs)
    if len(here) < len(mine) / 2:
        return None
    matrix = np.zeros((len(mine), len(theirs)), dtype=np.float32)
    matrix[here, there] = 1.0
    return matrix


def _standardised(gains: npt.ArrayLike) -> npt.NDArray[np.float64]:
    table = np.asarray(gains, dtype=np.float64).T
    table = table - table.mean(axis=0)
    spread = table.std(axis=0)
    return np.asarray(table / np.where(spread > 0, spread, 1.0))


def _some(units: LayerUnits) -> LayerUnits:
    most = max(512, _MOST_PRODUCTS // units.rows[0].shape[1] // len(units.rows))
    return units if len(units) <= most else units.taken(np.arange(most))


def _promising(pairs: Sequence[tuple[LayerUnits, LayerUnits]], matches: Matches, matrix: Array) -> bool:
    """Say whether second rows, not yet used for learning, lead to the same matches more than by chance."""
    agreeing, expected = 0, 0.0
    for (a, b), (mine, theirs) in zip(pairs, matches, strict=True):
        cosines = (a.rows[1][mine] @ matrix) @ b.rows[1].T
        best = np.argmax(np.abs(cosines) if a.free[1] else cosines, axis=1)
        agreeing += int(np.count_nonzero(best == theirs))
        expected += len(mine) / len(b)
    return agreeing > 4 + 3 * expected


def _common(a: LayerUnits, b: LayerUnits) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    (mine,), (theirs,) = standardised([a.invariants()]), standardised([b.invariants()])
    n = min(mine.shape[1], theirs.shape[1])
    return mine[:, :n], theirs[:, :n]


def _by_direction(a: LayerUnits, b: LayerUnits, matrix: Array) -> tuple[Indices, Indices]:
    """Match units by the cosines of all their rows together."""
    total: Array | None = None
    for mine, theirs, free in zip(a.rows, b.rows, a.free, strict=False):
        cosines = np.asarray((mine @ matrix) @ theirs.T, dtype=np.float32)
        sizes = np.abs(cosines, out=cosines) if free else cosines
        total = sizes if total is None else np.add(total, sizes, out=total)
    assert total is not None
    to_b, to_a = np.argmax(total, axis=1), np.argmax(total, axis=0)
    mine_at = np.flatnonzero(to_a[to_b] == np.arange(len(a)))
    return mine_at, to_b[mine_at]


def _products(
    pairs: Sequence[tuple[LayerUnits, LayerUnits]], matches: Matches, matrix: Array | None
) -> npt.NDArray[np.float32]:
    """Add up the products of matched rows: only first rows, as long as no map gives the signs of others."""
    width = pairs[0][0].rows[0].shape[1], pairs[0][1].rows[0].shape[1]
    total = np.zeros(width, dtype=np.float32)
    for (a, b), (mine, theirs) in zip(pairs, matches, strict=True):
        for left, right, free in zip(a.rows, b.rows, a.free, strict=False):
            if matrix is None and left is not a.rows[0]:
                continue
            rows = left[mine]
            if free and matrix is not None:
                signs = np.sign(np.einsum("ij,ij->i", rows @ matrix, right[theirs]))
                rows = rows * signs[:, None]
            total += rows.T @ right[theirs]
    return total


def _orthogonal(products: npt.NDArray[np.float32]) -> Array:
    if min(products.shape) <= _WIDEST_EXACT:
        return polar_factor(products).astype(np.float32)
    # The strongest directions, by a sketch of what the products do to random vectors.
    sketch = np.random.default_rng(3).standard_normal((products.shape[1], _STRONGEST + 16), dtype=np.float32)
    basis = np.linalg.qr(products @ (products.T @ (products @ sketch)))[0]
    left, sizes, right = np.linalg.svd(basis.T @ products, full_matrices=False)
    even = np.minimum(sizes, sizes[_STRONGEST - 1]) - sizes
    scale = np.float32(1.0 / max(float(sizes[_STRONGEST - 1]), 1e-30))
    return np.asarray((products + ((basis @ left) * even) @ right) * scale, dtype=np.float32)


def _fit(pairs: Sequence[tuple[LayerUnits, LayerUnits]], matches: Matches, matrix: Array) -> float:
    cosines = [
        np.einsum("ij,ij->i", a.rows[0][mine] @ matrix, b.rows[0][theirs])
        for (a, b), (mine, theirs) in zip(pairs, matches, strict=True)
    ]
    found = np.concatenate(cosines)
    return float(np.mean(np.abs(found) if pairs[0][0].free[0] else found))


def _share_kept(before: Matches, after: Matches) -> float:
    kept = total = 0
    for (mine, theirs), (again, places) in zip(before, after, strict=True):
        known = dict(zip(mine.tolist(), theirs.tolist(), strict=True))
        same = sum(
            known.get(unit) == place for unit, place in zip(again.tolist(), places.tolist(), strict=True)
        )
        kept += same
        total += max(len(mine), len(again))
    return kept / max(1, total)
