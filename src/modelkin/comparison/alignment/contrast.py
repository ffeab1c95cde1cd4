"""Layers that face each other versus layers that do not, of the same two models in the same coordinates.

Coordinates are learned on one fold of layers and used on the other, which had no part in them; then the folds
are swapped. What units of facing layers have in common is then contrasted with mismatched layers: of one
model with the other, and within each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from modelkin.stats import binomial_limit

from .coordinates import LearnedMap, learn_map
from .layer_units import Array, Indices, LayerUnits
from .residual import unit_rows

_QUERIES = 384
"""Units of a layer that are searched for in another, in either direction."""
_MOST_MISMATCHED = 24
"""Pairs of mismatched layers that are measured across the models."""
REPEATED = 0.5
"""Agreement of two layers of one model from which they count as the same layer: copies agree in most units,
neighbours that learned the same features in a quarter at most."""
_ANY, _CLOSE = LEVELS = (-1.0, 0.5)
"""Cosines, by both rows, from which a best match counts as agreeing. Consecutive layers of one model share
features: at a width of 5,120 a sixth of their units agree, with cosines of 0.06 to 0.3, where a copy with 2 %
of noise has 0.98."""
_NEARLY = 0.9
"""Cosine, by both rows, from which two units of one layer count as copies of each other."""

Learner = Callable[[Sequence[int]], LearnedMap | None]
"""Learns coordinates from some of the facing layers, given by their places; None if they give none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many of some units agree."""

    agreeing: int
    n: int

    @property
    def share(self) -> float:
        """Part of them that agrees."""
        return self.agreeing / self.n if self.n else 0.0


_Counts = dict[float, Count]
"""By the cosine that units need to agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facing:
    """What was found for two layers that are assumed to face each other."""

    pair: int
    """Its number among the pairs that were given."""
    count: Count
    could_agree: float
    """Largest share of units that can agree: the partners of the others were not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastOfLayers:
    """Facing and mismatched layers in one set of coordinates."""

    facing: tuple[Facing, ...]
    n_mismatched: int
    largest: Count
    """The mismatched pair whose limit is largest."""
    limit: float
    """Upper confidence limit of its share."""
    closer_than: float | None
    """Cosine that units need to agree; None if any will do."""
    learned: LearnedMap | None = field(repr=False, default=None)
    """None if coordinates were given."""

    @property
    def mean_share(self) -> float:
        """Mean agreement of facing layers, as a share of what could agree."""
        return float(np.mean([item.count.share / item.could_agree for item in self.facing]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedLayers:
    """Facing layers of two models, and which of them are one layer under several numbers."""

    candidate: tuple[LayerUnits, ...]
    base: tuple[LayerUnits, ...]
    """The layer that each is assumed to face; the same one may appear several times."""
    same: tuple[int, ...]
    """Number of the layer that a pair stands for: equal where layers of a model repeat."""
    inside: tuple[_Counts, ...]
    """Agreement of different layers of one model."""

    @property
    def distinct(self) -> tuple[int, ...]:
        """The numbers of different layers, in order."""
        return tuple(dict.fromkeys(self.same))


def facing_layers_of(
    candidate: Sequence[LayerUnits], base: Sequence[LayerUnits], base_numbers: Sequence[int]
) -> PairedLayers:
    """Find layers that repeat within a model: they would both teach coordinates and be tested in them.

    `candidate` and `base` are units of layers that are assumed to face each other, pair by pair;
    `base_numbers` says which layers of the base these are, and the same one may face several.
    """
    n = len(candidate)
    same = list(range(n))
    inside: list[_Counts] = []
    for i, j in itertools.combinations(range(n), 2):
        counts = [_looked_for(candidate[i], candidate[j])]
        repeated = base_numbers[i] == base_numbers[j]
        if not repeated:
            counts.append(_looked_for(base[i], base[j]))
        if repeated or any(item[_ANY].share > REPEATED for item in counts):
            old, new = same[j], same[i]
            same = [new if number == old else number for number in same]
        inside += [item for item in counts if item[_ANY].share <= REPEATED]
    return PairedLayers(candidate=tuple(candidate), base=tuple(base), same=tuple(same), inside=tuple(inside))


def divisions_of(layers: PairedLayers) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield layers in two folds: every other layer, then two by two.

    A copy may have kept every other layer, or one half of them: in one of the two divisions both folds
    contain kept layers.
    """
    numbers = layers.distinct
    for width in (1, 2) if len(numbers) > 3 else (1,):
        even = {number for at, number in enumerate(numbers) if at // width % 2 == 0}
        one = tuple(at for at, number in enumerate(layers.same) if number in even)
        two = tuple(at for at, number in enumerate(layers.same) if number not in even)
        if one and two:
            yield one, two


def contrast_in(
    layers: PairedLayers,
    matrix: Array | None,
    tested: Sequence[int],
    *,
    enough: Callable[[ContrastOfLayers], bool],
    learned: LearnedMap | None = None,
) -> ContrastOfLayers | None:
    """Measure facing and mismatched layers in given coordinates; None if no two layers are different.

    Any best match counts; if that does not show enough, only close ones do. If only part of the units was
    read, only close ones count from the start: most partners are missing, and the next best is a different
    unit.

    `matrix` is the map, None for coordinates as they are, and `learned` what it was learned from; `tested`
    are pairs of layers that it was not learned from, and all other layers serve as mismatched ones. `enough`
    says whether these coordinates are the right ones.
    """
    mine = [_Looked.at(units, matrix) for units in layers.candidate]
    theirs = [_Looked.at(units, None if matrix is None else matrix.T) for units in layers.base]
    mismatched = [_counts(mine[i], theirs[j]) for i, j in _mismatched(layers, tested)]
    mismatched += layers.inside
    if not mismatched or len(layers.distinct) < 2:
        return None
    facing = {at: _counts(mine[at], theirs[at]) for at in tested}
    could = {at: _could_agree(layers.candidate[at], layers.base[at]) for at in tested}
    levels = (_CLOSE,) if min(could.values()) < 1 else LEVELS
    made = []
    for level in levels:
        counts = [item[level] for item in mismatched]
        limits = [binomial_limit(count.n, count.agreeing) for count in counts]
        worst = int(np.argmax(limits))
        made.append(
            ContrastOfLayers(
                facing=tuple(
                    Facing(pair=at, count=item[level], could_agree=could[at]) for at, item in facing.items()
                ),
                n_mismatched=len(counts),
                largest=counts[worst],
                limit=limits[worst],
                closer_than=level if level > _ANY else None,
                learned=learned,
            )
        )
    return next((item for item in made if enough(item)), made[0])


def learner_of_units(layers: PairedLayers, *, start: Array | None = None) -> Learner:
    """Return what learns coordinates from the units of some of these layers.

    The layers face each other. `start` is a first guess of the map, if there is one.
    """

    def learn(fold: Sequence[int]) -> LearnedMap | None:
        mine, theirs = ([side[at] for at in fold] for side in (layers.candidate, layers.base))
        return learn_map(mine, theirs, start=start)

    return learn


def contrasts_of_folds(
    layers: PairedLayers,
    *,
    learn: Learner,
    enough: Callable[[ContrastOfLayers], bool],
) -> list[list[ContrastOfLayers]]:
    """Learn coordinates on one fold and measure on the other, and vice versa, in all divisions.

    Divisions are tried until one of them shows enough; in each of them every layer is measured once.

    `learn` learns coordinates from some of the facing layers, and `enough` says whether these coordinates are
    the right ones.
    """
    found: list[list[ContrastOfLayers]] = []
    for both in divisions_of(layers):
        made = [_learned_and_measured(layers, learn(fold), test, enough) for fold, test in (both, both[::-1])]
        known = [item for item in made if item is not None]
        found += [known] if known else []
        if any(enough(item) for item in known):
            break
    return found


def _learned_and_measured(
    layers: PairedLayers,
    learned: LearnedMap | None,
    test: Sequence[int],
    enough: Callable[[ContrastOfLayers], bool],
) -> ContrastOfLayers | None:
    if learned is None:
        return None
    signed = (learned, learned.reversed()) if learned.sign_open else (learned,)
    made = [contrast_in(layers, one.matrix, test, enough=enough, learned=one) for one in signed]
    return max((item for item in made if item is not None), key=lambda item: item.mean_share, default=None)


def agreeing(a: LayerUnits, b: LayerUnits, *, matrix: Array | None = None) -> Count:
    """Count the units whose best match by one row is also their best match by another.

    Units of the layer that has fewer are searched for in the other, or both in each other; `matrix` maps the
    coordinates of the first to those of the second.
    """
    return _looked_for(a, b, matrix)[_ANY]


def _looked_for(a: LayerUnits, b: LayerUnits, matrix: Array | None = None) -> _Counts:
    return _counts(_Looked.at(a, matrix), _Looked.at(b, None if matrix is None else matrix.T))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Looked:
    """A layer in its own coordinates, and some of its units in those of the other model."""

    free: tuple[bool, ...]
    first: Array
    second: Array
    """The part of second rows that is orthogonal to the first."""
    asked_first: Array
    asked_second: Array

    @classmethod
    def at(cls, units: LayerUnits, matrix: Array | None) -> _Looked:
        first, second = units.rows[0], units.own_second()
        chosen = np.arange(len(units)) if len(units) <= _QUERIES else _spread(len(units), _QUERIES)
        asked = [
            # Part of a map shortens rows; what is left of them is compared.
            rows[chosen] if matrix is None else unit_rows(rows[chosen] @ matrix)
            for rows in (first, second)
        ]
        return cls(free=units.free, first=first, second=second, asked_first=asked[0], asked_second=asked[1])


def _counts(a: _Looked, b: _Looked) -> _Counts:
    n, m = len(a.first), len(b.first)
    ways = [(a, b), (b, a)] if n == m else [(a, b) if n < m else (b, a)]
    found = [_one_way(few, many) for few, many in ways]
    return {
        level: Count(
            agreeing=sum(item[level].agreeing for item in found), n=sum(item[level].n for item in found)
        )
        for level in LEVELS
    }


def _one_way(few: _Looked, many: _Looked) -> _Counts:
    one, by_first = _best(few.asked_first, many.first, free=few.free[0])
    two, by_second = _best(few.asked_second, many.second, free=few.free[1])
    # A unit may be there several times, as in experts that began as copies: any of the copies will do.
    same = (one == two) | (_alike(many.first, one, two) & _alike(many.second, one, two))
    near = np.minimum(by_first, by_second)
    # Each unit is found once: one that is nearest to many by both rows is close to everything.
    return {
        level: Count(agreeing=len(set(one[same & (near >= level)].tolist())), n=len(one)) for level in LEVELS
    }


def _best(queries: Array, rows: Array, *, free: bool) -> tuple[Indices, Array]:
    """Return the row that is nearest to each query, and its cosine."""
    cosines = queries @ rows.T
    if free:
        np.abs(cosines, out=cosines)
    best = np.argmax(cosines, axis=1)
    return np.asarray(best), np.asarray(cosines[np.arange(len(best)), best])


def _alike(rows: Array, one: Indices, two: Indices) -> npt.NDArray[np.bool_]:
    return np.asarray(np.abs(np.einsum("ij,ij->i", rows[one], rows[two])) > _NEARLY)


def _spread(n: int, wanted: int) -> Indices:
    return np.asarray(np.linspace(0, n - 1, wanted).round(), dtype=np.intp)


def _could_agree(a: LayerUnits, b: LayerUnits) -> float:
    """Return the share of queried units whose partner can have been read."""
    shares = [b.read, a.read] if len(a) == len(b) else [b.read if len(a) < len(b) else a.read]
    return float(np.mean(shares))


def _mismatched(layers: PairedLayers, tested: Sequence[int]) -> list[tuple[int, int]]:
    """Choose pairs of different layers across the models, one of them tested, spread over all of them."""
    wanted = set(tested)
    found = [
        (i, j)
        for i, j in itertools.permutations(range(len(layers.same)), 2)
        if layers.same[i] != layers.same[j] and (i in wanted or j in wanted)
    ]
    if len(found) <= _MOST_MISMATCHED:
        return found
    return [found[at] for at in _spread(len(found), _MOST_MISMATCHED)]
