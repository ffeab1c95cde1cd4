"""Best matches: how many are in their own place, and whether they come in order."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ._result import OrderTest
from ._tails import log10_factorial
from .ranks import Array
from .shifts import (
    MAX_ENUMERATED_UNITS,
    ShiftSums,
    draw_orders,
    enumerated_part,
    permutation_part,
    tie_tolerance,
)
from .similarity import Similarity


class BestMatches:
    """The base unit most similar to each candidate unit, gathered block by block.

    Ties go to a place drawn beforehand, not to the first: a rule that prefers low places would see an order
    where there is none.
    """

    def __init__(self, n_candidate: int, n_base: int, *, either_sign: bool, rng: np.random.Generator) -> None:
        self.places = np.zeros(n_candidate, dtype=np.intp)
        self._either_sign = either_sign
        self._order = rng.permutation(n_base)

    def add(self, rows: slice, block: Array) -> None:
        """Add whole rows of the similarity."""
        shuffled = np.take(block, self._order, axis=1)
        if self._either_sign:
            np.abs(shuffled, out=shuffled)
        self.places[rows] = self._order[shuffled.argmax(axis=1)]

    def n_matched(self) -> int:
        """Units whose best match has their own place."""
        return int(np.count_nonzero(self.places == np.arange(len(self.places))))


def log10_matching_bound(n_matched: int) -> float:
    """Bound the chance that this many best matches fall into their own places.

    Null hypothesis: the order of the base's units is arbitrary. Whatever the similarities are, k given units
    all meet their own place with probability at most (n - k)!/n!, and there are n!/(k! (n - k)!) ways to
    choose them: together 1/k!. Floor: 1/n!. With no match or one the bound is 1.
    """
    return -log10_factorial(n_matched)


def order_of_matches(
    places: npt.NDArray[np.intp], n_base: int, *, n_permutations: int, rng: np.random.Generator
) -> OrderTest:
    """Test whether the places of best matches rise with the place of the unit that found them.

    Null hypothesis: the order of the base's units is arbitrary. The sum of (unit's place) x (match's place)
    is linear in the base's order, so its mean and variance over all orders are exact, even with hubs that
    several units choose. Floor of p: one over the number of permutations plus one. If all units choose one
    match, nothing can be said and p is 1.
    """
    at = np.arange(len(places), dtype=np.float64)
    pull = np.bincount(places, weights=at - at.mean(), minlength=n_base).astype(np.float64)
    # In random order: ascending places shifted by one would still ascend, and spoil the comparison.
    mixed = rng.permutation(n_base)
    similarity = Similarity.of_products(pull[mixed, None], mixed[:, None].astype(np.float64))
    statistic = float(similarity.diagonal().sum())
    sigma = math.sqrt(similarity.squares / (n_base - 1))
    spread = float(np.std(at) * np.std(places)) * len(at)
    if sigma <= 0.0 or spread <= 0.0:
        return OrderTest(rho=0.0, z=0.0, log10_p=0.0)
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
    return OrderTest(rho=statistic / spread, z=statistic / sigma, log10_p=part.log10_p)


def longest_increasing(places: Sequence[int]) -> int:
    """Return the length of the longest strictly increasing subsequence.

    >>> longest_increasing([3, 1, 2, 2, 5, 4])
    3
    """
    tails: list[int] = []
    for place in places:
        at = bisect_left(tails, place)
        tails[at : at + 1] = [place]
    return len(tails)


def log10_increasing_bound(n: int, length: int) -> float:
    """Return an upper bound of log10 P(the longest increasing subsequence of n places has this length).

    For order that survives pruning, without draws. Where every order of the base's units is equally likely,
    any given set of `length` places that are all different rises with probability ``1 / length!``; there are
    ``n choose length`` of them (Markov's inequality for their number). Places that repeat can only lower it.
    """
    if not 0 <= length <= n:
        raise ValueError(f"length: expected 0 to {n}, got {length}")
    choices = log10_factorial(n) - log10_factorial(length) - log10_factorial(n - length)
    return min(0.0, choices - log10_factorial(length))
