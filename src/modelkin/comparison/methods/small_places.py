"""Weights that are small in the same places: where places agree and values do not, only values may count.

A common mask leaves small weights in the same places of two strangers, whatever has filled its zeros since: a
code, an update or noise. The places alone then make units of the same number alike. In a copy small weights
are in the same places as well, but there the large ones agree just as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from modelkin.stats import NotTestable, SwapTest, finite_or_zero, swap_test
from modelkin.tensors import Array

from ._result import Tested

Places: TypeAlias = npt.NDArray[np.bool_]
Limit: TypeAlias = tuple[float, int | None]
"""What is small: a share of the root mean square of a matrix (None), of each unit (1) or feature (0)."""
Valued: TypeAlias = Callable[[Array, Places], Array]
"""What is exchanged between units, given rows and the places that count."""

LEVELS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 2.0)
"""What may be small, as a share of the root mean square. Exact zeros first. Noise that fills a mask may be a
fifth of the weights; where one weight in fifty is left, that is about their root mean square."""
SMALL_GAINS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
"""The same for gains. They lie around one, so that half of it is small already."""
FEWEST_SMALL = 0.005
"""Share of small weights in both models from which their places are examined. One in two hundred enlarges the
squared cosine of equal places by as little: for z of 5 it takes a thousand units."""
MOST_SMALL = 1.0 - FEWEST_SMALL
"""The same for large ones."""
SAME_PLACES_Z = 5.0
"""z from which places agree unit by unit. If they do not, they explain nothing."""
SPARED = 0.5
"""Of the agreement of places: if large values agree this much, places follow from them. Whatever the size of
the noise that was added to a copy, large weights keep their signs better than small ones their places."""
BEYOND = (1.0, 2.0, 4.0, 8.0)
"""Times the limits at which places agree best: the weakest of these bounds counts. At those limits one masked
weight in a hundred may pass for a large one, and in a wide model as few show. Not beyond the root mean
square, where too few weights would be left."""
WORTH_ASKING = -3.0
"""Above this log10 p a test claims nothing, and there is nothing to bound."""
SURE = -6.0
"""log10 p from which large values agree for certain."""
NEAR_FLOOR = 0.8
"""The same for few units: this share of the digits that exchanges of so few can give at all."""
FEWEST_UNITS = 10
"""Fewer units have too few orders for a finding, with or without a mask: 1/9! is above 10^-6."""
MOST_COMPARED = 256
"""Units on which places are compared with values. The bound itself is over all units."""
_LIMITS: tuple[Limit, ...] = tuple((level, axis) for axis in (None, 1, 0) for level in LEVELS)
_GAIN_LIMITS: tuple[Limit, ...] = tuple((level, 0) for level in SMALL_GAINS)
_USUAL: tuple[Limit, ...] = ((0.35, None), (0.7, None), (0.0, None))
"""Where large weights of a copy are looked at: most of them, the largest half, and all. For signs this needs
no knowledge of the mask: where noise has filled it, signs do not agree."""


def given_small_places(
    test: Tested, candidate: Array, base: Array, *, seed: int, chosen_from: int = 1
) -> Tested:
    """Let a test claim no more than the signs of large weights do, if small ones are in the same places.

    Signs are exchanged between units and sizes stay where they are: the null holds for any sizes that two
    models have in common, whatever counts as small.
    """
    if test.log10_p >= WORTH_ASKING:
        return test
    sign_free = test.sign_free or "signs" in test.flags
    question = _SwappedPlaces(
        valued=lambda rows, _: np.sign(rows),
        limits=_LIMITS,
        tried=_USUAL,
        seed=seed,
        sign_free=sign_free,
        opposed=not sign_free and test.effect.value < 0,
    )
    return _beyond(test, _left(candidate, base, question), chosen_from=chosen_from)


def given_small_gains(test: Tested, candidate: Array, base: Array, *, seed: int) -> Tested:
    """Let a test of gains, dimensions by vectors, claim no more than gains that are small in neither model.

    Gains have one sign: it is exchanged whether they are above the median of their vector. A few small ones
    that pass for large count no more than others then.
    """
    if test.log10_p >= WORTH_ASKING:
        return test
    question = _SwappedPlaces(
        valued=_about_the_median,
        limits=_GAIN_LIMITS,
        tried=(),
        seed=seed,
        sign_free=False,
        opposed=test.effect.value < 0,
    )
    return _beyond(test, _left(candidate, base, question), chosen_from=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SwappedPlaces:
    """Which places may be small, and what is exchanged at the others."""

    valued: Valued
    limits: tuple[Limit, ...]
    tried: tuple[Limit, ...]
    """Limits beyond which values of a copy are compared; empty for that of the common places themselves."""
    seed: int
    sign_free: bool
    opposed: bool
    """Whether units are claimed to point away from each other, as in flipped copies: then values have to."""

    def directed(self, found: SwapTest) -> float:
        """Return the effect in the direction of what is claimed: the other one supports nothing."""
        return -found.effect if self.opposed else found.effect

    def exchanged(self, pair: _FacingRows, limit: Limit) -> SwapTest | NotTestable:
        """Exchange values between units at places that are large in both models."""
        large = pair.large(limit)
        return swap_test(
            candidate=self.valued(pair.mine, large),
            base=self.valued(pair.theirs, large),
            support=large,
            seed=self.seed,
            sign_free=self.sign_free,
        )


def _left(candidate: Array, base: Array, question: _SwappedPlaces) -> float | None:
    """Return log10 p of what large places alone say; None if small ones explain nothing."""
    if len(candidate) < FEWEST_UNITS:
        return None
    some = np.random.default_rng(question.seed).permutation(len(candidate))[:MOST_COMPARED]
    sample = _FacingRows.of(candidate[some], base[some])
    explained = _explained(sample, question.tried, question)
    if explained >= 1.0:
        return None  # places agree by 1 at most
    agreements = {limit: sample.agreement(limit) for limit in question.limits}
    common = {limit: found for limit, found in agreements.items() if found is not None}
    if not common:
        return None
    best = [
        max(limits, key=lambda limit: common[limit])
        for limits in ([limit for limit in common if limit[1] == axis] for axis in (None, 1, 0))
        if limits
    ]
    if not question.tried:
        explained = _explained(sample, best, question)
    if explained >= max(common.values()):
        return None
    whole = _FacingRows.of(candidate, base)
    limits = {(max(level, min(times * level, 1.0)), axis) for level, axis in best for times in BEYOND}
    bounds = [question.exchanged(whole, limit) for limit in limits]
    return max(
        0.0 if isinstance(found, NotTestable) or question.directed(found) <= 0.0 else found.log10_p
        for found in bounds
    )


def _beyond(test: Tested, left: float | None, *, chosen_from: int) -> Tested:
    if left is None or left + math.log10(chosen_from) <= test.log10_p:
        return test
    left = min(0.0, left + math.log10(chosen_from))
    return replace(
        test,
        log10_p=left,
        log10_p_extrapolated=None,
        detection_limit=None,
        flags=(*test.flags, "sizes-alone" if left > WORTH_ASKING else "same-sizes"),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _FacingRows:
    """Rows of two models."""

    mine: Array
    theirs: Array

    @classmethod
    def of(cls, candidate: Array, base: Array) -> _FacingRows:
        return cls(*(finite_or_zero(rows).astype(np.float32, copy=False) for rows in (candidate, base)))

    def small(self, limit: Limit) -> list[Places]:
        """Say where weights are small, in each model."""
        level, axis = limit
        sizes = [np.abs(rows) for rows in (self.mine, self.theirs)]
        return [
            np.asarray(size <= level * np.sqrt(np.mean(np.square(size), axis=axis, keepdims=True)))
            for size in sizes
        ]

    def large(self, limit: Limit) -> Places:
        """Say where weights are small in neither model."""
        first, second = self.small(limit)
        return ~(first | second)

    def agreement(self, limit: Limit) -> float | None:
        """Return how much small places agree, unit by unit: 1 for the same places. None if it may be chance.

        Units count alike, however many small places they have. Places that are alike in all units distinguish
        none: means over units are subtracted.
        """
        places = self.small(limit)
        if not all(FEWEST_SMALL <= where.mean() <= MOST_SMALL for where in places):
            return None
        first, second = (
            _centred(where / np.sqrt(np.maximum(1, where.sum(axis=1, keepdims=True)))) for where in places
        )
        whole = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
        similarity = first @ second.T
        trace, spread = float(np.trace(similarity)), float(np.linalg.norm(similarity))
        is_common = trace * math.sqrt(len(first) - 1) > SAME_PLACES_Z * spread
        return trace / whole if is_common and whole > 0.0 else None


def _explained(pair: _FacingRows, limits: Sequence[Limit], question: _SwappedPlaces) -> float:
    """Return up to which agreement small places follow from values that agree where they are large."""
    explained = -math.inf
    for limit in limits:
        if explained >= 1.0:
            break
        found = question.exchanged(pair, limit)
        if isinstance(found, NotTestable):
            continue
        floor = math.log10(2.0) * (1 - found.n_pairs)
        if found.log10_p <= max(SURE, NEAR_FLOOR * floor):
            most = math.sqrt(math.prod(max(0.0, own) for own in found.own_effects))
            effect = question.directed(found)
            explained = max(explained, effect / (SPARED * most) if most else math.copysign(math.inf, effect))
    return explained


def _centred(rows: npt.NDArray[np.float64]) -> Array:
    return np.asarray(rows - rows.mean(axis=0), np.float32)


def _about_the_median(rows: Array, large: Places) -> Array:
    """Return signs of what is above or below the median of each column, over the places that count."""
    medians = [
        np.median(column[where]) if where.any() else 0.0
        for column, where in zip(rows.T, large.T, strict=True)
    ]
    return np.asarray(np.sign(rows - np.asarray(medians, np.float32)), np.float32)
