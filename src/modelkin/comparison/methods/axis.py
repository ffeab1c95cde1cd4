"""The test on an axis as methods use it: guarded, with one number of permutations, wrapped as evidence."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Unpack

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, say
from modelkin.stats import (
    AxisOptions,
    AxisTest,
    DetectionLimit,
    NotTestable,
    axis_test,
    detection_limit,
    row_norms,
)
from modelkin.tensors import Array

from ._interface import Method
from ._result import (
    CLAIMED,
    FEW_ORDERS,
    LOG10_ALPHA,
    ORDERED,
    SINGLE_LAYER,
    Details,
    Effect,
    Skipped,
    Tested,
    Where,
)
from .beginnings import (
    OtherLayers,
    beside_beginning,
    common_beginning,
    common_up_to_sign,
    is_single,
)
from .clones import given_clones
from .sizes import given_sizes
from .small_places import given_small_places
from .tied import TIED, is_tied
from .zeros import common_zeros, given_zeros

N_PERMUTATIONS = 9_999
"""Drawn orders of each test. Below p = 10^-4 the rigorous tail bound takes over, so ten times as many would
take four times as long and change no verdict."""

N_CHOSEN = 999
"""Drawn orders of a test that was picked from many: after that correction a rank can decide nothing, only the
bounds can."""

FEWEST_ALONE = 4
"""As many as the test on an axis needs (`MIN_UNITS`)."""
SAME = 1e-4
"""Distance below which two directions are the same; rounding leaves less, training far more."""


def _signed_root(value: float) -> float:
    return math.copysign(math.sqrt(abs(value)), value)


def as_evidence(
    method: Method,
    result: AxisTest | NotTestable,
    *,
    details: Details | None = None,
    chosen_from: int = 1,
    reordered: bool = False,
    **where: Unpack[Where],
) -> Tested | Skipped:
    """Wrap a result with what the method knows about it.

    The test was picked from `chosen_from` tests, and p-values are corrected for that (Bonferroni). If
    `reordered`, units that face each other have different numbers.
    """
    if isinstance(result, NotTestable):
        return method.skip(result.reason, **where)
    price = math.log10(chosen_from)
    alpha = LOG10_ALPHA - price
    limit = None
    if result.standard_error > 0 and not ORDERED & {*result.flags}:  # else nothing can be found at any size
        limit = detection_limit(
            n_units=result.n_units, standard_error=result.standard_error, log10_alpha=alpha
        )
    flags = [*result.flags, *(["signs"] if result.up_to_sign else [])]
    if isinstance(limit, NotTestable):
        flags.append(FEW_ORDERS)
    # Squared cosines become cosines again, so that all effects and limits are in one unit.
    scale = _signed_root if result.sign_free or result.up_to_sign else float
    return Tested(
        **method.heading(**where),
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
        flags=tuple(flags),
        details=details or {},
    )


def unit_evidence(
    method: Method,
    rows: tuple[Array, Array],
    *,
    seed: int,
    sign_free: bool = False,
    whole_effect: bool = False,
    details: Details | None = None,
    chosen_from: int = 1,
    reordered: bool = False,
    others: OtherLayers | None = None,
    updates: bool = False,
    **where: Unpack[Where],
) -> Tested | Skipped:
    """Test the numbering of units, one row per unit, candidate and base.

    The caller has refused axes whose order is fixed. Units that are tied to coordinates in both models are
    refused here, for every method alike, and units that appear several times in one model are left out. If
    both models have zeros or sizes in the same places, or an initialisation common to all layers, the test
    claims no more than what is left beyond these.

    `others` are the same units in layers that do not face each other, if they were read. `updates` are
    changes of weights: of low rank, so that many units are alike in them without having been cloned.
    """
    if is_tied(rows[0]) and is_tied(rows[1]):
        return method.skip(TIED, **where)
    options = AxisOptions(
        sign_free=sign_free,
        whole_effect=whole_effect,
        n_permutations=N_PERMUTATIONS if chosen_from == 1 else N_CHOSEN,
    )
    alone = stands_alone(rows[0]) & stands_alone(rows[1])
    if np.count_nonzero(alone) < FEWEST_ALONE:
        return method.skip(say("repeated-units"), **where)
    candidate, base = rows[0][alone], rows[1][alone]
    result = axis_test(candidate=candidate, base=base, exchangeable=True, seed=seed, options=options)
    test = as_evidence(method, result, details=details, chosen_from=chosen_from, reordered=reordered, **where)
    zeros = common_zeros(candidate, base, seed=seed, sign_free=sign_free)
    if isinstance(zeros, Message):
        return method.skip(zeros, **where)
    if isinstance(test, Tested) and zeros is not None:
        test = given_zeros(test, zeros, chosen_from=chosen_from)
    if isinstance(test, Tested):
        test = given_sizes(test, candidate, base, chosen_from=chosen_from)
        test = given_small_places(test, candidate, base, seed=seed, chosen_from=chosen_from)
        if not updates:
            test = given_clones(test, candidate, base, seed=seed, chosen_from=chosen_from)
    beginning = None if others is None else common_beginning(rows, others)
    if isinstance(test, Tested) and test.log10_p < CLAIMED and others is not None:
        beginning = common_up_to_sign(rows, others, beside=beginning) or beginning
        if is_single(rows, others):
            test = replace(test, flags=(*test.flags, SINGLE_LAYER))
    if isinstance(test, Tested) and beginning is not None:
        test = beside_beginning(test, beginning, chosen_from=chosen_from)
    return test


def stands_alone(rows: Array) -> npt.NDArray[np.bool_]:
    """Say for each unit whether no other unit of the same model has its direction.

    Some codes decode padding zeros to one and the same small vector. Two strangers that were padded in the
    same places agree there, all at once. Which units are left out depends on each model alone, so the order
    of the others stays arbitrary.

    Units that are zero or NaN count as alone: the test leaves them out itself.

    >>> stands_alone(np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 4.0], [0.0, 0.0], [0.0, 0.0]])).tolist()
    [False, True, False, True, True]
    """
    values = np.asarray(rows, rows.dtype if rows.dtype == np.float32 else np.float64)
    norms = row_norms(values)
    usable = np.flatnonzero((norms > 0.0) & np.isfinite(norms))
    alone = np.ones(len(values), np.bool_)
    if values.shape[1] < 2 or len(usable) < 2:
        return alone
    # Equal directions are neighbours when sorted along any line; others only rarely, by chance.
    # Along a second one, few of those are near as well.
    lines = np.random.default_rng(0).standard_normal((2, values.shape[1])).astype(values.dtype)
    along, across = ((values @ line)[usable] / norms[usable] for line in lines)
    order = np.argsort(along, kind="stable")
    first, second = 1.01 * SAME * np.linalg.norm(lines, axis=1)  # no further than the units are
    near = (np.diff(along[order]) <= first) & (np.abs(np.diff(across[order])) <= second)
    for at in np.flatnonzero(near):
        one, two = (values[number] / norms[number] for number in usable[order[at : at + 2]])
        near[at] = np.linalg.norm(one - two) < SAME
    repeated = np.concatenate([near, [False]]) | np.concatenate([[False], near])
    alone[usable[order[repeated]]] = False
    return alone
