"""An atlas looked up by model and by pair."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, final

from .result import (
    Atlas,
    AtlasClaim,
    AtlasEdge,
    AtlasMerge,
    AtlasModel,
    AtlasPair,
    LicenceStep,
    UnnamedOrigin,
    model_key,
    pair_key,
)

_Item = TypeVar("_Item")


@final
class AtlasIndex:
    """What there is to say about each model and pair, indexed for fast lookup."""

    def __init__(self, atlas: Atlas) -> None:
        self.atlas = atlas
        self.models: dict[str, AtlasModel] = {model_key(ref): model for ref, model in atlas.models.items()}
        self.pairs: dict[str, AtlasPair] = {pair_key(pair.first, pair.second): pair for pair in atlas.pairs}
        self._edges = _by_model((edge, (edge.first, edge.second)) for edge in atlas.edges)
        self._pairs = _by_model((pair, (pair.first, pair.second)) for pair in atlas.pairs)
        self._claims = _by_model((claim, (claim.child, claim.parent)) for claim in atlas.claims)
        self._unnamed = {item.child: item for item in atlas.unnamed}
        self._merges = _by_model((merge, (merge.model, *merge.parents)) for merge in atlas.merges)
        self._licences = _by_model((step, (step.child,)) for step in atlas.licences)

    def edges(self, ref: str) -> list[AtlasEdge]:
        """Return the edges of a model."""
        return self._edges.get(ref, [])

    def relatives(self, ref: str) -> list[AtlasPair]:
        """Return the listed pairs of a model: accepted ones first, then by similarity."""
        return sorted(
            self._pairs.get(ref, []),
            key=lambda pair: (not pair.found, -(pair.likeness or 0.0), pair.first, pair.second),
        )

    def claims(self, ref: str) -> list[AtlasClaim]:
        """Return the claims of a model's card, and those of others about it."""
        return self._claims.get(ref, [])

    def unnamed(self, ref: str) -> UnnamedOrigin | None:
        """Return what a card omits."""
        return self._unnamed.get(ref)

    def licences(self, ref: str) -> list[LicenceStep]:
        """Return licences that widen towards this model."""
        return self._licences.get(ref, [])

    def merges(self, ref: str) -> list[AtlasMerge]:
        """Return mixtures that this model is, or is part of."""
        return self._merges.get(ref, [])

    def is_flagged(self, ref: str) -> bool:
        """Say whether there is something to look at."""
        return (
            ref in self._unnamed
            or ref in self._licences
            or any(claim.status == "contradicted" and claim.child == ref for claim in self.claims(ref))
        )

    def found(self, text: str, *, limit: int) -> tuple[list[AtlasModel], int]:
        """Return models whose reference or name contains a text, and how many there are."""
        wanted = text.casefold()
        hits = [
            model
            for model in self.atlas.models.values()
            if wanted in model.ref.casefold() or wanted in (model.declared.name or "").casefold()
        ]
        return hits[:limit], len(hits)


def _by_model(items: Iterable[tuple[_Item, tuple[str | None, ...]]]) -> dict[str, list[_Item]]:
    found: dict[str, list[_Item]] = {}
    for item, refs in items:
        for ref in dict.fromkeys(refs):
            if ref is not None:
                found.setdefault(ref, []).append(item)
    return found
