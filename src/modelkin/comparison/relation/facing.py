"""Which tensor of one model faces which of the other, once the facing layers are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from modelkin.architecture import Architecture, Role, RoleEntry, Segment
from modelkin.comparison.names import shared_names
from modelkin.model import Model

_DENSE = {
    Role.EXPERT_GATE: Role.MLP_GATE,
    Role.EXPERT_UP: Role.MLP_UP,
    Role.EXPERT_DOWN: Role.MLP_DOWN,
}
TOKEN_ROLES = frozenset({Role.EMBEDDING.value, Role.OUTPUT_HEAD.value})
Axes = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FacingTensors:
    """Two tensors that face each other."""

    candidate: str
    base: str
    role: str
    component: str
    layer: int | None
    base_layer: int | None
    expert: int | None
    transposed: tuple[bool, bool] = (False, False)
    """Whether inputs come first, in candidate and base."""
    axes: Axes = ()
    """Spaces of the candidate's axes, outputs first."""
    fused: bool = False
    """Whether other roles are in the same tensor, and in what is read of it."""
    segments: tuple[Segment | None, Segment | None] = (None, None)
    """Which part of a fused tensor this is, in candidate and base; None for whole tensors."""


def facing_tensors(
    candidate: Model, base: Model, layers: Sequence[tuple[int, int]], *, split: bool = False
) -> tuple[FacingTensors, ...]:
    """Pair tensors by role along pairs of layers; those of unknown purpose by name and shape.

    Parameters
    ----------
    candidate, base
        Opened models.
    layers
        Layer of the candidate, layer of the base. Tensors outside layers face each other by role.
    split
        Whether fused tensors (queries, keys and values in one; gates and units in one) come part by part:
        each has its own order, and its own counterpart if only one of the models is fused.
    """
    mine, theirs = candidate.architecture, base.architecture
    if not (mine.is_known and theirs.is_known):
        return _by_name(candidate, base)
    facing = dict(layers)
    found: dict[tuple[str, Role | None], FacingTensors] = {}
    for entry in mine.tensors:
        if entry.fixed or entry.part not in ("weight", "bias"):
            continue
        key = entry.tensor, entry.role if split else None
        if key in found:
            found[key] = replace(found[key], fused=True)
            continue
        if entry.layer is not None and entry.layer not in facing:
            continue
        other = _counterpart(entry, theirs, None if entry.layer is None else facing[entry.layer])
        if other is not None:
            pair = _pair(entry, other)
            parts = (entry.segment, other.segment)
            found[key] = replace(pair, fused=False, segments=parts) if split else pair
    return tuple(found.values())


def are_fused_differently(facing: Sequence[FacingTensors]) -> bool:
    """Say whether one model has in one tensor what the other has in several."""
    return any((item.segments[0] is None) != (item.segments[1] is None) for item in facing)


def _counterpart(entry: RoleEntry, theirs: Architecture, layer: int | None) -> RoleEntry | None:
    for role, expert in ((entry.role, entry.expert), (_DENSE.get(entry.role), None)):
        if role is None:
            continue
        found = theirs.find(role, layer, entry.part, expert=expert, stack=entry.stack)
        if found is not None:
            return found
    return None


def _pair(entry: RoleEntry, other: RoleEntry) -> FacingTensors:
    return FacingTensors(
        candidate=entry.tensor,
        base=other.tensor,
        role=entry.role.value if entry.part == "weight" else f"{entry.role.value}_{entry.part}",
        component=entry.component,
        layer=entry.layer,
        base_layer=other.layer,
        expert=entry.expert,
        transposed=(entry.transposed, other.transposed),
        axes=entry.axes[::-1] if entry.transposed else entry.axes,
        fused=entry.segment is not None or other.segment is not None,
    )


def _by_name(candidate: Model, base: Model) -> tuple[FacingTensors, ...]:
    return tuple(
        FacingTensors(
            candidate=name,
            base=name,
            role="unknown",
            component="other",
            layer=None,
            base_layer=None,
            expert=None,
        )
        for name in shared_names(candidate, base)
        if candidate.index[name].is_float
    )
