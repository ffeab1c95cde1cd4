"""An atlas as values: models, families, what connects them, and claims checked against the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from modelkin.comparison import Comparison
from modelkin.comparison.methods import Effect
from modelkin.message import Message
from modelkin.options import Depth
from modelkin.written import JsonRecord

from .declarations import Declaration

ATLAS_SCHEMA = "modelkin.atlas/1"
AtlasEdgeKind = Literal["declared", "nearest", "inherits", "merge", "reshaped"]
"""``declared``: the card names the parent, and both share weights. ``nearest``: the relative most similar to
it, by fingerprints. The others are those of `modelkin tree`, from weights."""
AtlasClaimStatus = Literal["supported", "contradicted", "untestable"]


def model_key(ref: str) -> str:
    """Return a model's key in addresses: sixteen characters that no name can choose."""
    return blake2b(ref.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def pair_key(first: str, second: str) -> str:
    """Return a pair's key in addresses, whichever model comes first."""
    return "-".join(sorted((model_key(first), model_key(second))))


@dataclass(frozen=True, slots=True, kw_only=True)
class AtlasModel:
    """One model of the registry, at the revision that was added last."""

    ref: str
    revision: str | None
    added: str
    architecture: str | None
    layers: int | None
    hidden_size: int | None
    vocab_size: int | None
    parameters: int | None
    declared: Declaration
    family: int | None
    """Number of its family; None for a model without an accepted relative here."""
    n_relatives: int
    """Models whose fingerprints show a common origin with this one."""
    reason: Message | None
    """Why it has no fingerprint, as the registry says."""

    @property
    def shown(self) -> str:
        """Its display name: its name if it has one, otherwise its reference."""
        return self.declared.name or self.ref


@dataclass(frozen=True, slots=True, kw_only=True)
class AtlasFamily:
    """Models that accepted pairs connect, and nothing else."""

    name: str
    """The reference of the member with most relatives: a handle, not an ancestor."""
    members: tuple[str, ...]
    n_pairs: int
    """Accepted pairs inside."""
    grown: bool
    """Whether its tree was grown on weights; otherwise edges are declared, or nearest by fingerprints."""
    notes: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AtlasPair:
    """Two models with something to report about both."""

    first: str
    second: str
    found: bool
    """Whether the fingerprints show a common origin."""
    log10_p: float | None
    """Corrected for all blocks and for the fixed size of the registry; None if one has no fingerprint."""
    likeness: float | None
    """Mean cosine of facing blocks: only for ranking relatives, not evidence."""
    token_gram: float | None
    depth: Depth | None = None
    """Of the comparison on weights, if one was made."""
    conclusion: str | None = None
    effect: Effect | None = None
    relation: str | None = None
    weights_log10_p: float | None = None
    reason: Message | None = None
    """Why a comparison that was wanted was not made."""
    comparison: Comparison | None = field(default=None, repr=False, metadata={"json": False})


@dataclass(frozen=True, slots=True, kw_only=True)
class AtlasEdge:
    """A line between two relatives."""

    first: str
    second: str
    kind: AtlasEdgeKind
    parent: str | None
    """Which of the two came first, if the card declares it or an asymmetric fact of the weights shows it."""
    reason: Message
    weight: float | None = None
    """Of a merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtlasMerge:
    """A mixture of other models of the atlas, as their weights show."""

    model: str
    parents: tuple[str, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtlasClaim:
    """A parent that a card names, checked against the weights and the dates. Trees have no part in it."""

    child: str
    named: str
    """As the card writes it."""
    parent: str | None
    """The model of the registry that is meant; None if it is not there."""
    status: AtlasClaimStatus
    reason: Message
    child_date: str | None = None
    parent_date: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedOrigin:
    """A model whose card names no parent, although earlier models share weights with it."""

    child: str
    date: str
    earlier: tuple[str, ...]
    """The most similar first; one of them may be the parent, or all have a common ancestor."""
    earlier_dates: tuple[str, ...]
    reason: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class LicenceStep:
    """A child whose licence omits what the licence of its declared and proven parent requires."""

    child: str
    parent: str
    child_licence: str
    parent_licence: str
    missing: tuple[str, ...]
    reason: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Atlas(JsonRecord):
    """A whole registry at a glance."""

    registry: str
    recipe: str
    made: str
    """When, in UTC."""
    modelkin: str
    log10_size: float
    threshold: float
    claims_depth: Depth | None
    """How much of the weights may be read before a claim counts as contradicted; None reads nothing."""
    n_pairs: int
    """All pairs of fingerprints."""
    n_tested: int
    """Of those, how many the first pass let through to the exact test."""
    n_found: int
    models: Mapping[str, AtlasModel]
    families: tuple[AtlasFamily, ...]
    """The largest first."""
    pairs: tuple[AtlasPair, ...]
    """Nearest relatives of each model, edges, and whatever was compared; not all accepted pairs."""
    edges: tuple[AtlasEdge, ...]
    merges: tuple[AtlasMerge, ...]
    claims: tuple[AtlasClaim, ...]
    unnamed: tuple[UnnamedOrigin, ...]
    licences: tuple[LicenceStep, ...]
    n_undated: int
    """Models with relatives, no declared parent and no known date: nothing is said about them."""
    limitations: tuple[Message, ...]
    notes: tuple[Message, ...] = ()

    @property
    def contradicted(self) -> tuple[AtlasClaim, ...]:
        """Claims that weights contradict."""
        return tuple(claim for claim in self.claims if claim.status == "contradicted")
