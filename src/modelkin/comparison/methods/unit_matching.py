"""Units that were reordered, thinned out or copied: each is looked for among all units of the other layer.

Matching is a search, and searches find something in strangers too. Two tests pay for it in two ways:

* `MlpMatching` matches units on one half of the residual dimensions and tests the order of the other half,
  which the search has not seen. Exact where the residual stream itself was left as it is.
* `MlpOrder` asks whether the matches come in rising order, as after pruning. Exact in any coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role
from modelkin.comparison.alignment import UnitMatch, match_units
from modelkin.message import Message, say
from modelkin.stats import is_sorted, log10_increasing_bound, longest_increasing
from modelkin.tensors import Array

from ._interface import Findings, Method, Pair, Part, Plan, Probe, Side
from ._norm_profile import residual_problem
from ._result import Effect, Evidence, Skipped, Tested
from ._sketch import Source, frame_problem, mlp_reader, rows_part, source_of
from .axis import unit_evidence
from .tied import TIED, is_tied

MOST_UNITS = 512
"""Units of the candidate that are looked for in each layer."""
FOUND_COSINE = 0.5
"""A unit counts as found again if its match is this similar on dimensions that the search has not seen."""
FOUND_SHARE = 0.2
"""Share of units that must be found again before a layer is said to be the same. A layer that was trained
anew between layers that were kept agrees with the old one in some directions, but not unit by unit."""
TOO_LARGE = say("layer-large")
_SHARE = 0.25
"""Part of the byte allowance for one role of one layer of the base."""
_FEWEST_OF_BASE = 0.4
"""Share of the base's units that must be read: no more of the candidate's can be found again, and this is
twice as many as `FOUND_SHARE` asks for."""


class Matching(Method):
    """Common part: which units of the candidate are looked for, and among which of the base."""

    def _layers(self, pair: Pair) -> Iterator[tuple[int, int, tuple[Source, ...], tuple[Source, ...]]]:
        for layer, facing in pair.layer_pairs:
            mine, theirs = _all_readers(pair.candidate, layer), _all_readers(pair.base, facing)
            if mine and theirs:
                yield layer, facing, _some(mine, seed=pair.seed), theirs

    def _too_large(self, pair: Pair, sources: Sequence[Source]) -> bool:
        return sum(source.cost(source.n_units) for source in sources) > _SHARE * pair.byte_allowance

    def _n_read(self, pair: Pair, sources: Sequence[Source]) -> int | None:
        """Return how many units of each matrix of the base can be read; None if they are too few."""
        whole = sum(source.cost(source.n_units) for source in sources)
        share = min(1.0, _SHARE * pair.byte_allowance / max(1, whole))
        if share < _FEWEST_OF_BASE or (share < 1.0 and any(source.along_columns for source in sources)):
            return None
        return int(share * max(source.n_units for source in sources))

    def _skipped(self, pair: Pair, reason: Message, layer: int | None = None) -> Skipped:
        return self.skip(reason, layers=() if layer is None else (layer,), frame=pair.frame_kind)


class _HalfMatching(Matching):
    """Match rows on one half of the residual dimensions and test the order of the other half."""

    def plan(self, pair: Pair) -> Plan:
        """Plan some units of the candidate and all units of the base, for each pair of layers."""
        problem = residual_problem(pair)
        if problem is not None:
            return Plan(skipped=(self._skipped(pair, problem),))
        probes: list[Probe[Findings]] = []
        skipped: list[Skipped] = []
        for layer, facing, mine, theirs in self._layers(pair):
            n_read = self._n_read(pair, theirs)
            if n_read is None:
                skipped.append(self._skipped(pair, TOO_LARGE, layer))
            else:
                probes.append(self._probe(pair, (layer, facing), mine, theirs, n_read))
        return Plan(probes=tuple(probes), skipped=tuple(skipped))

    def _probe(
        self,
        pair: Pair,
        layers: tuple[int, int],
        mine: Sequence[Source],
        theirs: Sequence[Source],
        n_read: int,
    ) -> Probe[Findings]:
        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Findings:
            return Findings(evidence=(self._judged(pair, layers, mine[0], joined(candidate), joined(base)),))

        return Probe(
            candidate=parts(pair.candidate, mine, most=MOST_UNITS),
            base=parts(pair.base, theirs, most=n_read),
            evaluate=evaluate,
        )

    def _judged(
        self, pair: Pair, layers: tuple[int, int], source: Source, candidate: Array, base: Array
    ) -> Evidence:
        order = np.random.default_rng([pair.seed, 29]).permutation(candidate.shape[1])
        seen, kept = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
        match = match_units(candidate[:, seen], base[:, seen], seed=pair.seed)
        component = "experts" if source.expert is not None else self.card.component
        if not match.usable.any():
            return replace(self._skipped(pair, say("units-zero"), layers[0]), component=component)
        places = match.places[match.usable]
        mine, theirs = candidate[match.usable][:, kept], base[places][:, kept]
        found = float(np.mean(_row_cosines(mine, theirs) > FOUND_COSINE))
        if found < FOUND_SHARE:
            reason = say("units-found", share=found)
            return replace(self._skipped(pair, reason, layers[0]), component=component)
        tested = unit_evidence(
            self,
            (mine.T, theirs.T),
            seed=pair.seed,
            layers=(layers[0],),
            role=source.entry.role.value,
            details={
                "units": len(places),
                "base_units": len(base),
                "units_found": found,
                "distinct_matches": len(set(places.tolist())),
                "cells": pair.n_layer_pairs,
            },
            chosen_from=pair.n_layer_pairs,
            reordered=not in_order(places),
        )
        return replace(tested, base_layers=(layers[1],), component=component)


@final
class MlpMatching(_HalfMatching):
    """Ask whether units found on one half of the dimensions are the same on the other half."""


@final
class RouterMatching(_HalfMatching):
    """Ask the same of the rows of a router: experts in another order take their rows along."""

    def _layers(self, pair: Pair) -> Iterator[tuple[int, int, tuple[Source, ...], tuple[Source, ...]]]:
        for layer, facing in pair.layer_pairs:
            mine = source_of(pair.candidate, Role.ROUTER, "experts", layer)
            theirs = source_of(pair.base, Role.ROUTER, "experts", facing)
            if mine is not None and theirs is not None:
                yield layer, facing, (mine,), (theirs,)


@final
class MlpOrder(Matching):
    """Ask whether the best matches of units come in rising order, as after pruning."""

    def plan(self, pair: Pair) -> Plan:
        """Plan some units of the candidate and all units of the base, where their numbers differ."""
        problem = frame_problem(pair)
        if problem is not None:
            return Plan(skipped=(self._skipped(pair, problem),))
        probes: list[Probe[Findings]] = []
        skipped: list[Skipped] = []
        for layer, facing, mine, theirs in self._layers(pair):
            if mine[0].n_units == theirs[0].n_units or len(mine) > 1 or len(theirs) > 1:
                continue
            n_read = self._n_read(pair, theirs)
            if n_read is None:
                skipped.append(self._skipped(pair, TOO_LARGE, layer))
            else:
                probes.append(self._probe(pair, (layer, facing), mine, theirs, n_read))
        return Plan(probes=tuple(probes), skipped=tuple(skipped))

    def _probe(
        self,
        pair: Pair,
        layers: tuple[int, int],
        mine: Sequence[Source],
        theirs: Sequence[Source],
        n_read: int,
    ) -> Probe[Findings]:
        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Findings:
            problem = _fixed_order(candidate[0], base[0])
            if problem is not None:
                return Findings(evidence=(self._skipped(pair, problem, layers[0]),))
            match = match_units(mapped(pair, candidate[0]), base[0], seed=pair.seed)
            return Findings(evidence=(self._judged(pair, layers, mine[0], match, len(base[0])),))

        return Probe(
            candidate=parts(pair.candidate, mine, most=MOST_UNITS),
            base=parts(pair.base, theirs, most=n_read),
            evaluate=evaluate,
        )

    def _judged(
        self, pair: Pair, layers: tuple[int, int], source: Source, match: UnitMatch, n_base: int
    ) -> Evidence:
        places = match.places[match.usable].tolist()
        n, rising = len(places), longest_increasing(places)
        expected = 2.0 * np.sqrt(min(n, n_base))
        share = max(0.0, (rising - expected) / max(1.0, n - expected))
        return Tested(
            method=self.card.name,
            version=self.card.version,
            component=self.card.component,
            axis=self.card.axis,
            role=source.entry.role.value,
            layers=(layers[0],),
            base_layers=(layers[1],),
            frame=pair.frame_kind,
            null=self.card.null,
            statistic=float(rising),
            log10_p=log10_increasing_bound(n, rising),
            effect=Effect(value=share, low=share, high=share),
            n=n,
            n_matched=rising if share > 0.1 else 0,
            details={"units_in_order": rising, "expected_of_strangers": float(expected)},
        )


def in_order(places: npt.NDArray[np.intp]) -> bool:
    """Say whether most matches come in rising order."""
    return longest_increasing(places.tolist()) > len(places) / 2


def _fixed_order(candidate: Array, base: Array) -> Message | None:
    """Say why the order of units means something in both models, by what they hold."""
    if is_tied(candidate) and is_tied(base):
        return TIED
    if all(is_sorted(np.linalg.norm(rows, axis=1)) for rows in (candidate, base)):
        return say("norm-order")
    return None


def joined(parts: Sequence[Array]) -> Array:
    """Return all units in one array, without a copy where they are in one already."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def mapped(pair: Pair, rows: Array) -> Array:
    """Return rows of the candidate in the coordinates of the base."""
    return rows if pair.frame is None else pair.frame.apply(rows)


def parts(side: Side, sources: Sequence[Source], *, most: int | None = None) -> tuple[Part, ...]:
    """Plan the units of several matrices, or the first of each."""
    return tuple(
        rows_part(side, source, count=source.n_units if most is None else min(most, source.n_units))
        for source in sources
    )


def _all_readers(side: Side, layer: int) -> tuple[Source, ...]:
    """Return the reader of a dense MLP, or those of all experts."""
    first = mlp_reader(side, layer)
    if first is None or first.expert is None:
        return () if first is None else (first,)
    numbers = side.architecture.experts_of(layer, Role.EXPERT_GATE)
    found = [source_of(side, Role.EXPERT_GATE, "expert_mlp", layer, expert=number) for number in numbers]
    return tuple(source for source in found if source is not None)


def _some(readers: tuple[Source, ...], *, seed: int) -> tuple[Source, ...]:
    """Choose experts until they have units enough; a dense MLP is one reader and stays."""
    turned = [readers[(seed + number) % len(readers)] for number in range(len(readers))]
    wanted = max(1, MOST_UNITS // max(1, turned[0].n_units))
    return tuple(turned[:wanted])


def _row_cosines(mine: Array, theirs: Array) -> Array:
    norms = np.linalg.norm(mine, axis=1) * np.linalg.norm(theirs, axis=1)
    return np.asarray(np.einsum("ij,ij->i", mine, theirs) / np.where(norms > 0, norms, 1.0))
