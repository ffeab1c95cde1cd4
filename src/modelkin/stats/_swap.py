"""The test given a common support: whether units of the same number agree where they have values at all.

Where two models were trained under one mask of zeros, the places of the zeros are part of the recipe, and the
order of units is not arbitrary: unit i has the same pattern in both. What stays arbitrary is which of two
units holds which values where both may have any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.message import say

from ._golden import golden_section
from ._result import NotTestable
from ._tails import LN10
from ._units import finite_or_zero, of_length_one, row_norms
from .ranks import Array

MIN_PAIRS = 4
"""With fewer pairs of units even the best of all exchanges has p = 1/8."""
# On one place a cosine is a sign.
_FEWEST_PLACES = 2
# Units among which partners are sought: the table of overlaps has this many rows and columns.
_MOST_TOGETHER = 2048
# Values of a block of pairs that are held at once: 16 MiB in single precision, four times over.
_BLOCK_ELEMENTS = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapTest:
    """Whether values belong to their units, given where values may be; see `swap_test`."""

    n_pairs: int
    effect: float
    """Mean cosine in excess of that with the partner's values, at places that both have."""
    own_effects: tuple[float, float]
    """The same of each model with itself: what equal models would reach."""
    log10_p: float
    """Rigorous upper bound, two-sided; at least ``log10(2) * (1 - n_pairs)``."""


def swap_test(
    *,
    candidate: Array,
    base: Array,
    support: npt.NDArray[np.bool_],
    seed: int,
    sign_free: bool = False,
) -> SwapTest | NotTestable:
    """Test units of the same number on a common support, by exchanging values between pairs of units.

    Null hypothesis: given the support, either of two units is as likely to hold the values that the base has
    in them, at the places where both units have values in both models. It holds for models that were trained
    independently under one mask, whatever the mask is. Units are paired by their supports alone, those first
    that have many places in common; units of equal pattern are exchanged as a whole.

    The statistic is the sum over pairs of ``cos(a, b) + cos(a', b') - cos(a, b') - cos(a', b)``, weighted by
    the number of places. An exchange flips the sign of a pair's term and changes nothing else, so T is a sum
    of fixed numbers with random signs, and p is bounded by Chernoff's inequality. Floor: 2 ** (1 - pairs).

    `support`, of the shape of both matrices (units by features), says where values are compared. It may be
    derived from the values themselves, as long as exchanging two values that both count does not change it.
    Values that are not finite count as zero. The seed is that of the order in which units look for partners.
    If `sign_free`, squared cosines are compared.
    """
    if candidate.shape != base.shape or candidate.shape != support.shape:
        raise ValueError(
            f"base, support: expected shape {candidate.shape}, got {base.shape}, {support.shape}"
        )
    candidate, base = finite_or_zero(candidate), finite_or_zero(base)
    pairs = _partners(support, np.random.default_rng(seed))
    n_blocks = max(1, math.ceil(len(pairs) * support.shape[1] / _BLOCK_ELEMENTS))
    terms = np.concatenate(
        [
            _terms(candidate, base, support, block, sign_free=sign_free)
            for block in np.array_split(pairs, n_blocks)
        ]
    )
    between, *own, places = np.ascontiguousarray(terms[terms[:, -1] >= _FEWEST_PLACES].T)
    if len(places) < MIN_PAIRS:
        return NotTestable(reason=say("few-common-places", n=len(places), m=MIN_PAIRS))
    effect, mine, theirs = (float(places @ turned / places.sum()) / 2.0 for turned in (between, *own))
    return SwapTest(
        n_pairs=len(places),
        effect=effect,
        own_effects=(mine, theirs),
        log10_p=log10_sign_bound(places * between),
    )


def log10_sign_bound(terms: npt.NDArray[np.float64]) -> float:
    """Bound the chance that these numbers with random signs sum to at least as far from zero.

    ``P(|sum e_i w_i| >= t) <= 2 exp(-h t) prod cosh(h w_i)`` for every h > 0; the best one is sought.
    """
    total, scale = abs(float(terms.sum())), float(np.sqrt(np.mean(terms**2)))
    if total <= 0.0 or scale <= 0.0:
        return 0.0
    sizes = np.abs(terms) / scale

    def height(log_exponent: float) -> float:
        reach = math.exp(log_exponent) * sizes
        log_cosh = reach + np.log1p(np.exp(-2.0 * reach)) - math.log(2.0)
        return float(log_cosh.sum()) - math.exp(log_exponent) * total / scale

    _, lowest = golden_section(height, math.log(1e-4), math.log(1e4), steps=40)
    return min(0.0, (lowest + math.log(2.0)) / LN10)


def _partners(support: npt.NDArray[np.bool_], rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Pair units that have many places in common; nothing but the support is looked at."""
    order = rng.permutation(len(support))
    found: list[tuple[int, int]] = []
    for start in range(0, len(order), _MOST_TOGETHER):
        members = order[start : start + _MOST_TOGETHER]
        places = support[members].astype(np.float32)
        overlap = places @ places.T
        np.fill_diagonal(overlap, -1.0)
        free = np.ones(len(members), np.bool_)
        for number in range(len(members)):
            if not free[number]:
                continue
            free[number] = False
            if not free.any():
                break
            partner = int(np.argmax(np.where(free, overlap[number], -1.0)))
            free[partner] = False
            found.append((int(members[number]), int(members[partner])))
    return np.array(found, dtype=np.intp).reshape(-1, 2)


def _terms(
    candidate: Array,
    base: Array,
    support: npt.NDArray[np.bool_],
    pairs: npt.NDArray[np.intp],
    *,
    sign_free: bool,
) -> npt.NDArray[np.float64]:
    """Return for each pair the term that an exchange negates, between the models and within each of them.

    The last column is the number of places that they rest on.
    """
    both = support[pairs[:, 0]] & support[pairs[:, 1]]
    mine, theirs = (
        [of_length_one(rows, row_norms(rows)) for rows in (values[pairs[:, side]] * both for side in (0, 1))]
        for values in (candidate, base)
    )

    def cosine(one: Array, two: Array) -> npt.NDArray[np.float64]:
        found = np.einsum("ij,ij->i", one, two).astype(np.float64)
        return np.asarray(found**2 if sign_free else found, dtype=np.float64)

    def turned(one: list[Array], two: list[Array]) -> npt.NDArray[np.float64]:
        across = cosine(one[0], two[1])
        back = across if one is two else cosine(one[1], two[0])
        return np.asarray(cosine(one[0], two[0]) + cosine(one[1], two[1]) - across - back)

    sides = (turned(mine, theirs), turned(mine, mine), turned(theirs, theirs))
    return np.column_stack([*sides, both.sum(axis=1)])
