"""What a card claims and what the weights say about it, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from modelkin.comparison import ModelSummary
from modelkin.message import Message
from modelkin.written import JsonRecord

CHECK_SCHEMA = "modelkin.check/1"
ClaimKind = Literal[
    "parent", "ancestor", "relation", "from-scratch", "merge", "recipe", "adapter", "saved-from", "licence"
]
ClaimStatus = Literal["supported", "contradicted", "untestable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedClaim:
    """One claim, and what the weights say about it."""

    kind: ClaimKind
    claim: Message
    source: str
    """File and field that make the claim."""
    status: ClaimStatus
    reason: Message
    against: str | None = None
    """The model that it was checked against."""
    conclusion: str | None = None
    """Of the comparison with it."""
    relation: str | None = None
    """Kind of kinship that was found."""
    log10_p: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardCheck(JsonRecord):
    """Every claim of a model's card, checked against its weights."""

    model: ModelSummary
    claims: tuple[CheckedClaim, ...]
    ancestors: tuple[tuple[str, str], ...]
    """Which model declares which as its base: (child, parent), the model itself first."""
    notes: tuple[Message, ...]
    """What could not be read or followed."""
    depth: str
    modelkin: str

    @property
    def contradicted(self) -> int:
        """Number of claims that the weights contradict."""
        return sum(item.status == "contradicted" for item in self.claims)
