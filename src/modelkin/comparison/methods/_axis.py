"""The test on an axis as methods use it: guarded, with one number of permutations, dressed as evidence."""

from __future__ import annotations

import math

import numpy as np

from modelkin.message import say
from modelkin.stats import (
    AxisOptions,
    AxisTest,
    DetectionLimit,
    NotTestable,
    axis_test,
    detection_limit,
)
from modelkin.tensors import Array

from ._interface import Method
from ._repeats import stands_alone
from ._result import Details, Effect, Skipped, Tested
from ._tied import TIED, is_tied

N_PERMUTATIONS = 9_999
"""Drawn orders of each test. Below p = 10^-4 the rigorous tail bound takes over, so ten times as many would
take four times as long and change no verdict."""

N_CHOSEN = 999
"""Drawn orders of a test that was picked from many: corrected for these, a rank can decide nothing, and only
the bounds can."""

FEWEST_ALONE = 4

LOG10_ALPHA = -8.0
"""What one test must reach for a verdict: 10^-6, corrected for a hundred tests, components and stages."""


def _signed_root(value: float) -> float:
    return math.copysign(math.sqrt(abs(value)), value)


def as_evidence(
    method: Method,
    result: AxisTest | NotTestable,
    *,
    layers: tuple[int, ...] = (),
    role: str | None = None,
    details: Details | None = None,
    chosen_from: int = 1,
    reordered: bool = False,
) -> Tested | Skipped:
    """Dress a result with what the method knows about it.

    Parameters
    ----------
    chosen_from
        Number of tests that this one was picked from; p-values are corrected for it (Bonferroni).
    reordered
        Whether the units that face each other have other numbers.
    """
    if isinstance(result, NotTestable):
        return method.skip(result.reason, layers=layers, role=role)
    price = math.log10(chosen_from)
    alpha = LOG10_ALPHA - price
    limit = None
    if result.standard_error > 0:
        limit = detection_limit(
            n_units=result.n_units, standard_error=result.standard_error, log10_alpha=alpha
        )
    # Squared cosines become cosines again, so that effects and limits of all tests have one unit.
    scale = _signed_root if result.sign_free else float
    card = method.card
    return Tested(
        method=card.name,
        version=card.version,
        component=card.component,
        axis=card.axis,
        role=role,
        layers=layers,
        null=card.null,
        statistic=result.statistic,
        z=result.z,
        log10_p=min(0.0, result.log10_p + price),
        log10_p_extrapolated=min(0.0, result.log10_p_extrapolated + price),
        effect=Effect(
            value=scale(result.effect),
            low=scale(result.interval.low),
            high=scale(result.interval.high),
            level=result.interval.level,
        ),
        n=result.n_units,
        n_features=result.n_features,
        n_matched=result.n_matched,
        detection_limit=scale(limit.effect) if isinstance(limit, DetectionLimit) else None,
        sign_free=result.sign_free,
        reordered=reordered,
        flags=result.flags,
        details=details or {},
    )


def unit_evidence(
    method: Method,
    rows: tuple[Array, Array],
    *,
    seed: int,
    sign_free: bool = False,
    layers: tuple[int, ...] = (),
    role: str | None = None,
    details: Details | None = None,
    chosen_from: int = 1,
    reordered: bool = False,
) -> Tested | Skipped:
    """Test the numbering of units, one row a unit, candidate and base.

    The caller has refused axes whose order is fixed. Units that are tied to coordinates in both models are
    refused here, for every method alike, and units that stand in one model several times are left out.
    """
    if is_tied(rows[0]) and is_tied(rows[1]):
        return method.skip(TIED, layers=layers, role=role)
    alone = stands_alone(rows[0]) & stands_alone(rows[1])
    if np.count_nonzero(alone) < FEWEST_ALONE:
        return method.skip(say("repeated-units"), layers=layers, role=role)
    result = axis_test(
        candidate=rows[0][alone],
        base=rows[1][alone],
        exchangeable=True,
        seed=seed,
        options=AxisOptions(
            sign_free=sign_free, n_permutations=N_PERMUTATIONS if chosen_from == 1 else N_CHOSEN
        ),
    )
    return as_evidence(
        method,
        result,
        layers=layers,
        role=role,
        details=details,
        chosen_from=chosen_from,
        reordered=reordered,
    )
