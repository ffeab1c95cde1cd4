"""Units that were cloned in the same groups: a group agrees or disagrees as one.

Networks are widened by cloning units, and a library's default seed chooses the same ones in every model. Two
strangers then agree no more on average, but what a group has in common by chance counts as often as it has
members. Exact tests permute units one by one and take them for independent.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from modelkin.stats import finite_or_zero, log10_normal_tail, of_length_one, row_norms
from modelkin.tensors import Array

from ._result import CLAIMED, Tested

MOST_COMPARED = 256
"""Units of which each is compared with each. What they have in common is carried over to all."""
LARGE = 0.5
"""Size of an effect that groups do not explain: even that of two groups scatters by one over the root of
twice the features."""
TOLERATED = 0.5
"""Excess variance that is ignored. Of strangers without groups it is 0.26 at most (160 units 96 wide), of
units that were all cloned once 1.1 at least."""
FOLLOWING = 2.0
"""Times the squared agreement of units: so much may they be alike in both models because one comes from the
other. Units of relatives are more alike than that after much training; what is left in the zoo, 1.0 at most
in 138 tests of 60 pairs, costs two fifths of z."""
MARGIN = 1.2
"""Times the standard deviation of groups: with noise of half their size it was estimated 17 % too small."""


def given_clones(test: Tested, candidate: Array, base: Array, *, seed: int, chosen_from: int) -> Tested:
    """Let a test claim no more than it would if units that are alike in both models counted as one."""
    if test.z is None or test.log10_p >= CLAIMED or abs(test.effect.value) >= LARGE:
        return test
    sign_free = test.sign_free or "signs" in test.flags
    excess = excess_variance(candidate, base, seed=seed, sign_free=sign_free)
    if excess <= TOLERATED:
        return test
    deflated = abs(test.z) / (MARGIN * math.sqrt(1.0 + excess))
    left = min(0.0, log10_normal_tail(deflated) + math.log10(2.0))
    return test.at_most(left, chosen_from=chosen_from, flag="same-groups", alone="groups-alone")


def excess_variance(candidate: Array, base: Array, *, seed: int, sign_free: bool = False) -> float:
    """Return by how much common groups of units enlarge the variance of their agreement: 0 without any.

    If units of one model were drawn anew, groups and all, the variance of the agreement would be the sum over
    all pairs of units of how much they are alike in one model times how much in the other. Permuting units
    one by one leaves only what each has in common with itself. In a copy the same units are alike as well;
    what follows from the agreement itself is subtracted.

    >>> rng = np.random.default_rng(0)
    >>> groups, one, two = rng.integers(0, 50, 400), *rng.normal(size=(2, 400, 64))
    >>> round(excess_variance(one, two, seed=0), 1), round(excess_variance(one, one, seed=0), 1)
    (0.0, 0.0)
    >>> round(excess_variance(one[groups], two[groups], seed=0))
    8
    """
    n = len(candidate)
    some = np.sort(np.random.default_rng(seed).permutation(n)[:MOST_COMPARED])
    mine, theirs = (_directions(rows[some]) for rows in (candidate, base))
    kernels = [_alike(rows, rows, sign_free=sign_free) for rows in (mine, theirs)]
    own = [np.diag(kernel).copy() for kernel in kernels]
    with_itself = float(own[0] @ own[1])
    if not with_itself > 0.0:
        return 0.0
    agreement = float(np.trace(_alike(mine, theirs, sign_free=sign_free)))
    effect = agreement / math.sqrt(float(own[0].sum()) * float(own[1].sum()))
    for kernel in kernels:
        np.fill_diagonal(kernel, 0.0)
    explained = FOLLOWING * effect**2 * max(float(np.vdot(kernel, kernel)) for kernel in kernels)
    found = (float(np.vdot(*kernels)) - explained) / with_itself
    return max(0.0, found) * (n - 1) / max(1, len(some) - 1)


def _directions(rows: Array) -> Array:
    finite = finite_or_zero(rows).astype(np.float32, copy=False)
    return of_length_one(finite, row_norms(finite))


def _alike(one: Array, two: Array, *, sign_free: bool) -> npt.NDArray[np.float64]:
    """Return how much units are alike, beyond what each has in common with all."""
    products = np.asarray(one @ two.T, np.float64)
    if sign_free:
        products = np.square(products)
    products -= products.mean(axis=0)
    centred: npt.NDArray[np.float64] = products - products.mean(axis=1, keepdims=True)
    return centred
