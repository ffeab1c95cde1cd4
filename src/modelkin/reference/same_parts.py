"""Tensors with the same purpose and shape in two models."""

from __future__ import annotations

from dataclasses import dataclass

from modelkin.message import Message, say
from modelkin.model import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class SamePart:
    """One tensor of each model."""

    role: str
    names: tuple[str, str]
    shape: tuple[int, ...]

    @property
    def n_elements(self) -> int:
        """How many numbers each holds."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n


def same_parts(candidate: Model, base: Model, *, matrices_only: bool = False) -> list[SamePart] | Message:
    """Pair tensors by name; tensors of different shape, and computed tables, are left out."""
    models = candidate, base
    for model in models:
        if not model.architecture.is_known:
            return say("unknown-architecture", model=model.location.ref)
    by_place = [
        {
            (entry.role, entry.layer, entry.expert, entry.part, entry.stack): entry.tensor
            for entry in model.architecture.tensors
            if not entry.fixed
        }
        for model in models
    ]
    found: dict[tuple[str, str], SamePart] = {}
    for place, mine in by_place[0].items():
        theirs = by_place[1].get(place)
        if theirs is None:
            continue
        shapes = candidate.index[mine].shape, base.index[theirs].shape
        if shapes[0] == shapes[1] and (len(shapes[0]) > 1 or not matrices_only):
            # A fused tensor has several roles and is one tensor.
            part = SamePart(role=place[0].value, names=(mine, theirs), shape=shapes[0])
            found.setdefault((mine, theirs), part)
    return list(found.values()) or say("reference-no-equal-shape")
