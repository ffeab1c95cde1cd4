"""Whether two matrices of a layer lead to the same matches: an agreement whose chance is seen on controls.

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

from ._interface import Findings, Pair, Plan, Probe, Side
from ._result import Agreement, Effect, Evidence, Skipped
from ._sketch import Source, frame_problem, source_of
from .tied import TIED, is_tied
from .unit_matching import MOST_UNITS, TOO_LARGE, Matching, joined, mapped, parts

FEWEST_UNITS = 16
"""Units of which an agreement is measured; of fewer, a few accidents make a large share."""


@final
class UnitAgreement(Matching):
    """Ask whether two matrices of a layer lead to the same matches; the answer is measured on controls."""

    def plan(self, pair: Pair) -> Plan:
        """Plan two matrices of each pair of layers: some units of the candidate, all units of the base."""
        problem = frame_problem(pair)
        if problem is not None:
            return Plan(skipped=(self._skipped(pair, problem),))
        probes: list[Probe[Findings]] = []
        skipped: list[Skipped] = []
        for layer, facing, mine, theirs in self._layers(pair):
            partners = _partners(pair.candidate, layer, mine), _partners(pair.base, facing, theirs)
            if len(partners[0]) != len(mine) or len(partners[1]) != len(theirs):
                skipped.append(self._skipped(pair, say("no-second-matrix"), layer))
            elif self._too_large(pair, theirs):
                skipped.append(self._skipped(pair, TOO_LARGE, layer))
            else:
                probes.append(self._probe(pair, (layer, facing), (mine, theirs), partners))
        return Plan(probes=tuple(probes), skipped=tuple(skipped))

    def _probe(
        self,
        pair: Pair,
        layers: tuple[int, int],
        first: tuple[Sequence[Source], Sequence[Source]],
        second: tuple[Sequence[Source], Sequence[Source]],
    ) -> Probe[Findings]:
        gated = second[0][0].entry.role in (Role.MLP_UP, Role.EXPERT_UP)

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Findings:
            mine, theirs = _halves(candidate), _halves(base)
            mine = mine[0], _own_part(mine[1], mine[0])
            if is_tied(mine[0]) and is_tied(theirs[0]):
                return Findings(evidence=(self._skipped(pair, TIED, layers[0]),))
            # Two seeds: a tie must not be broken alike in both.
            one = match_units(mapped(pair, mine[0]), theirs[0], seed=pair.seed)
            two = match_units(
                mapped(pair, mine[1]), _own_part(theirs[1], theirs[0]), seed=pair.seed + 1, sign_free=gated
            )
            return Findings(evidence=(self._judged(pair, layers, first[0][0], one, two),))

        return Probe(
            candidate=(
                *parts(pair.candidate, first[0], most=MOST_UNITS),
                *parts(pair.candidate, second[0], most=MOST_UNITS),
            ),
            base=(*parts(pair.base, first[1]), *parts(pair.base, second[1])),
            evaluate=evaluate,
        )

    def _judged(
        self, pair: Pair, layers: tuple[int, int], source: Source, one: UnitMatch, two: UnitMatch
    ) -> Evidence:
        share, n = agreement(one, two), int(np.count_nonzero(one.usable & two.usable))
        if share is None or n < FEWEST_UNITS:
            return self._skipped(pair, say("few-nonzero", n=n), layers[0])
        error = 2.58 * float(np.sqrt(max(share * (1 - share), 1.0 / n) / n))
        return Agreement(
            method=self.card.name,
            version=self.card.version,
            component="experts" if source.expert is not None else self.card.component,
            axis=self.card.axis,
            role=source.entry.role.value,
            layers=(layers[0],),
            base_layers=(layers[1],),
            frame=pair.frame_kind,
            null=self.card.null,
            statistic=share,
            effect=Effect(value=share, low=max(0.0, share - error), high=min(1.0, share + error)),
            n=n,
            details={"agreement": share, "median_cosine": float(np.median(one.cosines[one.usable]))},
        )


def _own_part(second: Array, first: Array) -> Array:
    """Take off what a unit's second row has of its first.

    Where the two rows of a unit are alike, in one model as in the other, both lead to the same matches
    whatever the models are.
    """
    squares = np.einsum("ij,ij->i", first, first)
    along = np.einsum("ij,ij->i", second, first) / np.where(squares > 0, squares, 1.0)
    return np.asarray(second - along[:, None] * first, dtype=np.float32)


def _halves(parts: Sequence[Array]) -> tuple[Array, Array]:
    """Return the first rows of all units, and their second rows."""
    half = len(parts) // 2
    return joined(parts[:half]), joined(parts[half:])


def _partners(side: Side, layer: int, readers: Sequence[Source]) -> tuple[Source, ...]:
    """Return the second matrix over the same units: up beside a gate, down beside a plain up."""
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
