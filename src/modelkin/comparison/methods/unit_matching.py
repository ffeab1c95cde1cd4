"""Units that were reordered, pruned or copied: each is searched for among all units of the other layer.

Matching is a search, and searches find something in strangers too. Two tests account for it in two ways:

* `MlpMatching` matches units on one half of the residual dimensions and tests the order of the other half,
  which the search has not seen. Exact if the residual stream itself is unchanged.
* `MlpOrder` asks whether the matches are in ascending order, as after pruning. Exact in any coordinates.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role
from modelkin.comparison.alignment import UnitMatch, match_units
from modelkin.message import Message, say
from modelkin.stats import binomial_limit, is_sorted, log10_increasing_bound, longest_increasing
from modelkin.tensors import Array

from ._interface import Findings, Method, Pair, Part, Planned, Probe, Side
from ._result import LEVEL, Effect, Evidence, Skipped, Tested, Where
from ._sketch import RowSource, expert_readers, mlp_reader, rows_part, source_of
from .axis import unit_evidence
from .beginnings import BEGUN_ALIKE
from .tied import TIED, is_tied
from .zeros import zeros_of

MOST_UNITS = 512
"""Units of the candidate that are searched for in each layer."""
ZEROS_LOG10_P = -3.0
"""log10 p from which the order of zeros alone makes an order of units meaningless."""
FOUND_COSINE = 0.5
"""A unit counts as found again if its match is this similar on dimensions that the search has not seen, where
other units of the base are not. Where they are, as units that read the same few directions, the match must be
nearer by the same share: at a cosine of 0.75 where the next unit has 0.5."""
FOUND_SHARE = 0.2
"""Share of units that must be found again before a layer is said to be the same. A layer that was trained
anew between layers that were kept agrees with the old one in some directions, but not unit by unit."""
_IN_ORDER = 0.1
"""Share of units in rising order, beyond what strangers have, from which they are counted as matched. It is
only shown: the p-value is that of the run itself. A smaller share is not worth a number beside it."""
TOO_LARGE = say("layer-large")
SHARE = 0.25
"""Share of the byte allowance for one role of one layer of the base."""
_FEWEST_OF_BASE = 0.4
"""Share of the base's units that must be read: no more of the candidate's can be found again, and this is
twice as many as `FOUND_SHARE` requires."""


Facing = tuple[tuple[int, int], Sequence[RowSource], Sequence[RowSource]]
"""A layer of the candidate and one of the base, with the matrices of both whose rows are units."""


class Matching(Method):
    """Shared base: which units of the candidate are searched for, and among which of the base."""

    def problem(self, pair: Pair) -> Message | None:
        """Say why rows over the residual streams cannot be compared in this frame."""
        return pair.frame_problem()

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Plan some units of the candidate and all units of the base, for each pair of layers."""
        return [self._probe(pair, *facing) for facing in self._layers(pair)]

    def _layers(self, pair: Pair) -> Iterator[Facing]:
        for layers in pair.layer_pairs:
            mine, theirs = (_all_readers(*of) for of in zip(pair.sides, layers, strict=True))
            if mine and theirs:
                yield layers, _some(mine, seed=pair.seed), theirs

    @abstractmethod
    def _probe(
        self, pair: Pair, layers: tuple[int, int], mine: Sequence[RowSource], theirs: Sequence[RowSource]
    ) -> Probe[Findings] | Skipped: ...

    def _skipped(self, pair: Pair, reason: Message, layer: int) -> Skipped:
        return self.skip(reason, layers=(layer,), frame=pair.frame_kind)


class _Search(Matching):
    """Look for units among those of the base that can be read."""

    def _probe(
        self, pair: Pair, layers: tuple[int, int], mine: Sequence[RowSource], theirs: Sequence[RowSource]
    ) -> Probe[Findings] | Skipped:
        n_read = _n_read(pair, theirs)
        if n_read is None:
            return self._skipped(pair, TOO_LARGE, layers[0])

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Findings:
            return Findings(evidence=(self._judged(pair, layers, mine[0], candidate, base),))

        return Probe(
            candidate=parts(pair.candidate, mine, most=MOST_UNITS),
            base=parts(pair.base, theirs, most=n_read),
            evaluate=evaluate,
        )

    @abstractmethod
    def _judged(
        self,
        pair: Pair,
        layers: tuple[int, int],
        source: RowSource,
        mine: Sequence[Array],
        theirs: Sequence[Array],
    ) -> Evidence: ...


class _HalfMatching(_Search):
    """Match rows on one half of the residual dimensions and test the order of the other half."""

    def problem(self, pair: Pair) -> Message | None:
        """Say why the residual streams cannot be compared dimension by dimension."""
        return pair.residual_problem()

    def _judged(
        self,
        pair: Pair,
        layers: tuple[int, int],
        source: RowSource,
        mine: Sequence[Array],
        theirs: Sequence[Array],
    ) -> Evidence:
        candidate, base = joined(mine), joined(theirs)
        component = "experts" if source.expert is not None else self.card.component
        where = Where(component=component, layers=(layers[0],), frame=pair.frame_kind)
        if (component, layers[0]) in pair.begun_alike:
            return self.skip(BEGUN_ALIKE, **where)
        order = np.random.default_rng([pair.seed, 29]).permutation(candidate.shape[1])
        seen, kept = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
        match = match_units(candidate[:, seen], base[:, seen], seed=pair.seed)
        if not match.usable.any():
            return self.skip(say("units-zero"), **where)
        places = match.places[match.usable]
        halves = candidate[match.usable][:, kept], base[places][:, kept]
        others = match_units(candidate[match.usable][:, seen], base[:, seen], seed=pair.seed, besides=places)
        rivals = np.where(others.usable[:, None], base[others.places][:, kept], 0.0)
        found = float(np.mean(_found_again(halves, rivals)))
        if found < FOUND_SHARE:
            return self.skip(say("units-found", share=found), **where)
        return unit_evidence(
            self,
            (halves[0].T, halves[1].T),
            seed=pair.seed,
            component=component,
            role=source.entry.role.value,
            layers=(layers[0],),
            base_layers=(layers[1],),
            frame=pair.frame_kind,
            details={
                "units": len(places),
                "base_units": len(base),
                "units_found": found,
                "distinct_matches": len(set(places.tolist())),
                "cells": pair.n_layer_pairs,
            },
            chosen_from=pair.n_layer_pairs,
            reordered=not _units_in_order(match, mine, theirs),
        )


@final
class MlpMatching(_HalfMatching):
    """Ask whether units found on one half of the dimensions are the same on the other half."""


@final
class RouterMatching(_HalfMatching):
    """Ask the same of the rows of a router: reordered experts take their rows along."""

    def _layers(self, pair: Pair) -> Iterator[Facing]:
        for layers in pair.layer_pairs:
            mine = source_of(pair.candidate, Role.ROUTER, "experts", layers[0])
            theirs = source_of(pair.base, Role.ROUTER, "experts", layers[1])
            if mine is not None and theirs is not None:
                yield layers, (mine,), (theirs,)


@final
class MlpOrder(_Search):
    """Ask whether the best matches of units are in ascending order, as after pruning."""

    def _layers(self, pair: Pair) -> Iterator[Facing]:
        for layers, mine, theirs in super()._layers(pair):
            if len(mine) == len(theirs) == 1 and mine[0].n_units != theirs[0].n_units:
                yield layers, mine, theirs

    def _judged(
        self,
        pair: Pair,
        layers: tuple[int, int],
        source: RowSource,
        mine: Sequence[Array],
        theirs: Sequence[Array],
    ) -> Evidence:
        candidate, base = joined(mine), joined(theirs)
        problem = _fixed_order(candidate, base)
        if problem is not None:
            return self._skipped(pair, problem, layers[0])
        match = match_units(pair.mapped(candidate), base, seed=pair.seed)
        places = match.places[match.usable].tolist()
        n, rising = len(places), longest_increasing(places)
        expected = 2.0 * np.sqrt(min(n, len(base)))
        free = max(1.0, n - expected)
        share = max(0.0, (rising - expected) / free)
        return Tested(
            **self.heading(
                role=source.entry.role.value,
                layers=(layers[0],),
                base_layers=(layers[1],),
                frame=pair.frame_kind,
            ),
            statistic=float(rising),
            log10_p=log10_increasing_bound(n, rising),
            effect=_share_of(round(free), share),
            n=n,
            n_matched=rising if share > _IN_ORDER else 0,
            details={"units_in_order": rising, "expected_of_strangers": float(expected)},
        )


def _share_of(n: int, share: float) -> Effect:
    """Return a share of units with its interval (Clopper and Pearson)."""
    count, error = round(share * n), math.log10((1.0 - LEVEL) / 2.0)
    low = 1.0 - binomial_limit(n, n - count, log10_error=error)
    high = binomial_limit(n, count, log10_error=error)
    return Effect(value=share, low=min(low, share), high=max(high, share))


def in_order(places: npt.NDArray[np.intp]) -> bool:
    """Say whether most matches are in ascending order."""
    return longest_increasing(places.tolist()) > len(places) / 2


def _units_in_order(match: UnitMatch, candidate: Sequence[Array], base: Sequence[Array]) -> bool:
    """Say whether most units that can be found again are in ascending order.

    If one MLP faces several experts, a unit has the number that it has in its own expert: each expert made
    from an MLP has its order, whichever of the models is the candidate.
    """
    if min(len(candidate), len(base)) > 1 or len(candidate) == len(base):
        return in_order(match.places[match.usable])
    number = np.concatenate([np.arange(len(rows)) for rows in base])
    starts = np.cumsum([len(rows) for rows in candidate])[:-1]
    experts = [number[places[places >= 0]] for places in np.split(match.places, starts)]
    possible = np.minimum([len(found) for found in experts], max(len(rows) for rows in base))
    # In a random order of n numbers the longest increasing subsequence has about 2 √n.
    by_chance = np.minimum(possible, 2.0 * np.sqrt(possible)).sum()
    rising = sum(longest_increasing(found.tolist()) for found in experts)
    return bool(rising - by_chance > (possible.sum() - by_chance) / 2)


def _fixed_order(candidate: Array, base: Array) -> Message | None:
    """Say why the order of units is meaningful in both models, from their contents."""
    if is_tied(candidate) and is_tied(base):
        return TIED
    if all(is_sorted(np.linalg.norm(rows, axis=1)) for rows in (candidate, base)):
        return say("norm-order")
    return _zeros_in_order(candidate, base)


def _zeros_in_order(candidate: Array, base: Array) -> Message | None:
    """Say whether places of zeros alone lead to ascending matches: one mask, with more or fewer rows."""
    mine, theirs = zeros_of(candidate), zeros_of(base)
    if mine is None or theirs is None:
        return None
    match = match_units(mine - mine.mean(axis=0), theirs - theirs.mean(axis=0), seed=0)
    places = match.places[match.usable].tolist()
    found = log10_increasing_bound(len(places), longest_increasing(places)) if places else 0.0
    return say("same-zeros-order") if found < ZEROS_LOG10_P else None


def joined(parts: Sequence[Array]) -> Array:
    """Return all units in one array, without a copy if they already are."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def cost(sources: Sequence[RowSource]) -> int:
    """Return the bytes of all units."""
    return sum(source.cost(source.n_units) for source in sources)


def _n_read(pair: Pair, sources: Sequence[RowSource]) -> int | None:
    """Return how many units of each matrix of the base can be read; None if too few."""
    share = min(1.0, SHARE * pair.byte_allowance / max(1, cost(sources)))
    if share < _FEWEST_OF_BASE or (share < 1.0 and any(source.along_columns for source in sources)):
        return None
    return int(share * max(source.n_units for source in sources))


def parts(side: Side, sources: Sequence[RowSource], *, most: int | None = None) -> tuple[Part, ...]:
    """Plan the units of several matrices, or the first of each."""
    return tuple(
        rows_part(side, source, count=source.n_units if most is None else min(most, source.n_units))
        for source in sources
    )


def _all_readers(side: Side, layer: int) -> tuple[RowSource, ...]:
    """Return the reader of a dense MLP, or those of all experts."""
    first = mlp_reader(side, layer)
    if first is None:
        return ()
    return (first,) if first.expert is None else tuple(expert_readers(side, layer))


def _some(readers: tuple[RowSource, ...], *, seed: int) -> tuple[RowSource, ...]:
    """Choose experts until they have enough units; a dense MLP is one reader and stays."""
    turned = [readers[(seed + number) % len(readers)] for number in range(len(readers))]
    wanted = max(1, MOST_UNITS // max(1, turned[0].n_units))
    return tuple(turned[:wanted])


def _found_again(halves: tuple[Array, Array], rivals: Array) -> npt.NDArray[np.bool_]:
    """Say which units are far nearer to their matches than to the base's next best units."""
    near, next_near = _row_cosines(*halves), np.maximum(0.0, _row_cosines(halves[0], rivals))
    return np.asarray(1.0 - near < (1.0 - FOUND_COSINE) * (1.0 - next_near))


def _row_cosines(mine: Array, theirs: Array) -> Array:
    norms = np.linalg.norm(mine, axis=1) * np.linalg.norm(theirs, axis=1)
    return np.asarray(np.einsum("ij,ij->i", mine, theirs) / np.where(norms > 0, norms, 1.0))
