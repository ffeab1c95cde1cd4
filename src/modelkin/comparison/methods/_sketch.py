"""Rows of one layer, gains folded in, for the methods that compare all layers or read whole matrices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.architecture import Role, RoleEntry
from modelkin.message import Message, say
from modelkin.tensors import Array

from ._gains import acting_gain, gain_before, gain_slices
from ._interface import Pair, Part, Side
from .blocks import Matrix, UnitBlock, UnitChoice, n_features, n_units, unit_axis, unit_block, units_across


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """One tensor of a layer whose rows are units."""

    entry: RoleEntry
    space: str
    expert: int | None
    n_units: int
    n_features: int
    row_bytes: int
    """Bytes of one unit if it were read alone."""
    matrix_bytes: int
    """Of the stored matrix, including other roles fused into it."""
    along_columns: bool
    """Whether units run along the columns, as in matrices stored input-first: then one unit costs as much as
    all of them, and features can be skipped instead."""

    def cost(self, count: int, *, features: int | None = None) -> int:
        """Return the bytes that this many units take, with all their features or only the first."""
        if not self.along_columns:
            return count * self.row_bytes
        return self.matrix_bytes * (features or self.n_features) // max(1, self.n_features)

    def block(self, side: Side, choice: UnitChoice) -> UnitBlock:
        """Plan the reading of some units."""
        info = side.index[self.entry.tensor]
        return unit_block(self.entry, info, space=self.space, choice=choice, expert=self.expert)


def find_entry(side: Side, role: Role, layer: int, expert: int | None = None) -> RoleEntry | None:
    """Find a tensor by role: that of a layer, which may hold all experts, or else that of one expert."""
    entry = side.architecture.find(role, layer=layer)
    if entry is None and expert is not None:
        entry = side.architecture.find(role, layer=layer, expert=expert)
    return entry


def shared_layers(pair: Pair, role: Role) -> list[int]:
    """Return the numbers of layers in which both models have a role."""
    mine, theirs = (side.architecture.layers_of(role) for side in pair.sides)
    return [layer for layer in mine if layer in theirs]


def none_shared(pair: Pair, roles: Iterable[Role]) -> Message:
    """Say why there is no layer to test: neither model has such a part at all, or only one does."""
    wanted = tuple(roles)
    if any(side.architecture.layers_of(role) for side in pair.sides for role in wanted):
        return say("no-layers")
    return say("no-part")


def as_source(side: Side, entry: RoleEntry, space: str, *, expert: int | None = None) -> RowSource:
    """Describe a tensor that has an axis of the space; for stacked experts, one of them."""
    info = side.index[entry.tensor]
    width = n_features(entry, info, space)
    stacked = info.shape[0] if len(info.shape) == 3 else 1
    return RowSource(
        entry=entry,
        space=space,
        expert=expert,
        n_units=n_units(entry, info, space),
        n_features=width,
        row_bytes=info.n_bytes * width // max(1, info.n_elements),
        matrix_bytes=info.n_bytes // max(1, stacked),
        along_columns=units_across(entry, info, space),
    )


def source_of(
    side: Side, role: Role, space: str, layer: int, *, expert: int | None = None
) -> RowSource | None:
    """Find a tensor whose rows are units, by role; for experts, one of them."""
    entry = find_entry(side, role, layer, expert)
    if entry is None or unit_axis(entry, space) is None:
        return None
    if expert is None and len(side.index[entry.tensor].shape) == 3:
        return None
    return as_source(side, entry, space, expert=expert)


def expert_readers(side: Side, layer: int) -> list[RowSource]:
    """Find the gates of all experts of a layer."""
    numbers = side.architecture.experts_of(layer, Role.EXPERT_GATE)
    found = [source_of(side, Role.EXPERT_GATE, "expert_mlp", layer, expert=number) for number in numbers]
    return [source for source in found if source is not None]


def mlp_reader(side: Side, layer: int, *, expert: int = 0) -> RowSource | None:
    """Find what a layer's MLP reads with: its gate, the up matrix of a plain MLP, or an expert's gate."""
    found = source_of(side, Role.MLP_GATE, "mlp", layer) or source_of(side, Role.MLP_UP, "mlp", layer)
    if found is not None:
        return found
    experts = side.architecture.experts_of(layer, Role.EXPERT_GATE)
    if not experts:
        return None
    chosen = experts[expert % len(experts)]
    return source_of(side, Role.EXPERT_GATE, "expert_mlp", layer, expert=chosen)


def rows_part(
    side: Side,
    source: RowSource,
    *,
    count: int | None = None,
    features: int | None = None,
    with_gain: bool = True,
) -> Part:
    """Plan the reading of the first rows, with the gain in front of them folded in, if it is wanted.

    Only the first features are read if that saves bytes; otherwise rows are whole.
    """
    features = features if features and source.along_columns else source.n_features
    choice = UnitChoice(first_unit=0, n_units=count or source.n_units, n_features=features)
    block = source.block(side, choice)
    gain = gain_before(side.architecture, source.entry) if with_gain else None

    def reduce(arrays: Sequence[Array]) -> Matrix:
        rows = block.matrix(arrays[0])
        if gain is not None:
            rows = rows * acting_gain(arrays[1], side.architecture)[:features]
        return np.ascontiguousarray(rows, dtype=np.float32)

    return Part(slices=(block.slice, *gain_slices(gain)), reduce=reduce)
