"""The exact test on an exchangeable axis: whether unit i of one model is unit i of the other.

It knows nothing about models: units are rows of two arrays. Only the caller knows whether an axis is
exchangeable; the guards only catch some of the ways in which that may fail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from modelkin.message import say

from ._guards import order_flags, shift_guard
from ._result import Alternative, AxisTest, Flag, Interval, NotTestable, ShiftGuard
from ._tail_bound import TailBound
from ._tails import log10_factorial, log10_normal_tail
from ._units import Units, paired_units, row_norms
from .matching import BestMatches, log10_matching_bound, order_of_matches
from .ranks import Array
from .shifts import (
    MAX_ENUMERATED_UNITS,
    PermutationPart,
    ShiftSums,
    draw_orders,
    enumerated_part,
    permutation_part,
    tie_tolerance,
)
from .similarity import Similarity

SURE = -6.0
"""log10 p below which it is worth asking in which form units agree."""
N_PARTS = 4
"""Monte Carlo, tail bound, matching, order: what `AxisTest.log10_p` is a Bonferroni combination of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisOptions:
    """How units are compared. All of it is fixed before the data are seen."""

    alternative: Alternative = "two-sided"
    """``two-sided``: a strongly negative value is evidence too, as after a sign flip or rotation of a
    copy."""
    sign_free: bool = False
    """Compare squared cosines, for units whose sign can be flipped without changing the model."""
    rank_normalise: bool = False
    """Replace each feature by the normal quantiles of its ranks over units, against outliers."""
    unit_rows: bool = True
    """Scale units to norm 1, for units whose scale can be changed; off for `joint_features`."""
    whole_effect: bool = False
    """Compute the effect over both arrays as a whole, with units at their own size, for very unequal units.

    The test is the same. If a share c of one array is mixed into another, c is the effect of the whole,
    whatever the sizes of units; the mean over units of norm 1 is another number where they differ."""
    n_permutations: int = 99_999
    """At least this many orders; up to 8 units, all orders."""
    n_bootstrap: int = 1_999
    level: float = 0.99
    """Of the interval of the effect."""

    def __post_init__(self) -> None:
        if self.alternative not in get_args(Alternative):
            raise ValueError(
                f"alternative: expected one of {get_args(Alternative)}, got {self.alternative!r}"
            )
        if self.sign_free and not self.unit_rows:
            raise ValueError("sign_free: expected unit_rows, since squared cosines are of units of norm 1")
        if self.whole_effect and (self.sign_free or self.rank_normalise):
            raise ValueError("whole_effect: expected neither sign_free nor rank_normalise")
        if self.n_permutations < 99 or self.n_bootstrap < 99:
            raise ValueError("n_permutations, n_bootstrap: expected at least 99")
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"level: expected a share between 0 and 1, got {self.level}")


def axis_test(
    *,
    candidate: npt.ArrayLike,
    base: npt.ArrayLike,
    exchangeable: bool,
    seed: int,
    options: AxisOptions | None = None,
) -> AxisTest | NotTestable:
    """Test whether units of two models in the same places belong together.

    Null hypothesis: given one model, every order of the other's units is equally likely. It holds for models
    that were initialised independently, with units drawn alike and trained by rules that treat all units
    alike; one of the two models suffices.

    The statistic is the trace T of the similarity matrix after subtracting its row and column means, which
    removes shared directions and units similar to everything. Over all n! orders T has mean 0 and variance
    ``sum D^2 / (n - 1)``, exactly (Hoeffding). Four valid p-values are derived from it and combined by
    Bonferroni:

    * Monte Carlo: the rank of T among drawn orders;
    * tail bound: an upper bound of the exact p-value, for effects beyond what drawing can resolve;
    * matching: K units whose best match is in their own place, at most 1/K!;
    * order: best matches that come in order, as after pruning.

    Up to 8 units, all orders are counted and the exact p-value stands alone.

    Candidate and base are units by features, equally many units with equal features. `exchangeable` says
    whether the order of units is arbitrary in at least one model: if not (positions, tokens, rotary
    frequencies, layers), there is nothing to test against. The seed, for drawn orders and the bootstrap, is
    kept in the result. `AxisTest.log10_p` is at least log10(1/n!). With fewer than 4 usable units, or units
    that are all equal, the test is not made.

    The effect is ``T / sqrt(sum |a|^2 sum |b|^2)`` over centred units: 0 for chance, 1 for units that are
    equal up to one scale, and for units of norm 1 without a common direction the mean cosine in excess of
    chance. For joint features it is the mean correlation. With `sign_free` it is ``T / n``, the mean squared
    cosine in excess of chance. With `whole_effect` units keep their sizes in it. Its interval is a Bayesian
    bootstrap over units with the centring held fixed; with fewer than about 20 units it is too narrow. Where
    most units surely face each other but many point the other way, a mean over both signs says nothing, and
    the effect counts squared cosines (`up_to_sign`).

    Guards only raise p. If units come sorted by norm in both models, p is 1. If blocks repeat in both, or z
    scatters over cyclic shifts by more than its limit, p is at least the share of shifts that do as well.

    References
    ----------
    Hoeffding, A combinatorial central limit theorem, Annals of Mathematical Statistics 22, 1951.
    Zhu, Ahmed, Kuditipudi and Liang, Independence tests for language models, ICML 2025.
    Rubin, The Bayesian bootstrap, Annals of Statistics 9, 1981.
    """
    if not exchangeable:
        return NotTestable(reason=say("not-exchangeable"))
    chosen = AxisOptions() if options is None else options
    units = paired_units(candidate, base, unit_rows=chosen.unit_rows, rank_normalise=chosen.rank_normalise)
    if isinstance(units, NotTestable):
        return units
    similarity = _similarity(units.candidate, units.base, chosen)
    sigma = _sigma(similarity)
    terms = _Terms.of(similarity, chosen)
    # Rounding alone leaves about 1e-7 of the scale; anything smaller is not variation.
    if not sigma > 1e-7 * terms.scale() / len(units.base):
        return NotTestable(reason=say("equal-units"))
    return _tested(units, similarity, terms, sigma=sigma, seed=seed, options=chosen)


def _tested(
    units: Units, similarity: Similarity, terms: _Terms, *, sigma: float, seed: int, options: AxisOptions
) -> AxisTest:
    n = len(units.base)
    rng = np.random.default_rng(seed)
    statistic = float(terms.diagonal.sum())
    enumerated = n <= MAX_ENUMERATED_UNITS
    n_permutations = 0 if enumerated else options.n_permutations
    sums = ShiftSums(similarity, draw_orders(n, n_permutations=n_permutations, rng=rng))
    matches = BestMatches(n, n, either_sign=_either_sign(options), rng=rng)
    tail = TailBound(similarity, statistic=statistic, sigma=sigma)
    for rows, block in similarity.blocks():
        sums.add(rows, block)
        matches.add(rows, block)
        tail.add(block)

    tolerance = tie_tolerance(similarity, sigma)
    rank = {"statistic": statistic, "tolerance": tolerance}
    if enumerated:
        part = enumerated_part(similarity, **rank, alternative=options.alternative)
    else:
        part = permutation_part(sums.sums, **rank, alternative=options.alternative)
    order = order_of_matches(matches.places, n, n_permutations=options.n_permutations, rng=rng)
    shift = shift_guard(sums.sums[0], statistic=statistic, sigma=sigma, alternative=options.alternative)
    flags = order_flags(units.candidate, units.base, units.candidate_norms, units.base_norms, shift)
    z = statistic / sigma
    z_deflated = z / max(1.0, shift.sd)
    n_matched = matches.n_matched()
    tail_p = _tail_p(tail, z, options.alternative)
    log10_p = _combined(part, [tail_p, log10_matching_bound(n_matched), order.log10_p], flags, shift, n)
    told, scaling = similarity, options
    if options.whole_effect:
        told = _as_large_as_they_are(units)
        terms = _Terms.of(told, scaling)
    interval = _interval(terms, scaling, rng)
    up_to_sign = 0.0 in interval and log10_p < SURE and 2 * n_matched >= n and _either_sign(options)
    if up_to_sign:
        told = Similarity.of_squares(units.candidate, units.base)
        scaling = replace(options, sign_free=True, whole_effect=False)
        terms = _Terms.of(told, scaling)
        interval = _interval(terms, scaling, rng)
    scale = terms.scale()
    return AxisTest(
        n_units=n,
        n_excluded=units.n_excluded,
        n_features=units.base.shape[1],
        statistic=statistic,
        sigma=sigma,
        z=z,
        effect=float(terms.diagonal.sum()) / scale,
        standard_error=_sigma(told) / scale,
        interval=interval,
        up_to_sign=up_to_sign,
        log10_p_monte_carlo=part.log10_p,
        n_permutations=part.n_permutations,
        exact=part.exact,
        log10_p_tail=tail_p,
        n_matched=n_matched,
        log10_p_matching=log10_matching_bound(n_matched),
        order=order,
        log10_p=log10_p,
        log10_p_extrapolated=_extrapolated(z_deflated, n, options.alternative),
        shift=shift,
        z_deflated=z_deflated,
        flags=flags,
        alternative=options.alternative,
        sign_free=options.sign_free,
        rank_normalised=options.rank_normalise,
        seed=seed,
    )


def _similarity(candidate: Array, base: Array, options: AxisOptions) -> Similarity:
    return (Similarity.of_squares if options.sign_free else Similarity.of_products)(candidate, base)


def _either_sign(options: AxisOptions) -> bool:
    return options.alternative == "two-sided" and not options.sign_free


def _sigma(similarity: Similarity) -> float:
    """Return the exact standard deviation of the trace over all orders."""
    return math.sqrt(similarity.squares / (len(similarity.base) - 1))


@dataclass(frozen=True, slots=True, eq=False)
class _Terms:
    """What each unit adds to the effect."""

    diagonal: npt.NDArray[np.float64]
    squares: tuple[npt.NDArray[np.float64], ...]
    """Squared norms of both sides; none if T is divided by the number of units."""

    @classmethod
    def of(cls, similarity: Similarity, options: AxisOptions) -> _Terms:
        sides = () if options.sign_free else (similarity.candidate, similarity.base)
        return cls(similarity.diagonal(), tuple(row_norms(side) ** 2 for side in sides))

    def scale(self) -> float:
        """Return what T is divided by to give the effect."""
        if not self.squares:
            return float(len(self.diagonal))
        mine, theirs = (float(np.sum(side)) for side in self.squares)
        return math.sqrt(mine * theirs)


def _as_large_as_they_are(units: Units) -> Similarity:
    candidate, base = (
        np.asarray(rows * norms[:, None], rows.dtype)
        for rows, norms in ((units.candidate, units.candidate_norms), (units.base, units.base_norms))
    )
    return Similarity.of_products(candidate, base)


def _combined(
    part: PermutationPart, others: list[float], flags: tuple[Flag, ...], shift: ShiftGuard, n_units: int
) -> float:
    """Bonferroni over the parts, then the guards."""
    log10_p = part.log10_p if part.exact else min(part.log10_p, *others) + math.log10(N_PARTS)
    if "sorted" in flags:
        return 0.0
    if flags:
        log10_p = max(log10_p, shift.log10_p)
    return min(0.0, max(log10_p, -log10_factorial(n_units)))


def _tail_p(tail: TailBound, z: float, alternative: Alternative) -> float:
    if alternative == "two-sided":
        return min(0.0, tail.log10_p() + math.log10(2.0))
    return tail.log10_p() if z > 0.0 else 0.0


def _extrapolated(z: float, n_units: int, alternative: Alternative) -> float:
    if alternative == "two-sided":
        log10_p = log10_normal_tail(abs(z)) + math.log10(2.0)
    else:
        log10_p = log10_normal_tail(z)
    return min(0.0, max(log10_p, -log10_factorial(n_units)))


def _interval(terms: _Terms, options: AxisOptions, rng: np.random.Generator) -> Interval:
    """Reweight units by exponential draws; sums of them are bootstrap sums."""
    n = len(terms.diagonal)
    columns = np.column_stack([terms.diagonal, *terms.squares])
    drawn = np.empty((options.n_bootstrap, columns.shape[1]))
    step = max(1, 4_000_000 // n)
    for start in range(0, options.n_bootstrap, step):
        stop = min(start + step, options.n_bootstrap)
        weights = rng.standard_exponential((stop - start, n))
        drawn[start:stop] = (weights @ columns) / weights.sum(axis=1, keepdims=True)
    effects = drawn[:, 0] if options.sign_free else drawn[:, 0] / np.sqrt(drawn[:, 1] * drawn[:, 2])
    outside = (1.0 - options.level) / 2.0
    low, high = np.quantile(effects, [outside, 1.0 - outside])
    return Interval(low=float(low), high=float(high), level=options.level)
