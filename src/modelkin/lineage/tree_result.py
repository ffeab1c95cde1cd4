"""A collection as a forest: families, edges, which model came first where that is known, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from modelkin.comparison import ModelSummary
from modelkin.message import Message
from modelkin.options import Depth
from modelkin.written import Reported

TREE_SCHEMA = "modelkin.tree/1"

EdgeKind = Literal["nearest", "inherits", "merge", "reshaped"]
"""``inherits``: carries what the other one changed. ``nearest``: attached to the middle of its family.
``merge``: part of a mixture. ``reshaped``: no tensor of one shape; by the effect of the comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPair:
    """The verdict on two models of the collection."""

    first: str
    second: str
    conclusion: str
    related: bool | None
    effect: float | None
    log10_p: float | None
    depth: Depth = field(default="standard", metadata={"later": True})
    """Depth at which it was made: models that are left alone are compared again, deeper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectionFact:
    """One asymmetric fact about two relatives."""

    kind: str
    parent: str
    child: str
    reason: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeEdge:
    """Two models of which one comes from the other, as far as the collection shows."""

    first: str
    second: str
    kind: EdgeKind
    parent: str | None
    """Which of the two came first; None if that is not identified."""
    facts: tuple[DirectionFact, ...]
    """All facts about the direction of this edge; if they contradict each other, none counts."""
    reason: Message
    """Why the edge is there."""
    distance: float | None
    """Mean squared distance of tensors of one shape, over the product of their lengths: 2 for strangers."""
    inheritance: float | None
    """Smallest share of the parent's change that the child carries, seen from other relatives."""
    support: float | None
    """Share of bootstrap samples of tensors in which the edge is the same."""
    weight: float | None
    """Of a merge."""
    pair: JudgedPair | None
    relation: str | None = field(default=None, metadata={"later": True})
    """What was done, in the words of a comparison; None for merges, ``unknown`` if it cannot be told."""

    @property
    def child(self) -> str | None:
        """Which of the two came later; None if that is not identified."""
        return None if self.parent is None else self.first if self.parent == self.second else self.second


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Models that are connected by accepted pairs."""

    members: tuple[str, ...]
    middle: str
    """The reference member: chosen by facts on direction first, then by distance."""
    newick: str | None
    """Neighbour joining on squared distances, with bootstrap support; None below two measured members."""
    joined: tuple[str, ...]
    """The members in it."""
    four_point: float | None
    """How far distances are from those of a tree: 0 is a tree."""
    notes: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyForest(Reported):
    """All models, the families among them, and what connects them."""

    models: Mapping[str, ModelSummary]
    """By the names that everything else uses."""
    families: tuple[Family, ...]
    """Of at least two, the largest first."""
    alone: tuple[str, ...]
    edges: tuple[TreeEdge, ...]
    pairs: tuple[JudgedPair, ...]
    summary: Message
    limitations: tuple[Message, ...]
    depth: Depth
    seed: int
    modelkin: str
