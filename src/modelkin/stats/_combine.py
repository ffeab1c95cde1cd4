"""Many p-values into one, all as log10 p. Which rule is valid depends on what is known of their dependence.

| rule | valid when |
| --- | --- |
| `fisher`, `stouffer` | the p-values are independent under the null |
| `bonferroni`, `holm` | always |
| `cauchy` | always in the limit of small p; slightly too small near 0.05 under some dependence |
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ._tails import LN10, log10_chi2_tail, log10_normal_tail, log_sum_exp, normal_quantile

Log10P = Sequence[float] | npt.NDArray[np.float64]


def fisher(log10_p: Log10P) -> float:
    """Combine independent p-values by the sum of their logarithms.

    Null hypothesis: every single null hypothesis is true, and the p-values are independent. Discrete or
    conservative p-values keep it valid. Floor: none of its own; m p-values at a floor of f give about
    ``f**m`` times a polynomial. One p-value is returned as it is; none is an error.

    References
    ----------
    Fisher, Statistical Methods for Research Workers, 4th edition, 1932, section 21.1.
    """
    logs = _checked(log10_p)
    return log10_chi2_tail(-2.0 * LN10 * float(logs.sum()), half_dof=len(logs))


def stouffer(log10_p: Log10P, *, weights: Sequence[float] | None = None) -> float:
    """Combine independent one-sided p-values by the sum of their normal quantiles.

    Null hypothesis: every single null hypothesis is true, and the p-values are independent. It is best
    at many weak effects in one direction. Weights must be fixed before the data are seen. Floor: none of its
    own. One p-value is returned as it is; none is an error.

    References
    ----------
    Stouffer et al., The American Soldier, volume 1, 1949, page 45. Liptak, 1958, for the weights.
    """
    logs = _checked(log10_p)
    w = np.ones(len(logs)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != logs.shape or not (np.isfinite(w).all() and (w >= 0).all() and w.any()):
        raise ValueError(f"weights: expected {len(logs)} numbers >= 0, not all 0, got {weights}")
    z = np.array([normal_quantile(value) for value in logs])
    return log10_normal_tail(float(w @ z) / math.sqrt(float(w @ w)))


def cauchy(log10_p: Log10P) -> float:
    """Combine p-values of unknown dependence by the mean of Cauchy quantiles.

    Null hypothesis: every single null hypothesis is true. Approximate: exact for independent p-values and for
    identical ones, and correct in the limit of small p for many kinds of dependence; use `bonferroni` where a
    guarantee is needed. Floor: about the smallest p-value. None is an error.

    References
    ----------
    Liu and Xie, Cauchy combination test, Journal of the American Statistical Association 115, 2020.
    """
    logs = _checked(log10_p)
    # tan(pi (1/2 - p)) = cot(pi p); below 1e-8 it is 1 / (pi p) to double precision, kept as a logarithm.
    small = logs < -8.0
    plain = 10.0 ** logs[~small]
    # cot near p = 1 goes to minus infinity; the largest p below 1 keeps it finite.
    rest = float(np.sum(1.0 / np.tan(np.pi * np.minimum(plain, 1.0 - 2.0**-53))))
    if not small.any():
        return math.log10(max(0.5 - math.atan(rest / len(logs)) / math.pi, 2.0**-53))
    large = log_sum_exp(-logs[small] * LN10 - math.log(math.pi))
    # If p-values near 1 outweigh the small ones, the sum is no longer large: take the plain formula.
    if rest < 0.0 and math.log(-rest) >= large - 1.0:
        return math.log10(0.5 - math.atan((math.exp(large) + rest) / len(logs)) / math.pi)
    total = large + math.log1p(rest * math.exp(-large))
    return min(0.0, (math.log(len(logs)) - math.log(math.pi) - total) / LN10)


def bonferroni(log10_p: Log10P, *, n_tests: int | None = None) -> float:
    """Combine p-values of any dependence: the smallest, times how many there are.

    Null hypothesis: every single null hypothesis is true. Floor: `n_tests` times the floor of the smallest.

    Parameters
    ----------
    log10_p
        The p-values that were looked at.
    n_tests
        How many could have been looked at, if more; fixed before the data are seen.
    """
    logs = _checked(log10_p)
    count = len(logs) if n_tests is None else n_tests
    if count < len(logs):
        raise ValueError(f"n_tests: expected at least {len(logs)}, the number of p-values, got {count}")
    return min(0.0, float(logs.min()) + math.log10(count))


def holm(log10_p: Log10P) -> npt.NDArray[np.float64]:
    """Adjust p-values of any dependence so that each can be compared with alpha itself.

    Null hypothesis: one for each p-value; the chance of rejecting any true one at level alpha is at most
    alpha, whichever are true. Floor: the smallest p-value times their number. In the order of the input.

    References
    ----------
    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979.
    """
    logs = _checked(log10_p)
    order = np.argsort(logs, kind="stable")
    stepped = logs[order] + np.log10(np.arange(len(logs), 0, -1))
    adjusted = np.empty_like(logs)
    adjusted[order] = np.minimum(0.0, np.maximum.accumulate(stepped))
    return adjusted


def _checked(log10_p: Log10P) -> npt.NDArray[np.float64]:
    logs = np.asarray(log10_p, dtype=np.float64)
    if logs.ndim != 1 or not len(logs):
        raise ValueError(f"log10_p: expected a list of at least one number, got shape {logs.shape}")
    if not (np.isfinite(logs).all() and (logs <= 0.0).all()):
        raise ValueError("log10_p: expected finite numbers of at most 0")
    return logs
