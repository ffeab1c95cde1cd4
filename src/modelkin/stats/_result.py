"""What tests return: small frozen records. A test that cannot be made is a value too, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from modelkin.message import Message

Alternative = Literal["two-sided", "greater"]
Flag = Literal["sorted", "duplicated-blocks", "shift-dispersion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTestable:
    """A test that could not be made. It is evidence neither for nor against anything."""

    reason: Message

    def __str__(self) -> str:
        return f"not testable: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """From `low` to `high`; contains the true value in a share `level` of repetitions."""

    low: float
    high: float
    level: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftGuard:
    """How the statistic scatters when the base's units are shifted cyclically in their stored order."""

    sd: float
    """Standard deviation of z over all shifts except 0; 1 if the order is arbitrary."""
    limit: float
    """Above this `sd` the order is not taken as arbitrary."""
    log10_p: float
    """Share of shifts, including the observed one, that do at least as well. At least log10(1/n)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTest:
    """Whether best matches come in the order of the units; see `order_of_matches`."""

    rho: float
    """Correlation of a candidate unit's place with the place of its best match in the base."""
    z: float
    """Exact mean and variance over all orders of the base's units."""
    log10_p: float
    """Monte-Carlo, one-sided; at least ``-log10(n_permutations + 1)``."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AxisTest:
    """Whether unit i of the candidate faces unit i of the base; see `axis_test`."""

    n_units: int
    n_excluded: int
    """Units left out because they are zero or not finite in one of the models."""
    n_features: int
    statistic: float
    """T, the trace of the double-centred similarity."""
    sigma: float
    """Exact standard deviation of T over all orders; its mean is 0."""
    z: float
    effect: float
    """0 for chance, 1 for identical up to scale; in squared cosines if `sign_free`."""
    standard_error: float
    """Of the effect, under the null: ``effect / z``, unless the effect is that of the whole."""
    interval: Interval
    """Of the effect, by a bootstrap over units."""
    up_to_sign: bool
    """Units agree up to their signs only: effect and interval count squared cosines, as with `sign_free`."""
    log10_p_monte_carlo: float
    """At least ``-log10(n_permutations + 1)``."""
    n_permutations: int
    exact: bool
    """All orders were enumerated, so `log10_p_monte_carlo` has no Monte-Carlo error."""
    log10_p_tail: float
    """Upper bound of the exact permutation p-value, without a floor other than 1/n!."""
    n_matched: int
    """Units whose best match is the unit in the same place."""
    log10_p_matching: float
    """Upper bound: one over the factorial of `n_matched`."""
    order: OrderTest
    log10_p: float
    """The p-value to use. Rigorous: Bonferroni over the parts, and what the guards leave of it."""
    log10_p_extrapolated: float
    """Normal tail of z after the shift guard, at least log10(1/n!). An extrapolation, not a bound."""
    shift: ShiftGuard
    z_deflated: float
    """z divided by the scatter over cyclic shifts, where that exceeds 1."""
    flags: tuple[Flag, ...]
    alternative: Alternative
    sign_free: bool
    rank_normalised: bool
    seed: int

    def __repr__(self) -> str:
        flags = f", flags={list(self.flags)}" if self.flags else ""
        return (
            f"AxisTest(n_units={self.n_units}, z={self.z:.2f}, effect={self.effect:.4g}, "
            f"n_matched={self.n_matched}, log10_p={self.log10_p:.2f}{flags})"
        )
