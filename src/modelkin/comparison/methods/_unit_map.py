"""All layers of one model against all layers of the other, by the numbering of their units."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role
from modelkin.comparison.alignment import LayerMap, layer_map
from modelkin.message import Message, say
from modelkin.stats import cross_scores, normal_quantile
from modelkin.tensors import Array

from ._interface import Findings, Method, Pair, Planned, Probe, Side
from ._result import Evidence
from ._sketch import RowSource, mlp_reader, rows_part, source_of
from .axis import unit_evidence
from .beginnings import OtherLayers, Remembered
from .blocks import spread
from .tied import is_tied

MOST_UNITS = 128
"""z grows with the root of it, the cost of all cells with its square."""
FEWEST_UNITS = 8
"""Fewer units have at most 5,040 orders: not enough to correct p for the number of cells."""
MOST_ELEMENTS = 24_000_000
"""Values of all sketches of a model together: 96 MB."""
FEWEST_FEATURES = 24
"""Cosines over fewer features vary by more than 0.2, whatever the models are."""
_SHARE = 0.08
"""Share of the byte allowance for one map."""
MOST_OTHERS = 6
"""Layers that a cell is compared with: it may agree with all."""
CELL_P = 1e-3
"""Probability that any cell of a map between strangers stands out."""


def cell_threshold(n_cells: int) -> float:
    """Return the |z| that any of this many cells exceeds by chance once in a thousand maps."""
    return normal_quantile(math.log10(CELL_P / 2.0 / max(1, n_cells)))


@dataclass(frozen=True, slots=True)
class _Layer:
    number: int
    source: RowSource
    width: int
    """Units that are numbered together: only layers with the same number can be compared."""


class UnitMap(Method):
    """Shared base: sketch every layer, compare all pairs, test the cells on the path."""

    @abstractmethod
    def source(self, pair: Pair, side: Side, layer: int) -> RowSource | None:
        """Return the tensor of a layer whose units are compared."""

    def group(self, source: RowSource, side: Side) -> int:
        """Return how many units may be compared in one test."""
        return source.n_units

    def problem(self, pair: Pair) -> Message | None:
        """Say why rows over the residual streams cannot be compared in this frame."""
        return pair.frame_problem()

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Plan one sketch for each layer of both models."""
        found = [self._sources(pair, side) for side in pair.sides]
        if not found[0] or not found[1]:
            return [say("no-such-layers")]
        problem = pair.order_problem(*(next(iter(sources.values())).space for sources in found))
        if problem is not None:
            return [problem]
        count = self._n_units(pair, found)
        if count < FEWEST_UNITS:
            return [say("few-units", n=count)]
        found, features = _affordable(pair, found, count)
        if not features:
            return [say("input-first-bytes")]
        parts = [
            tuple(rows_part(side, source, count=count, features=features[at]) for source in sources.values())
            for at, (side, sources) in enumerate(zip(pair.sides, found, strict=True))
        ]
        layers = tuple(
            [_Layer(number, source, self.group(source, side)) for number, source in sources.items()]
            for side, sources in zip(pair.sides, found, strict=True)
        )

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Findings:
            if pair.frame is None:
                candidate, base = ([rows[:, : min(features)] for rows in side] for side in (candidate, base))
            return self._judged(pair, layers[0], layers[1], candidate, base)

        # All layers are compared once more in every map of the residual stream that is tried.
        return [Probe(candidate=parts[0], base=parts[1], evaluate=evaluate, keep=self.card.name)]

    def _sources(self, pair: Pair, side: Side) -> dict[int, RowSource]:
        """Return the tensors of all layers whose units of this kind read the residual stream."""
        width = side.architecture.sizes.get("residual")
        layers = [n for n in side.architecture.layers if pair.only_layers is None or n in pair.only_layers]
        found = {layer: self.source(pair, side, layer) for layer in layers}
        return {layer: item for layer, item in found.items() if item is not None and item.n_features == width}

    def _n_units(self, pair: Pair, found: Sequence[dict[int, RowSource]]) -> int:
        """Choose how many units of each layer are sketched: the same number everywhere."""
        counts = [MOST_UNITS]
        allowance = int(_SHARE * pair.byte_allowance)
        for side, sources in zip(pair.sides, found, strict=True):
            width = next(iter(sources.values())).n_features
            counts.append(max(FEWEST_UNITS, MOST_ELEMENTS // (len(sources) * width)))
            counts += [self.group(source, side) for source in sources.values()]
            by_rows = sum(source.row_bytes for source in sources.values() if not source.along_columns)
            counts += [allowance // by_rows] if by_rows else []
        return min(counts)

    def _judged(
        self,
        pair: Pair,
        mine: Sequence[_Layer],
        theirs: Sequence[_Layer],
        candidate: Sequence[Array],
        base: Sequence[Array],
    ) -> Findings:
        tied = [is_tied(rows) for rows in candidate], [is_tied(rows) for rows in base]
        mapped = [pair.mapped(rows) for rows in candidate]
        compared = cross_scores(mapped, base)
        known = Remembered()
        known.learn(mapped, base, compared)
        scores = compared.z
        scores[_incomparable(mine, theirs, tied)] = math.nan
        n_cells = int(np.count_nonzero(~np.isnan(scores)))
        if not n_cells:
            return Findings(evidence=(self.skip(say("no-equal-shape"), frame=pair.frame_kind),))
        found = layer_map(
            component=_component(self.card.component, mine),
            method=self.card.name,
            frame=pair.frame_kind,
            candidate_layers=[layer.number for layer in mine],
            base_layers=[layer.number for layer in theirs],
            scores=scores,
            threshold=cell_threshold(n_cells),
        )
        evidence = [self._cell(pair, found, layer, (mapped, base), known) for layer in mine]
        return Findings(evidence=tuple(item for item in evidence if item is not None), maps=(found,))

    def _cell(
        self,
        pair: Pair,
        found: LayerMap,
        layer: _Layer,
        rows: tuple[Sequence[Array], Sequence[Array]],
        known: Remembered,
    ) -> Evidence | None:
        """Test the cell that a candidate layer was paired with, or else its best one."""
        facing = dict(found.path).get(layer.number, found.best_of(layer.number))
        if facing is None:
            return None
        at = found.candidate_layers.index(layer.number), found.base_layers.index(facing)
        return unit_evidence(
            self,
            (rows[0][at[0]], rows[1][at[1]]),
            seed=pair.seed,
            component=found.component,
            role=layer.source.entry.role.value,
            layers=(layer.number,),
            base_layers=(facing,),
            frame=pair.frame_kind,
            details={"cells": found.n_cells},
            chosen_from=found.n_cells,
            others=_others(found, at, rows, known),
        )


def _others(
    found: LayerMap, at: tuple[int, int], rows: tuple[Sequence[Array], Sequence[Array]], known: Remembered
) -> OtherLayers:
    """Return some layers that do not face the tested ones: by the path, and what it leaves over in order."""
    path = {
        found.candidate_layers.index(mine): found.base_layers.index(theirs) for mine, theirs in found.path
    }
    facing = {mine: theirs for mine, theirs in path.items() if mine != at[0] and theirs != at[1]}
    left = (
        [number for number in range(len(layers)) if number != tested and number not in paired]
        for layers, tested, paired in (
            (found.candidate_layers, at[0], facing.keys()),
            (found.base_layers, at[1], facing.values()),
        )
    )
    pairs = sorted((*facing.items(), *zip(*left, strict=False)))
    chosen = [pairs[number] for number in spread(len(pairs), MOST_OTHERS)]
    return OtherLayers(
        candidate=tuple(rows[0][mine] for mine, _ in chosen),
        base=tuple(rows[1][theirs] for _, theirs in chosen),
        known=known,
    )


def _affordable(
    pair: Pair, found: Sequence[dict[int, RowSource]], count: int
) -> tuple[list[dict[int, RowSource]], tuple[int, ...]]:
    """Choose layers and numbers of features that the bytes allow, where units are stored input-first.

    In the original coordinates the first features of all layers are enough. Another map of the residual
    stream needs all features: then only some layers can be compared.
    """
    allowance = int(_SHARE * pair.byte_allowance)
    widths = tuple(next(iter(sources.values())).n_features for sources in found)
    dearest = max(sum(source.cost(count) for source in sources.values()) for sources in found)
    if dearest <= allowance:
        return list(found), widths
    if pair.frame is None:
        features = widths[0] * allowance // dearest
        return list(found), (features, features) if features >= FEWEST_FEATURES else ()
    n_layers = min(len(sources) for sources in found) * allowance // dearest
    if not n_layers:
        return list(found), ()
    chosen = [
        {layer: sources[layer] for layer in (list(sources)[at] for at in spread(len(sources), n_layers))}
        for sources in found
    ]
    return chosen, widths


def _incomparable(
    mine: Sequence[_Layer], theirs: Sequence[_Layer], tied: tuple[list[bool], list[bool]]
) -> npt.NDArray[np.bool_]:
    """Say which cells have layers of different widths, or units that are tied to coordinates in both."""
    widths = [np.array([layer.width for layer in side]) for side in (mine, theirs)]
    both_tied = np.logical_and.outer(tied[0], tied[1])
    return np.asarray(np.not_equal.outer(widths[0], widths[1]) | both_tied)


def _component(usual: str, mine: Sequence[_Layer]) -> str:
    """Name a component as the candidate has it: experts made from a dense MLP are experts."""
    return "experts" if all(layer.source.expert is not None for layer in mine) else usual


@final
class MlpMap(UnitMap):
    """Ask which layers hold MLP units that read the same directions in the same places."""

    def source(self, pair: Pair, side: Side, layer: int) -> RowSource | None:
        """Return the gate of a dense MLP or of one expert."""
        return mlp_reader(side, layer, expert=pair.seed)


@final
class AttentionMap(UnitMap):
    """Ask which layers hold value dimensions that read the same directions in the same places."""

    def source(self, pair: Pair, side: Side, layer: int) -> RowSource | None:
        """Return the value matrix."""
        return source_of(side, Role.ATTENTION_VALUE, "v_dim", layer)

    def group(self, source: RowSource, side: Side) -> int:
        """Return the width of a head: dimensions are not exchanged between heads."""
        return side.architecture.sizes.get("v_dim", 0)
