"""The testable part of a card: which parents it names, how, and whether it says "from scratch"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from modelkin.comparison.claims import MAX_CARD_BYTES, Claims, merge_recipe, read_claims
from modelkin.errors import ModelkinError
from modelkin.model import Model

from .beginnings import from_scratch
from .descents import fine_tuned_from, is_hub_id
from .recipes import DeclaredMerge, declared_merge
from .result import ClaimKind

_CARD = "README.md"
_TEXT = f"{_CARD}: text"
"""Where a statement stands that is a sentence of the card and no field of its front matter."""


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


def _statements(model: Model, claims: Claims) -> Iterator[Statement]:
    text, own = _body(model), (model.location.ref,)
    for name in claims.base_models:
        yield Statement(kind="parent", source=f"{_CARD}: base_model", subject=name)
    adapter = model.weights.adapter
    written: tuple[str, ...] = ()
    if not (claims.base_models or claims.merged_models or (adapter is not None and adapter.claim)):
        written = fine_tuned_from(text, own)
    for name in written:
        yield Statement(kind="parent", source=_TEXT, subject=name)
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
    elif written:
        yield Statement(kind="relation", source=_TEXT, subject="finetune")
    saved = claims.name_or_path
    if saved and is_hub_id(saved) and saved not in (*claims.base_models, *claims.merged_models, *written):
        yield Statement(kind="saved-from", source="config.json: _name_or_path", subject=saved)
    if words := from_scratch(text, own):
        yield Statement(kind="from-scratch", source=_CARD, subject=words)


def _tagged(claims: Claims) -> str | None:
    known = {"quantized", "merge", "adapter", "lora", "finetune", "finetuned", "fine-tuned"}
    found = [tag for tag in claims.tags if tag.lower() in known]
    return found[0].lower() if len(found) == 1 and claims.base_models else None


def _body(model: Model) -> str:
    try:
        data = model.start_of(_CARD, limit=MAX_CARD_BYTES)
    except ModelkinError:
        return ""  # reading the claims has already noted it
    text = data.decode("utf-8", errors="replace")
    if text.startswith("---"):
        text = text.split("\n---", 1)[-1]
    return text
