"""P-values of several tests, and p-values of ranks among controls; all as log10 p."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def bonferroni(log10_p: Sequence[float]) -> float:
    """Combine p-values under any dependence: the smallest, times their number.

    Null hypothesis: every single null hypothesis is true. Floor: that of the smallest, times their number.
    """
    logs = np.asarray(log10_p, dtype=np.float64)
    if logs.ndim != 1 or not len(logs):
        raise ValueError(f"log10_p: expected a list of at least one number, got shape {logs.shape}")
    if not (np.isfinite(logs).all() and (logs <= 0.0).all()):
        raise ValueError("log10_p: expected finite numbers of at most 0")
    return min(0.0, float(logs.min()) + math.log10(len(logs)))


def joint_z(scores: Sequence[float]) -> float:
    """Return the z of independent z scores together: their sum over the root of their number; 0 of none."""
    return math.fsum(scores) / math.sqrt(len(scores)) if scores else 0.0


def log10_conformal(score: float, controls: Sequence[float]) -> float:
    """Return log10 of the share of scores, including the observed one, that are at least as large.

    It can never be smaller than one over the number of controls plus one. Valid if under the null hypothesis
    the observed score is as likely as any other to be the largest. For scores of pairs that holds when all
    models are exchangeable: then every pair of them is as likely as any other to be the most alike, though
    pairs with a common model are not independent.

    >>> round(10 ** log10_conformal(0.9, [0.1, 0.2, 0.05]), 4)
    0.25
    """
    as_large = sum(control >= score for control in controls)
    return math.log10((1 + as_large) / (1 + len(controls)))
