"""Best matches: how many are in their own place, and whether they come in order."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ._ranks import Array
from ._result import OrderTest
from ._shifts import (
    MAX_ENUMERATED_UNITS,
    ShiftSums,
    draw_orders,
    enumerated_part,
    permutation_part,
    tie_tolerance,
)
from ._similarity import Similarity
from ._tails import log10_factorial, log10_normal_tail


class BestMatches:
    """The base unit most similar to each candidate unit, gathered block by block.

    Ties go to a place drawn beforehand, not to the first: a rule that prefers low places would see an order
    where none is.
    """

    def __init__(self, n_candidate: int, n_base: int, *, either_sign: bool, rng: np.random.Generator) -> None:
        self.places = np.zeros(n_candidate, dtype=np.intp)
        self._either_sign = either_sign
        self._order = rng.permutation(n_base)

    def add(self, rows: slice, block: Array) -> None:
        """Take in whole rows of the similarity."""
        shuffled = np.take(block, self._order, axis=1)
        if self._either_sign:
            np.abs(shuffled, out=shuffled)
        self.places[rows] = self._order[shuffled.argmax(axis=1)]

    def n_matched(self) -> int:
        """Units whose best match has their own place."""
        return int(np.count_nonzero(self.places == np.arange(len(self.places))))


def log10_matching_bound(n_matched: int) -> float:
    """Bound the chance that so many best matches fall into their own places.

    Null hypothesis: the order of the base's units is arbitrary. Whatever the similarities are, k given units
    all meet their own place with a chance of at most (n - k)!/n!, and there are n!/(k! (n - k)!) ways to
    choose them: together 1/k!. Floor: 1/n!. With no match or one the bound is 1.
    """
    return -log10_factorial(n_matched)


def order_of_matches(
    places: npt.NDArray[np.intp], n_base: int, *, n_permutations: int, seed: int, rng: np.random.Generator
) -> OrderTest:
    """Test whether the places of best matches rise with the place of the unit that found them.

    Null hypothesis: the order of the base's units is arbitrary. The sum of (unit's place) x (match's place)
    is linear in the base's order, so its mean and variance over all orders are exact, hubs that several units
    choose included. Floor of p: one over the number of permutations plus one. If all units choose one match,
    nothing can be said and p is 1.
    """
    at = np.arange(len(places), dtype=np.float64)
    pull = np.bincount(places, weights=at - at.mean(), minlength=n_base).astype(np.float64)
    # In random order: a shift by one of rising places would still rise, and hide what it is compared with.
    mixed = rng.permutation(n_base)
    similarity = Similarity.of_products(pull[mixed, None], mixed[:, None].astype(np.float64))
    statistic = float(similarity.diagonal().sum())
    sigma = math.sqrt(similarity.squares / (n_base - 1))
    spread = float(np.std(at) * np.std(places)) * len(at)
    if sigma <= 0.0 or spread <= 0.0:
        return OrderTest(
            n_candidate=len(places), n_base=n_base, rho=0.0, z=0.0, log10_p=0.0, log10_p_extrapolated=0.0,
            n_permutations=0, seed=seed,
        )  # fmt: skip
    tolerance = tie_tolerance(similarity, sigma)
    if n_base <= MAX_ENUMERATED_UNITS:
        part = enumerated_part(similarity, statistic=statistic, tolerance=tolerance, alternative="greater")
    else:
        gathered = ShiftSums(similarity, draw_orders(n_base, n_permutations=n_permutations, rng=rng))
        for rows, block in similarity.blocks():
            gathered.add(rows, block)
        part = permutation_part(
            gathered.sums, statistic=statistic, tolerance=tolerance, alternative="greater"
        )
    z = statistic / sigma
    return OrderTest(
        n_candidate=len(places),
        n_base=n_base,
        rho=statistic / spread,
        z=z,
        log10_p=part.log10_p,
        log10_p_extrapolated=max(log10_normal_tail(z), -log10_factorial(n_base)),
        n_permutations=part.n_permutations,
        seed=seed,
    )
