"""Weights that are zero in the same places: a common mask is part of a recipe, not shared weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, say
from modelkin.stats import NotTestable, cross_z, finite_or_zero, swap_test
from modelkin.tensors import Array

from ._result import Tested

Places = npt.NDArray[np.bool_]

FEWEST_ZEROS = 0.05
"""Share of zeros in both models from which their places are examined. With fewer, they explain too little
of any agreement: at one zero in twenty the squared cosine of equal places is larger by a twentieth."""
SOFT_ZEROS = 0.2
"""The same for values that are nearly zero, as some codes leave masked ones; among unmasked weights one in
twenty-five is that small."""
SMALL = 0.05
"""Of the root mean square of the matrix: what counts as nearly zero."""
SAME_PLACES_Z = 5.0
"""z from which places of zeros agree unit by unit. If they do not, a mask explains nothing."""
FEWEST_PAIRS = 21
"""Of units that exchange their values. With fewer, even the best of all exchanges has a p above that of a
finding: such a test could only ever say that it found nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonZeros:
    """What is left of the agreement of units, given the places of zeros."""

    log10_p: float


def common_zeros(
    candidate: Array, base: Array, *, seed: int, sign_free: bool
) -> CommonZeros | Message | None:
    """Test units given the zeros that both models have in the same places.

    None if they have none: then zeros explain nothing. A message if nothing is left to test.
    """
    places = [zeros_of(rows) for rows in (candidate, base)]
    if places[0] is None or places[1] is None:
        return None
    mine, theirs = places[0], places[1]
    if not _in_the_same_places(mine, theirs):
        return None
    found = swap_test(
        candidate=candidate, base=base, support=~(mine | theirs), seed=seed, sign_free=sign_free
    )
    if isinstance(found, NotTestable):
        return say("same-zeros-alone", reason=found.reason)
    if found.n_pairs < FEWEST_PAIRS:
        return say("same-zeros-alone", reason=say("few-common-places", n=found.n_pairs, m=FEWEST_PAIRS))
    return CommonZeros(log10_p=found.log10_p)


def given_zeros(test: Tested, zeros: CommonZeros, *, chosen_from: int) -> Tested:
    """Let a test claim no more than what is left given the places of zeros."""
    return test.at_most(zeros.log10_p, chosen_from=chosen_from, flag="same-zeros", alone="zeros-alone")


def zeros_of(rows: Array) -> Places | None:
    """Say where a model has zeros, if it has many; None if not."""
    finite = finite_or_zero(rows)
    exact = finite == 0.0
    if np.count_nonzero(exact) / exact.size >= FEWEST_ZEROS:
        return np.asarray(exact)
    # One limit for the whole matrix: exchanging two values above it leaves both above it.
    limit = SMALL * math.sqrt(float(np.mean(np.square(finite, dtype=np.float64))))
    small = np.abs(finite) < limit
    return np.asarray(small) if np.count_nonzero(small) / small.size >= SOFT_ZEROS else None


def _in_the_same_places(mine: Places, theirs: Places) -> bool:
    """Say whether zeros agree unit by unit. Zeros that are alike in all units distinguish none."""
    z = cross_z([mine.astype(np.float32)], [theirs.astype(np.float32)])[0, 0]
    return bool(z > SAME_PLACES_Z)
