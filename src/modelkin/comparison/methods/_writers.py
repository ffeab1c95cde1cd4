"""What the layers write into the residual stream, over its dimensions: blind to the order of units and heads.

A matrix that writes into the residual stream has one row per residual dimension. Products of its rows do
not change when units, heads or experts are reordered or flipped. Half of the dimensions serve as features of
the other half; renumbering the other half then moves rows and nothing else, so the test on them is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role
from modelkin.comparison.alignment import LayerMap, layer_map
from modelkin.message import Message, say
from modelkin.stats import cross_z, finite_or_zero
from modelkin.tensors import Array

from ._interface import Findings, Method, Pair, Part, Planned, Probe, Side
from ._sketch import RowSource, as_source, find_entry
from ._unit_map import cell_threshold
from .axis import unit_evidence
from .beginnings import BEGUN_ALIKE
from .blocks import UnitChoice, unit_axis
from .tied import is_tied

MOST_DIMENSIONS = 256
"""Half of them describe the other half: 128 units with 128 features. Bytes of every layer grow with it."""
FEWEST_DIMENSIONS = 24
"""Half of them are tested: the 12! orders of 12 units allow p down to 2e-9."""
_SHARE = 0.23
"""Share of the byte allowance."""
_MLP = (Role.MLP_DOWN, Role.EXPERT_DOWN, Role.SHARED_EXPERT_DOWN)
_ALWAYS = (Role.MLP_DOWN, Role.SHARED_EXPERT_DOWN)
"""What is used if all experts together are too large."""
_ATTENTION = (Role.ATTENTION_OUTPUT,)


@final
class ResidualWriters(Method):
    """Ask whether both models write into the same residual dimensions together."""

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Plan the same block of residual dimensions of every writer of every layer."""
        for component, roles in (("mlp", _MLP), ("attention", _ATTENTION)):
            if pair.begun_alike:  # what all layers of both models have in common, they also write
                yield self.skip(BEGUN_ALIKE, role=roles[0].value)
                continue
            made = self._probe(pair, component, roles)
            if roles is _MLP and not isinstance(made, Probe):
                lighter = self._probe(pair, component, _ALWAYS)
                made = lighter if isinstance(lighter, Probe) else made
            yield made if isinstance(made, Probe) else self.skip(made, role=roles[0].value)

    def _probe(self, pair: Pair, component: str, roles: Sequence[Role]) -> Probe[Findings] | Message:
        layers = [
            [layer for layer in side.architecture.layers if any(_writers(side, roles, layer))]
            for side in pair.sides
        ]
        if not layers[0] or not layers[1]:
            return say("no-writers", part=say(f"component.{component}"))
        split = _choose(pair, roles, layers)
        if len(split.described) < FEWEST_DIMENSIONS // 2:
            return say("writers-large")
        parts = [
            tuple(_part(side, roles, layer, split) for layer in numbers)
            for side, numbers in zip(pair.sides, layers, strict=True)
        ]

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Findings:
            return self._judged(pair, component, roles[0], layers, split, (candidate, base))

        return Probe(candidate=parts[0], base=parts[1], evaluate=evaluate)

    def _judged(
        self,
        pair: Pair,
        component: str,
        role: Role,
        layers: Sequence[Sequence[int]],
        split: _Split,
        features: tuple[Sequence[Array], Sequence[Array]],
    ) -> Findings:
        pooled = _pooled(features[0]), _pooled(features[1])
        if all(split.is_tied(rows) for rows in pooled):
            return Findings(evidence=(self.skip(say("dimension-pattern"), role=role.value),))
        # All layers of a model write into one stream, so they agree with each other as well. The sum over
        # layers is what both models are compared by; which layer is which shows in what is left of each.
        evidence = unit_evidence(
            self,
            pooled,
            seed=pair.seed,
            role=role.value,
            layers=tuple(layers[0]),
            base_layers=tuple(layers[1]),
            details={"layers_candidate": len(layers[0]), "layers_base": len(layers[1])},
        )
        return Findings(evidence=(evidence,), maps=self._maps(component, layers, features))

    def _maps(
        self,
        component: str,
        layers: Sequence[Sequence[int]],
        features: tuple[Sequence[Array], Sequence[Array]],
    ) -> tuple[LayerMap, ...]:
        own = [_own_part(side) for side in features]
        scores = cross_z(own[0], own[1])
        n_cells = int(np.count_nonzero(~np.isnan(scores)))
        if not n_cells:
            return ()
        return (
            layer_map(
                component=component,
                method=self.card.name,
                frame="identity",
                candidate_layers=layers[0],
                base_layers=layers[1],
                scores=scores,
                threshold=cell_threshold(n_cells),
                same_layers=False,  # layers of one model write alike, so those of a relative do too
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Split:
    first: int
    n: int
    width: int
    features: npt.NDArray[np.intp]
    """Places inside the block."""
    described: npt.NDArray[np.intp]

    def is_tied(self, rows: Array) -> bool:
        """Say whether dimensions are coupled by a pattern in their numbers, as in a tiled model."""
        units, features = self.described + self.first, self.features + self.first
        return is_tied(rows, units=units, features=features, width=self.width)


def _choose(pair: Pair, roles: Sequence[Role], layers: Sequence[Sequence[int]]) -> _Split:
    """Choose the largest block of residual dimensions that the bytes allow, and divide it at random."""
    width = pair.base.architecture.sizes["residual"]
    allowance = int(_SHARE * (0.25 if roles is _ATTENTION else 0.75) * pair.byte_allowance)
    counts = [MOST_DIMENSIONS, width]
    for side, numbers in zip(pair.sides, layers, strict=True):
        whole, row = 0, 0
        for writer in (item for layer in numbers for item in _writers(side, roles, layer)):
            # Stored input-first, one dimension costs as much as all of them.
            whole += writer.matrix_bytes if writer.along_columns else 0
            row += 0 if writer.along_columns else writer.matrix_bytes // width
        counts.append((allowance - whole) // max(1, row) if whole <= allowance else 0)
    n = max(0, min(counts))
    rng = np.random.default_rng([pair.seed, 17])
    order = rng.permutation(n)
    first = int(rng.integers(0, width - n + 1))
    return _Split(
        first=first, n=n, width=width, features=np.sort(order[: n // 2]), described=np.sort(order[n // 2 :])
    )


def _writers(side: Side, roles: Sequence[Role], layer: int) -> Iterator[RowSource]:
    """Yield the matrices of a layer that write into the residual stream, expert by expert."""
    for role in roles:
        whole = find_entry(side, role, layer)
        single = whole is not None and len(side.index[whole.tensor].shape) != 3
        for expert in (None,) if single else side.architecture.experts_of(layer, role):
            entry = find_entry(side, role, layer, expert)
            if entry is not None and unit_axis(entry, "residual") is not None:
                yield as_source(side, entry, "residual", expert=expert)


def _part(side: Side, roles: Sequence[Role], layer: int, split: _Split) -> Part:
    choice = UnitChoice(first_unit=split.first, n_units=split.n)
    blocks = [writer.block(side, choice) for writer in _writers(side, roles, layer)]

    def reduce(arrays: Sequence[Array]) -> Array:
        rows = [block.matrix(values) for block, values in zip(blocks, arrays, strict=True)]
        return _products(np.concatenate(rows, axis=1), split)

    return Part(slices=tuple(block.slice for block in blocks), reduce=reduce)


def _products(rows: Array, split: _Split) -> Array:
    """Return the products of described dimensions with feature dimensions.

    Columns are scaled to norm 1 first: what a unit writes can be scaled at will if what it reads is scaled
    back. The norm is over a set of dimensions and does not depend on their order.
    """
    values = finite_or_zero(np.asarray(rows, dtype=np.float32))
    norms = np.linalg.norm(values, axis=0)
    values = np.asarray(values / np.where(norms > 0, norms, 1.0), dtype=np.float32)
    return np.asarray(values[split.described] @ values[split.features].T, dtype=np.float32)


def _scaled(features: Sequence[Array]) -> list[Array]:
    """Give each layer the same weight."""
    return [rows / max(float(np.linalg.norm(rows)), 1e-20) for rows in features]


def _pooled(features: Sequence[Array]) -> Array:
    """Add up layers, each with the same weight."""
    return np.asarray(np.sum(_scaled(features), axis=0), dtype=np.float32)


def _own_part(features: Sequence[Array]) -> list[Array]:
    """Subtract what all layers of a model have in common; with two layers nothing would be left."""
    if len(features) < 3:
        return list(features)
    scaled = _scaled(features)
    common = np.mean(scaled, axis=0)
    return [np.asarray(rows - common, dtype=np.float32) for rows in scaled]
