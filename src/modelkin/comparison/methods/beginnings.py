"""Initialisations without random numbers: layers that agree with layers they do not face, in both models.

Some recipes begin every layer from the same public matrix, such as rows of a Hadamard matrix or of a
cosine basis in a fixed order. Unit i then agrees with unit i of every layer of every such model, and the
order of units is not arbitrary. A random initialisation, shared or not, numbers each layer independently:
there a layer agrees with the one it faces and with no other.

Adapters between fixed random projections do the same up to signs: public matrices for all layers and all
models (those of a library's default seed), of which units or directions get multiples (as in VeRA, RandLoRA).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from modelkin.message import say
from modelkin.stats import (
    CrossScores,
    finite_or_zero,
    joint_z,
    log10_sign_bound,
    of_length_one,
    row_norms,
)
from modelkin.tensors import Array

from ._result import Tested

BEGUN_ALIKE = say("begun-alike")
"""Why units of a layer that show a common initialisation are not searched for."""
BEGINNING_FLAGS = frozenset({"every-layer", "beginning-alone"})
"""Flags of a test whose layer shows it: with what is left of the test, and in place of the test."""
EVERYWHERE_Z = 3.0
"""z from which layers that do not face each other agree, all together. It is low, as an initialisation of
which little is left still orders the units; it must show within each model and across."""
CERTAIN_Z = 6.0
"""The same across models if nothing else can be tested. Within each of them `EVERYWHERE_Z` is enough: z of a
pair of layers scatters by 1, and strangers of two layers that began alike had 5.0 within and 8.2 across."""
FEWEST_OTHERS = 2
"""Other layers of each model needed to tell a common initialisation from more."""
_MOST_SHARE = 4.0
"""If a layer seems to keep over four times as much of the beginning as its neighbour, the estimate is
wrong."""
_SIGMA_ROWS = 64
"""Rows of the similarity from which its spread is estimated: the error is a percent or two, and z only
gates."""
_GLANCED_ROWS = 8
"""Rows of a first look, of which the median counts: the mean of all is at least half of the median, and
usually more than it."""
_GLANCE_SHARE = 2 / 3
"""Share of a limit that a first look must exceed for a second one: the root of that half is 0.71."""


@dataclass(slots=True, eq=False)
class Remembered:
    """Directions of layers, and how much any two agree.

    Every layer is compared with every other one, so all would be recomputed for each tested one.
    """

    _directions: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    """By the id of the rows, which are kept so that no other array gets the same id."""
    _scores: dict[tuple[int, int], float] = field(default_factory=dict)
    _glances: dict[tuple[int, int], float] = field(default_factory=dict)
    _squared: dict[tuple[int, int], float] = field(default_factory=dict)
    _squares: dict[tuple[int, int], float] = field(default_factory=dict)
    _products: dict[tuple[int, int], float] = field(default_factory=dict)
    _numbers: dict[int, tuple[Array, int]] = field(default_factory=dict)
    _kept: dict[tuple[int, int], tuple[Array, Array]] = field(default_factory=dict)
    """What `learn` was told of, which keeps its ids as well."""
    _distinct: dict[bytes, list[Array]] = field(default_factory=dict)
    """By their first units."""

    def learn(self, candidate: Sequence[Array], base: Sequence[Array], found: CrossScores) -> None:
        """Remember what was computed of all layers of one model with all of the other."""
        for at in np.argwhere(np.isfinite(found.z) & np.isfinite(found.traces)).tolist():
            both = candidate[at[0]], base[at[1]]
            key = id(both[0]), id(both[1])
            self._kept[key] = both
            cell = tuple(at)
            self._scores[key] = float(found.z[cell])
            self._products[key] = float(found.traces[cell])
            self._squares[key] = float(found.mean_squares[cell])

    def directions(self, rows: Array) -> Array:
        """Return units of norm 1 without their mean."""
        if id(rows) not in self._directions:
            self._directions[id(rows)] = rows, directions(rows)
        return self._directions[id(rows)][1]

    def number(self, rows: Array) -> int:
        """Return a number that only equal layers have in common."""
        if id(rows) not in self._numbers:
            alike = self._distinct.setdefault((rows[:1] + 0.0).tobytes(), [])  # no zero is negative
            same = next((other for other in alike if np.array_equal(other, rows)), rows)
            if same is rows:
                alike.append(rows)
            self._numbers[id(rows)] = rows, id(same)
        return self._numbers[id(rows)][1]

    def z(self, one: Array, two: Array) -> float:
        """Return the rough z of the directions of two layers."""
        if (id(one), id(two)) not in self._scores:
            known = self.directions(one), self.directions(two)
            self._scores[id(one), id(two)] = rough_z(*known, product=self.product(one, two))
        return self._scores[id(one), id(two)]

    def glance(self, one: Array, two: Array, *, beside: Sequence[Array]) -> float:
        """Return an estimate for a tenth of the work; where it errs, it is too large.

        Layers `beside` the first, itself included, are looked at together: one product is the fastest.
        """
        if (id(one), id(two)) in self._scores:
            return self._scores[id(one), id(two)]
        if (id(one), id(two)) not in self._glances:
            layers = [self.directions(rows) for rows in beside]
            products = [self.product(rows, two) for rows in beside]
            found = glanced_z(layers, self.directions(two), products=products)
            self._glances |= {(id(rows), id(two)): z for rows, z in zip(beside, found, strict=True)}
        return self._glances[id(one), id(two)]

    def square(self, one: Array, two: Array) -> float:
        """Return the mean squared product of units of the same number."""
        self._face(one, two)
        return self._squares[id(one), id(two)]

    def size(self, one: Array, two: Array) -> float:
        """Return how much two layers agree or disagree as a whole."""
        return abs(self.product(one, two))

    def product(self, one: Array, two: Array) -> float:
        """Return the sum of products of units of the same number."""
        self._face(one, two)
        return self._products[id(one), id(two)]

    def _face(self, one: Array, two: Array) -> None:
        """Multiply units of the same number once: layers are large, and sum and squares both count."""
        if (id(one), id(two)) not in self._products:
            products = np.einsum("ij,ij->i", self.directions(one), self.directions(two)).astype(np.float64)
            self._products[id(one), id(two)] = float(products.sum())
            self._squares[id(one), id(two)] = float(np.mean(np.square(products)))

    def squared_z(self, one: Array, two: Array) -> float:
        """Return the z of two layers whose units have arbitrary signs."""
        if (id(one), id(two)) not in self._squared:
            known = self.directions(one), self.directions(two)
            self._squared[id(one), id(two)] = squared_z(*known)
        return self._squared[id(one), id(two)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OtherLayers:
    """The same units in layers of both models that do not face the tested ones; place k faces place k."""

    candidate: tuple[Array, ...]
    base: tuple[Array, ...]
    known: Remembered = field(default_factory=Remembered, repr=False)


def other_layers(
    candidate: Sequence[Array], base: Sequence[Array], at: int, known: Remembered | None = None
) -> OtherLayers:
    """Return all layers but one, of models whose layers are given in pairs that face each other."""
    return OtherLayers(
        candidate=tuple(rows for number, rows in enumerate(candidate) if number != at),
        base=tuple(rows for number, rows in enumerate(base) if number != at),
        known=Remembered() if known is None else known,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonBeginning:
    """What is left of the agreement of two layers beyond what all layers of both models share."""

    log10_p: float


def common_beginning(rows: tuple[Array, Array], others: OtherLayers) -> CommonBeginning | None:
    """Say whether the tested layers agree with layers that they do not face, and what is left beyond that.

    It must show within each model and across: one model that numbers each layer independently is enough for
    an exact test. Layers that were copied within a model look the same; then, too, what goes beyond the copy
    counts.

    Let R be what all layers began from, and let layers keep different shares of it. The tested layer of the
    candidate, minus a multiple of another of its layers, has no R left if the multiple is the ratio of their
    shares, which shows in their agreement with layers that neither of them faces. The same is done for the
    base. Null hypothesis: apart from R, a unit of the base might as well have been swapped between these two
    layers. That flips the sign of the unit's term in the sum of products, and changes nothing else.
    """
    kept, limit = _comparable(rows, others)
    z, glance = others.known.z, others.known.glance
    across = [(rows[0], other) for _, other in kept] + [(other, rows[1]) for other, _ in kept]
    beside = [rows[0], *(other for other, _ in kept)]
    if not joint_z([glance(*both, beside=beside) for both in across]) > _GLANCE_SHARE * limit:
        return None  # as in nearly all models
    if not joint_z([z(*both) for both in across]) > limit:
        return None
    inside = [z(rows[0], other) for other, _ in kept], [z(rows[1], other) for _, other in kept]
    if not min(joint_z(inside[0]), joint_z(inside[1])) > EVERYWHERE_Z:
        return None
    if len(kept) < FEWEST_OTHERS:
        return CommonBeginning(log10_p=0.0)
    near = int(np.argmax(np.add(*inside)))
    mine, theirs = (others.known.directions(side) for side in rows)
    here, there = ([others.known.directions(both[side]) for both in kept] for side in (0, 1))
    far = [rows for layers in (here, there) for number, rows in enumerate(layers) if number != near]
    used = (rows[0] != 0) & (rows[1] != 0) & (kept[near][0] != 0) & (kept[near][1] != 0)
    own = _beside(mine, here[near], far), _beside(theirs, there[near], far)
    return CommonBeginning(log10_p=log10_sign_bound(np.sum(np.where(used, own[0] * own[1], 0.0), axis=1)))


def is_single(rows: tuple[Array, Array], others: OtherLayers) -> bool:
    """Say whether a common beginning could not show, because no second pair of different layers was read."""
    return not _comparable(rows, others)[0]


def common_up_to_sign(
    rows: tuple[Array, Array], others: OtherLayers, *, beside: CommonBeginning | None = None
) -> CommonBeginning | None:
    """Look for a common beginning of layers that agree up to signs of units or of whole layers.

    Let every layer of both models have had a product of public matrices added, with trained factors of either
    sign for each unit or for each direction. In the first case squared products of units of the same number
    exceed those of others; in the second all units of two layers agree, or all disagree. Both show in layers
    that do not face each other, too. How much was added is different everywhere and cannot be subtracted. It
    explains what layers that face each other have in common, unless that is more than four times as much as
    in any others (`_MOST_SHARE`): in a copy it is, whatever was added to both.

    `beside` is a beginning that was recognised without regard to signs. All layers that have it agree, so it
    explains squares, but no disagreement.
    """
    kept, limit = _comparable(rows, others)
    if not kept:
        return None
    known = others.known
    across = [(rows[0], other) for _, other in kept] + [(other, rows[1]) for other, _ in kept]
    inside = [(rows[0], other) for other, _ in kept], [(rows[1], other) for _, other in kept]

    def is_explained(size: Callable[[Array, Array], float]) -> bool:
        return size(*rows) <= _MOST_SHARE * max(size(*both) for both in across)

    if beside is None and is_explained(known.square):
        crossing, *within = (
            joint_z([known.squared_z(*both) for both in pairs]) for pairs in (across, *inside)
        )
        if crossing > limit and min(within) > EVERYWHERE_Z:
            return CommonBeginning(log10_p=0.0)
    if is_explained(known.size):
        # Whether two layers agree or disagree is chance, so all pairs of layers of a model count.
        layers = zip(rows, *kept, strict=True)
        pairs = (across, *(list(combinations(own, 2)) for own in layers))
        scores = [[known.z(*both) for both in group] for group in pairs]
        if min(map(_scatter, scores)) > limit and min(map(min, scores)) < -limit:
            return CommonBeginning(log10_p=0.0)
    return None


def _scatter(scores: Sequence[float]) -> float:
    """Return by how many deviations the squares of independent z scores exceed their expectation."""
    return (math.fsum(z * z for z in scores) - len(scores)) / math.sqrt(2.0 * len(scores))


def _comparable(rows: tuple[Array, Array], others: OtherLayers) -> tuple[list[tuple[Array, Array]], float]:
    """Return the other layers, of both models, that can be compared, and the z from which they agree.

    A layer that is used twice, as the tested one or as another, is not one more layer.
    """
    number = others.known.number
    seen = tuple({number(side)} for side in rows)
    kept = []
    for both in zip(others.candidate, others.base, strict=True):
        numbers = tuple(map(number, both))
        new = all(one not in known for one, known in zip(numbers, seen, strict=True))
        if new and all(one.shape == tested.shape for one, tested in zip(both, rows, strict=True)):
            kept.append(both)
            for one, known in zip(numbers, seen, strict=True):
                known.add(one)
    return kept, EVERYWHERE_Z if len(kept) >= FEWEST_OTHERS else CERTAIN_Z


def beside_beginning(test: Tested, left: CommonBeginning, *, chosen_from: int) -> Tested:
    """Let a test claim no more than what is left beyond a common initialisation."""
    return test.at_most(left.log10_p, chosen_from=chosen_from, flag="every-layer", alone="beginning-alone")


def directions(rows: Array) -> Array:
    """Return units of norm 1 without their mean."""
    values = finite_or_zero(np.asarray(rows, dtype=np.float32))
    units = of_length_one(values, row_norms(values))
    units -= units.mean(axis=0)
    return units


def rough_z(candidate: Array, base: Array, *, product: float | None = None) -> float:
    """Return the z of the test on an axis, its spread estimated from some of the units.

    The product of all of them need not be computed again if it is known.
    """
    squares = float(_squares(_some(candidate, _SIGMA_ROWS), base).mean()) * len(candidate)
    product = float(np.vdot(candidate, base)) if product is None else product
    return _z(product, len(candidate), squares) if squares > 0.0 else 0.0


def glanced_z(
    candidates: Sequence[Array], base: Array, *, products: Sequence[float] | None = None
) -> list[float]:
    """Return about the same of each of some layers with one, too large rather than too small.

    The median leaves out the few units that agree with everything, which would hide the others.
    """
    products = [float(np.vdot(rows, base)) for rows in candidates] if products is None else products
    some = np.concatenate([_some(rows, _GLANCED_ROWS) for rows in candidates])
    squares = np.median(_squares(some, base).reshape(len(candidates), -1), axis=1) * len(base)
    return [
        _z(product, len(base), found) if found > 0.0 else math.inf
        for product, found in zip(products, squares.tolist(), strict=True)
    ]


def squared_z(candidate: Array, base: Array) -> float:
    """Return the z of the test on an axis for units whose sign is arbitrary.

    >>> rows = np.random.default_rng(0).normal(size=(64, 32))
    >>> squared_z(rows, rows * np.random.default_rng(1).choice([-1, 1], size=(64, 1))) > 20
    True
    """
    similarity = np.square(candidate @ base.T, dtype=np.float64)
    similarity -= similarity.mean(axis=0)
    similarity -= similarity.mean(axis=1, keepdims=True)
    spread = float(np.linalg.norm(similarity))
    return float(np.trace(similarity)) * math.sqrt(len(candidate) - 1) / spread if spread > 0.0 else 0.0


def _z(product: float, n_units: int, squares: float) -> float:
    return product / math.sqrt(squares / max(1, n_units - 1))


def _some(candidate: Array, n_rows: int) -> Array:
    return candidate[:: max(1, len(candidate) // n_rows)]


def _squares(some: Array, base: Array) -> Array:
    """Return the sums of squares of some rows of the similarity."""
    similarity = some @ base.T
    return np.asarray(np.einsum("ij,ij->i", similarity, similarity), dtype=np.float64)


def _beside(rows: Array, near: Array, far: Sequence[Array]) -> Array:
    """Subtract what a layer has in common with another one, in the share that third layers indicate."""
    along, against = (math.fsum(float(np.vdot(side, other)) for other in far) for side in (rows, near))
    share = min(max(along / against, 0.0), _MOST_SHARE) if against > 0.0 else 0.0
    return np.asarray(rows - np.float32(share) * near, dtype=np.float32)
