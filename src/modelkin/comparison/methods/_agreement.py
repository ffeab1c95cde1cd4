"""Whether two matrices of a layer lead to the same matches: an agreement calibrated on controls.

Strangers agree a little, because models learn some of the same features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from modelkin.architecture import Role
from modelkin.comparison.alignment import UnitMatch, agreement, match_units
from modelkin.message import say
from modelkin.tensors import Array

from ._interface import Findings, Pair, Probe, Side
from ._result import Agreement, Effect, Evidence, Skipped
from ._sketch import RowSource, source_of
from .tied import TIED, is_tied
from .unit_matching import MOST_UNITS, SHARE, TOO_LARGE, Matching, cost, joined, parts

FEWEST_UNITS = 16
"""Fewest units for an agreement: with fewer, a few coincidences make a large share."""
_STRIPE = 1024
"""Rows processed at once: 32 MB of the widest streams."""


@final
class UnitAgreement(Matching):
    """Ask whether two matrices of a layer lead to the same matches; the answer is calibrated on controls."""

    def _probe(
        self, pair: Pair, layers: tuple[int, int], mine: Sequence[RowSource], theirs: Sequence[RowSource]
    ) -> Probe[Findings] | Skipped:
        partners = _partners(pair.candidate, layers[0], mine), _partners(pair.base, layers[1], theirs)
        if len(partners[0]) != len(mine) or len(partners[1]) != len(theirs):
            return self._skipped(pair, say("no-second-matrix"), layers[0])
        if cost(theirs) > SHARE * pair.byte_allowance:
            return self._skipped(pair, TOO_LARGE, layers[0])
        gated = partners[0][0].entry.role in (Role.MLP_UP, Role.EXPERT_UP)

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Findings:
            left, right = _halves(candidate), _halves(base)
            if is_tied(left[0]) and is_tied(right[0]):
                return Findings(evidence=(self._skipped(pair, TIED, layers[0]),))
            # Two seeds: a tie must not be broken alike in both.
            one = match_units(pair.mapped(left[0]), right[0], seed=pair.seed)
            two = match_units(pair.mapped(left[1]), right[1], seed=pair.seed + 1, sign_free=gated)
            return Findings(evidence=(self._judged(pair, layers, mine[0], one, two),))

        return Probe(
            candidate=parts(pair.candidate, (*mine, *partners[0]), most=MOST_UNITS),
            base=parts(pair.base, (*theirs, *partners[1])),
            evaluate=evaluate,
        )

    def _judged(
        self, pair: Pair, layers: tuple[int, int], source: RowSource, one: UnitMatch, two: UnitMatch
    ) -> Evidence:
        share, n = agreement(one, two), int(np.count_nonzero(one.usable & two.usable))
        if share is None or n < FEWEST_UNITS:
            return self._skipped(pair, say("few-nonzero", n=n), layers[0])
        error = 2.58 * float(np.sqrt(max(share * (1 - share), 1.0 / n) / n))
        return Agreement(
            **self.heading(
                component="experts" if source.expert is not None else self.card.component,
                role=source.entry.role.value,
                layers=(layers[0],),
                base_layers=(layers[1],),
                frame=pair.frame_kind,
            ),
            statistic=share,
            effect=Effect(value=share, low=max(0.0, share - error), high=min(1.0, share + error)),
            n=n,
            details={"agreement": share, "median_cosine": float(np.median(one.cosines[one.usable]))},
        )


def _own_part(second: Array, first: Array) -> Array:
    """Subtract from a unit's second row its projection on the first.

    If the two rows of a unit are alike in either model, both lead to the same matches whatever the models
    are.
    """
    own = second if second.flags.writeable else second.copy()
    # Rows were read only for this, and are changed in place: copies of them and of what is subtracted
    # would be the peak memory of a deep comparison.
    for start in range(0, len(own), _STRIPE):
        mine, other = own[start : start + _STRIPE], first[start : start + _STRIPE]
        squares = np.einsum("ij,ij->i", other, other)
        along = np.einsum("ij,ij->i", mine, other) / np.where(squares > 0, squares, 1.0)
        mine -= along[:, None] * other
    return own


def _halves(parts: Sequence[Array]) -> tuple[Array, Array]:
    """Return the first rows of all units, and their second rows without the projection on these."""
    half = len(parts) // 2
    first = joined(parts[:half])
    return first, _own_part(joined(parts[half:]), first)


def _partners(side: Side, layer: int, readers: Sequence[RowSource]) -> tuple[RowSource, ...]:
    """Return the second matrix over the same units: up for a gate, down for a plain up."""
    second = {
        Role.MLP_GATE: Role.MLP_UP,
        Role.MLP_UP: Role.MLP_DOWN,
        Role.EXPERT_GATE: Role.EXPERT_UP,
    }
    found = [
        source_of(side, second[reader.entry.role], reader.space, layer, expert=reader.expert)
        for reader in readers
    ]
    return tuple(source for source in found if source is not None)
