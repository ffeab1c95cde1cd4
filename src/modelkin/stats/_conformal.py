"""A p-value from a population of controls: it can never be smaller than one over their number plus one."""

from __future__ import annotations

import math
from collections.abc import Sequence


def log10_conformal(score: float, controls: Sequence[float]) -> float:
    """Return log10 of the share of scores, the observed one counted, that are at least as large.

    Valid if under the null hypothesis the observed score is as likely as any other to be the largest. For
    scores of pairs that holds when all models are exchangeable: then every pair of them is as likely as any
    other to be the most alike, though pairs with a common model are not independent.

    >>> round(10 ** log10_conformal(0.9, [0.1, 0.2, 0.05]), 4)
    0.25
    """
    as_large = sum(control >= score for control in controls)
    return math.log10((1 + as_large) / (1 + len(controls)))
