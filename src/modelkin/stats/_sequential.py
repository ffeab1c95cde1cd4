"""Looking in stages and stopping when it is enough, without paying for it in false alarms.

The rule of modelkin is the fixed plan, `StagePlan`: it needs no assumption about how stages depend on each
other. E-values are the alternative for an open number of stages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ._combine import Log10P


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """Shares of the error, one for each stage, fixed before anything is read.

    Null hypothesis: every stage's null hypothesis is true. After any stage, and whatever made one stop there,
    the smallest ``p_k / share_k`` so far is a p-value: for it to be at most alpha some stage must have
    ``p_k <= alpha * share_k``, and the chances of these events add up to at most alpha. Stages may depend on
    each other in any way. Floor: the smallest ``floor_k / share_k``. A stage that was not reached, or could
    not be tested, costs its share.

    References
    ----------
    Bonferroni's inequality with unequal shares; Lan and DeMets, Discrete sequential boundaries for clinical
    trials, Biometrika 70, 1983, for spending an error over looks.
    """

    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        shares = self.shares
        if not shares or min(shares) <= 0.0 or math.fsum(shares) > 1.0 + 1e-12:
            raise ValueError(f"shares: expected positive numbers of sum at most 1, got {shares}")

    @classmethod
    def equal(cls, n_stages: int) -> StagePlan:
        """Give each stage the same share."""
        if n_stages < 1:
            raise ValueError(f"n_stages: expected at least 1, got {n_stages}")
        return cls(shares=(1.0 / n_stages,) * n_stages)

    def adjusted(self, log10_p: float, *, stage: int) -> float:
        """Return one stage's log10 p, to be compared with log10 alpha itself. Stages count from 0."""
        if not 0 <= stage < len(self.shares):
            raise ValueError(f"stage: expected 0 to {len(self.shares) - 1}, got {stage}")
        return min(0.0, log10_p - math.log10(self.shares[stage]))

    def running(self, log10_p: Sequence[float | None]) -> float:
        """Return log10 p of all stages so far; None stands for a stage that could not be tested."""
        if len(log10_p) > len(self.shares):
            raise ValueError(f"log10_p: expected at most {len(self.shares)} stages, got {len(log10_p)}")
        made = [self.adjusted(p, stage=k) for k, p in enumerate(log10_p) if p is not None]
        # The shares already are Bonferroni's weights: the smallest is taken as it is.
        return min(made, default=0.0)


def log10_e_value(log10_p: float) -> float:
    """Turn a p-value into an e-value: ``p**(-1/2) / 2``.

    An e-value has a mean of at most 1 under the null: the integral of ``p**(-1/2) / 2`` over a uniform p is
    1, and a p-value that is larger than uniform only lowers it. By Markov's inequality 1/e is a p-value
    again. A p of 1e-12 becomes an e of 5e5, so that most of the evidence of a single small p is lost.

    References
    ----------
    Vovk and Wang, E-values: calibration, combination and applications, Annals of Statistics 49, 2021.
    """
    if not -math.inf < log10_p <= 0.0:
        raise ValueError(f"log10_p: expected a finite number of at most 0, got {log10_p}")
    return -0.5 * log10_p - math.log10(2.0)


def e_value_p(log10_e: Log10P, *, dependence: Literal["independent", "any"]) -> float:
    """Combine the e-values of stages so far into log10 of a p-value that holds at any time of stopping.

    Null hypothesis: every stage's null hypothesis is true. Floor: none of its own. Independent stages, or
    stages valid given all earlier ones: their running product is a supermartingale of mean at most 1, and by
    Ville's inequality one over its largest value so far is a p-value, whenever one stops. Of any dependence:
    the mean over a number of stages fixed beforehand is an e-value; give e-values of 1 (log10 0) to stages
    not reached.
    """
    logs = np.asarray(log10_e, dtype=np.float64)
    if logs.ndim != 1 or not len(logs) or np.isnan(logs).any():
        raise ValueError("log10_e: expected a list of at least one number")
    if dependence == "independent":
        return min(0.0, -float(np.cumsum(logs).max()))
    top = float(logs.max())
    return min(0.0, -(top + math.log10(float(np.mean(10.0 ** (logs - top))))))
