"""The testable part of a card: which parents it names, how, and whether it says "from scratch"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from modelkin.comparison.claims import MAX_CARD_BYTES, Claims, merge_recipe, read_claims
from modelkin.errors import ModelkinError
from modelkin.model import Model

from .recipes import DeclaredMerge, declared_merge
from .result import ClaimKind

_CARD = "README.md"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_SCRATCH = re.compile(
    r"(?<!not )\b(?:(?:pre-?)?train(?:ed|ing)?|built|developed|learned|made)\b"
    r"[^.\n]{0,60}?\bfrom scratch\b"
    r"|처음부터[^.\n]{0,20}학습",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:not|never|isn't|wasn't|without|instead of|rather than)\b[^.\n]{0,40}$", re.IGNORECASE
)
_LONGEST = 160
"""Characters of a card that are quoted: a sentence, not a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One claim of a card that a comparison can test."""

    kind: ClaimKind
    source: str
    subject: str
    """The model that is named, or the words of the card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCard:
    """What a model says about itself."""

    claims: Claims
    statements: tuple[Statement, ...]
    merge: DeclaredMerge | None
    """The recipe of a merge, if the model carries one."""

    @property
    def parents(self) -> tuple[str, ...]:
        """Models that are named as what this one was made from."""
        kinds = ("parent", "merge", "adapter")
        return tuple(dict.fromkeys(item.subject for item in self.statements if item.kind in kinds))


def read_card(model: Model) -> ReadCard:
    """Read what a model declares; malformed or hostile parts become notes."""
    claims = read_claims(model)
    return ReadCard(claims=claims, statements=tuple(_statements(model, claims)), merge=declared_merge(model))


def is_hub_id(name: str) -> bool:
    """Say whether a name can be a model on the Hub: nothing else that a card names is opened."""
    return _HUB_ID.fullmatch(name) is not None and ".." not in name


def _statements(model: Model, claims: Claims) -> Iterator[Statement]:
    for name in claims.base_models:
        yield Statement(kind="parent", source=f"{_CARD}: base_model", subject=name)
    adapter = model.weights.adapter
    if adapter is not None and adapter.claim and adapter.claim not in claims.base_models:
        yield Statement(
            kind="adapter", source="adapter_config.json: base_model_name_or_path", subject=adapter.claim
        )
    recipe, _ = merge_recipe(model)
    for name in claims.merged_models:
        if name not in claims.base_models:
            yield Statement(kind="merge", source=recipe, subject=name)
    if claims.relation:
        yield Statement(kind="relation", source=f"{_CARD}: base_model_relation", subject=claims.relation)
    elif tagged := _tagged(claims):
        yield Statement(kind="relation", source=f"{_CARD}: tags", subject=tagged)
    saved = claims.name_or_path
    if saved and is_hub_id(saved) and saved not in (*claims.base_models, *claims.merged_models):
        yield Statement(kind="saved-from", source="config.json: _name_or_path", subject=saved)
    if words := from_scratch(_body(model)):
        yield Statement(kind="from-scratch", source=_CARD, subject=words)


def _tagged(claims: Claims) -> str | None:
    known = {"quantized", "merge", "adapter", "lora", "finetune", "finetuned", "fine-tuned"}
    found = [tag for tag in claims.tags if tag.lower() in known]
    return found[0].lower() if len(found) == 1 and claims.base_models else None


def from_scratch(text: str) -> str | None:
    """Return the words that say a model was trained from scratch, or None; a denial is not a claim."""
    for found in _SCRATCH.finditer(text):
        before = text[max(0, found.start() - 60) : found.start()]
        if not _DENIED.search(before) and not re.search(r"\bnot\b", found[0], re.IGNORECASE):
            words = " ".join(found[0].split())[:_LONGEST]
            return words if words.isprintable() else None
    return None


def _body(model: Model) -> str:
    try:
        data = model.start_of(_CARD, limit=MAX_CARD_BYTES)
    except ModelkinError:
        return ""  # reading the claims has already noted it
    text = data.decode("utf-8", errors="replace")
    if text.startswith("---"):
        text = text.split("\n---", 1)[-1]
    return text
