"""Weights of the same sizes in the same places: sizes may come from a recipe, signs do not.

A common mask whose zeros were filled by a code, an update or noise, or a public table of scales, makes units
of the same number alike in size. Two independently trained models still have their own signs.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from modelkin.stats import finite_or_zero, log10_sign_bound
from modelkin.tensors import Array

from ._result import Tested

_LN10 = math.log(10.0)  # p-values are told as powers of ten
WORTH_ASKING = -3.0
"""Above this log10 p a test claims nothing, and there is nothing to bound."""
ENOUGH = -12.0
"""Below this log10 p every rule is satisfied, and a sharper bound would only cost more."""


def given_sizes(test: Tested, candidate: Array, base: Array, *, chosen_from: int) -> Tested:
    """Let a test claim no more than the signs of weights do, given all their sizes."""
    if test.log10_p >= WORTH_ASKING:
        return test
    left = min(0.0, log10_p_of_signs(candidate, base) + math.log10(chosen_from))
    if left <= test.log10_p:
        return test
    flags = (*test.flags, "sizes-alone") if left > WORTH_ASKING else test.flags
    return replace(test, log10_p=left, log10_p_extrapolated=None, flags=flags)


def log10_p_of_signs(candidate: Array, base: Array) -> float:
    """Bound the chance that two matrices agree this much if each sign of one were random.

    Two statistics, each with a rigorous bound over independent signs, and a factor of two for the choice. The
    sum of all products is a sum of fixed numbers with random signs (Hoeffding; Chernoff, which is never
    above it, where a few large weights make it weak). For units whose own sign is free, the squared sum of
    each unit over its variance has moments that a squared normal bounds, so that their sum is bounded as
    chi-square is (Chernoff).

    >>> rows = np.random.default_rng(0).normal(size=(32, 64))
    >>> log10_p_of_signs(rows, rows) < -50
    True
    >>> log10_p_of_signs(rows, np.abs(rows) * np.random.default_rng(1).choice([-1, 1], size=rows.shape)) > -2
    True
    """
    mine, theirs = (_scaled(rows) for rows in (candidate, base))
    products = mine * theirs
    sums = products.sum(axis=1, dtype=np.float64)
    variances = np.square(products).sum(axis=1, dtype=np.float64)
    alive = variances > 0.0
    if not alive.any():
        return 0.0
    sums, variances = sums[alive], variances[alive]
    signed = -(float(sums.sum()) ** 2) / float(variances.sum()) / 2.0 + math.log(2.0)
    n = len(sums)
    ratio = float(np.sum(np.square(sums) / variances)) / n
    unsigned = -n / 2.0 * (ratio - 1.0 - math.log(ratio)) if ratio > 1.0 else 0.0
    best = min(signed, unsigned) / _LN10
    if best > ENOUGH:
        best = min(best, log10_sign_bound(products.ravel().astype(np.float64)))
    return min(0.0, best + math.log10(2.0))


def _scaled(rows: Array) -> Array:
    """Return finite values of about one: products of very small ones would vanish."""
    finite = finite_or_zero(rows).astype(np.float32, copy=False)
    largest = float(np.abs(finite).max(initial=0.0))
    return finite if largest == 0.0 else finite / np.float32(largest)
