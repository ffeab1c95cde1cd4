"""Rows of one layer, gains folded in, for the methods that compare all layers or read whole matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.architecture import Role, RoleEntry
from modelkin.message import Message, say
from modelkin.tensors import Array

from ._gains import acting_gain, gain_before, gain_slices
from ._interface import Pair, Part, Side
from .blocks import Matrix, UnitChoice, n_features, n_units, unit_axis, unit_block, units_across


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One tensor of a layer whose rows are units."""

    entry: RoleEntry
    space: str
    expert: int | None
    n_units: int
    n_features: int
    row_bytes: int
    """Bytes of one unit if it were read alone."""
    matrix_bytes: int
    """Of the stored matrix, with other roles that are fused into it."""
    along_columns: bool
    """Whether units run along the columns, as in matrices that are stored input-first: then one unit costs as
    much as all of them, and features can be saved instead."""

    def cost(self, count: int, *, features: int | None = None) -> int:
        """Return the bytes that so many units take, with all their features or the first of them."""
        if not self.along_columns:
            return count * self.row_bytes
        return self.matrix_bytes * (features or self.n_features) // max(1, self.n_features)


def source_of(side: Side, role: Role, space: str, layer: int, *, expert: int | None = None) -> Source | None:
    """Find a tensor by role; for experts, one of them."""
    entry = side.architecture.find(role, layer=layer)
    if entry is None and expert is not None:
        entry = side.architecture.find(role, layer=layer, expert=expert)
    if entry is None or unit_axis(entry, space) is None:
        return None
    info = side.index[entry.tensor]
    if len(info.shape) == 3 and expert is None:
        return None
    count, width = n_units(entry, info, space), n_features(entry, info, space)
    stacked = info.shape[0] if len(info.shape) == 3 else 1
    return Source(
        entry=entry,
        space=space,
        expert=expert,
        n_units=count,
        n_features=width,
        row_bytes=info.n_bytes * width // max(1, info.n_elements),
        matrix_bytes=info.n_bytes // max(1, stacked),
        along_columns=units_across(entry, info, space),
    )


def mlp_reader(side: Side, layer: int, *, expert: int = 0) -> Source | None:
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
    source: Source,
    *,
    first_unit: int = 0,
    count: int | None = None,
    features: int | None = None,
) -> Part:
    """Plan the reading of rows, with the gain in front of them folded in.

    First features alone are read where that saves bytes; elsewhere rows are whole.
    """
    count = count or source.n_units
    features = features if features and source.along_columns else source.n_features
    block = unit_block(
        source.entry,
        side.index[source.entry.tensor],
        space=source.space,
        choice=UnitChoice(first_unit=first_unit, n_units=count, first_feature=0, n_features=features),
        expert=source.expert,
    )
    gain = gain_before(side.architecture, source.entry)

    def reduce(arrays: Sequence[Array]) -> Matrix:
        rows = block.matrix(arrays[0])
        if gain is not None:
            rows = rows * acting_gain(arrays[1], side.architecture)[:features]
        return np.ascontiguousarray(rows, dtype=np.float32)

    return Part(slices=(block.slice, *gain_slices(gain)), reduce=reduce)


def residual_widths(pair: Pair) -> tuple[int, int] | None:
    """Return the hidden sizes of both models, or None if one is not known."""
    mine, theirs = (side.architecture.sizes.get("residual") for side in (pair.candidate, pair.base))
    return None if mine is None or theirs is None else (mine, theirs)


def frame_problem(pair: Pair) -> Message | None:
    """Say why rows over the residual streams cannot be compared in the frame of this pair."""
    for side in (pair.candidate, pair.base):
        if not side.architecture.is_known:
            return say("unknown-architecture", model=side.name)
    widths = residual_widths(pair)
    if widths is None:
        return say("hidden-unknown")
    if pair.frame is None and widths[0] != widths[1]:
        return say("hidden-sizes", n=widths[0], m=widths[1])
    if pair.frame is not None and pair.frame.widths != widths:
        return say("other-widths", n=pair.frame.widths[0], m=pair.frame.widths[1])
    return None
