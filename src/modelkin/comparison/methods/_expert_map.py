"""All experts of a layer against all experts of the layer it faces, by the numbering of their units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import final

import numpy as np

from modelkin.architecture import Role
from modelkin.message import Message
from modelkin.stats import cross_z
from modelkin.tensors import Array

from ._interface import Findings, Method, Pair, Planned, Probe, Side
from ._result import Evidence
from ._sketch import RowSource, expert_readers, rows_part
from .axis import unit_evidence
from .tied import is_tied

MOST_EXPERTS = 8
"""Experts of the candidate that are searched for in each layer."""
MOST_UNITS = 32
"""Units read per expert: 32! orders far exceed the correction for all pairs of experts."""
FEWEST_UNITS = 12
"""12! orders are just enough for one test (`LOG10_ALPHA`); with fewer, many pairs could find nothing."""


@final
class ExpertMap(Method):
    """Ask whether an expert of one model is found among those of the other, under any number."""

    def problem(self, pair: Pair) -> Message | None:
        """Say why rows over the residual streams cannot be compared in this frame."""
        return pair.frame_problem()

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Plan a few units of some candidate experts and of all base experts, for each pair of layers."""
        for layer, facing in pair.layer_pairs:
            mine, theirs = _experts(pair.candidate, layer), _experts(pair.base, facing)
            counts = {source.n_units for source in (*mine, *theirs)}
            if mine and theirs and len(counts) == 1 and min(counts) >= FEWEST_UNITS:
                yield self._probe(pair, layer, facing, mine[:MOST_EXPERTS], theirs)

    def _probe(
        self, pair: Pair, layer: int, facing: int, mine: Sequence[RowSource], theirs: Sequence[RowSource]
    ) -> Probe[Findings]:
        count = min(MOST_UNITS, mine[0].n_units)

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Findings:
            tied = [[is_tied(rows) for rows in side] for side in (candidate, base)]
            mapped = [pair.mapped(rows) for rows in candidate]
            scores = np.abs(cross_z(mapped, base))
            scores[np.logical_and.outer(tied[0], tied[1])] = math.nan
            found = [
                self._tested(
                    pair, (layer, facing), (mine[row].expert, theirs), mapped[row], base, scores[row]
                )
                for row in range(len(mine))
                if not np.isnan(scores[row]).all()
            ]
            return Findings(evidence=tuple(found))

        return Probe(
            candidate=tuple(rows_part(pair.candidate, source, count=count) for source in mine),
            base=tuple(rows_part(pair.base, source, count=count) for source in theirs),
            evaluate=evaluate,
        )

    def _tested(
        self,
        pair: Pair,
        layers: tuple[int, int],
        experts: tuple[int | None, Sequence[RowSource]],
        rows: Array,
        base: Sequence[Array],
        scores: Array,
    ) -> Evidence:
        best = int(np.nanargmax(scores))
        n_cells = pair.n_layer_pairs * int(np.count_nonzero(~np.isnan(scores)))
        return unit_evidence(
            self,
            (rows, base[best]),
            seed=pair.seed,
            layers=(layers[0],),
            base_layers=(layers[1],),
            frame=pair.frame_kind,
            role=Role.EXPERT_GATE.value,
            details={
                "expert": experts[0] or 0,
                "base_expert": experts[1][best].expert or 0,
                "cells": n_cells,
            },
            chosen_from=n_cells,
            reordered=experts[0] != experts[1][best].expert,
        )


def _experts(side: Side, layer: int) -> list[RowSource]:
    width = side.architecture.sizes.get("residual")
    return [source for source in expert_readers(side, layer) if source.n_features == width]
