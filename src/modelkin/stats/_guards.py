"""Signs that an axis is not exchangeable after all. A guard can only raise a p-value."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ._result import Alternative, Flag, ShiftGuard
from .ranks import Array, spearman

# Sorted norms: a rank correlation with position that is both significant and large, in both models.
_SORTED_RHO, _SORTED_Z = 0.5, 5.0
# Scatter over shifts is 1 under the null, +- about 1/sqrt(2 n): the limits as a value and in errors. Equal
# models have the same value at shifts k and -k, so half as many independent ones, and an error of 1/sqrt(n).
# With four of the smaller errors 2 % of copies of 96 gains in arbitrary order were called ordered, with four
# of their own 0.5 %. For strangers the error stays the smaller one: with the larger, strangers of 96 units
# whose neighbours are a little alike would be recognised in 31 % of the draws, not in 59 %.
_DISPERSION, _DISPERSION_ERRORS = 1.3, 4.0
# Half of a model's own similarity returns at a shift of one if each unit appears twice; a little less
# than that, so that the guard does not depend on chance there.
_REPEATED = 0.4
# Number of features searched for repeats; a repeat shows in all of them.
_REPEAT_FEATURES = 256


def shift_guard(
    shifted: npt.NDArray[np.float64], *, statistic: float, sigma: float, alternative: Alternative
) -> ShiftGuard:
    """Compare the statistic with itself under cyclic shifts of the stored order.

    Null hypothesis: shifting the base's units cyclically changes nothing; weaker than exchangeability, and
    still true for blocks of units that were initialised alike. Floor of p: 1/n. With few units the limit of
    the scatter is wider.

    `shifted` is the statistic at shifts 0, 1, ..., n - 1; the first is the observed one.
    """
    n = len(shifted)
    others = shifted[1:] / sigma
    tolerance = 1e-5 * sigma
    if alternative == "greater":
        count = np.count_nonzero(shifted[1:] >= statistic - tolerance)
    else:
        count = np.count_nonzero(np.abs(shifted[1:]) >= abs(statistic) - tolerance)
    return ShiftGuard(
        # About 0, not about their own mean: a common offset of all shifts is scatter too.
        sd=math.sqrt(float(np.mean(others**2))),
        limit=max(
            _DISPERSION, 1.0 + _DISPERSION_ERRORS * math.sqrt((1.0 + _mirrored(others) ** 2) / (2.0 * n))
        ),
        log10_p=math.log10((1 + int(count)) / n),
    )


def _mirrored(others: npt.NDArray[np.float64]) -> float:
    """Return how much values at opposite shifts are the same: about 0 for strangers, 1 for equal models."""
    squares = float(np.dot(others, others))
    return max(0.0, float(np.dot(others, others[::-1])) / squares) if squares > 0.0 else 0.0


def order_flags(
    candidate: Array, base: Array, candidate_norms: Array, base_norms: Array, shift: ShiftGuard
) -> tuple[Flag, ...]:
    """Name the signs that the order of units is not arbitrary.

    One exchangeable model is enough for the test, so a sign must show in both.
    """
    flags: list[Flag] = []
    if is_sorted(candidate_norms) and is_sorted(base_norms):
        flags.append("sorted")
    if min(repeat_strength(candidate), repeat_strength(base)) > _REPEATED:
        flags.append("duplicated-blocks")
    if shift.sd > shift.limit:
        flags.append("shift-dispersion")
    return tuple(flags)


def is_sorted(norms: Array) -> bool:
    """Say whether units are sorted by norm, ascending or descending."""
    rho = abs(spearman(norms, np.arange(len(norms), dtype=np.float64)))
    return rho >= _SORTED_RHO and rho * math.sqrt(len(norms) - 1) >= _SORTED_Z


def repeat_strength(rows: Array) -> float:
    """Return how much of a model's own similarity comes back at a shift: about 0, or 1 for a repeat."""
    step = max(1, rows.shape[1] // _REPEAT_FEATURES)
    features = np.asarray(rows[:, ::step].T, dtype=np.float64)
    features = features - features.mean(axis=1, keepdims=True)
    power = np.sum(np.abs(np.fft.rfft(features, axis=1)) ** 2, axis=0)
    returns = np.fft.irfft(power, len(rows))
    return float(returns[1:].max() / returns[0]) if returns[0] > 0.0 else 0.0
