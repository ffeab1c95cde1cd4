"""Rows of the truth table that were trained: models of the zoo with what their recipes kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache, partial

from tests.compare.disguises import zoo_model
from tests.compare.relation import FAMILIES, Family, Layers, Relation, row

_KEYS = {
    "base": "llama",
    "qwen2-base": "qwen2",
    "gpt2-base": "gpt2",
    "moe-base": "mixtral",
    "moe16-1": "mixtral-16",
}


@cache
def trained() -> tuple[Relation, ...]:
    """Return a row for each child in the zoo; a model of the same initialisation is no child."""
    tokens = {"embedding", "head"}
    return (
        _child("finetune-light", "A short fine-tune."),
        _child("finetune-sibling", "A fine-tune on another corpus."),
        _child("finetune-heavy", "A long fine-tune at the rate of the base's own training."),
        _child("grandchild", "A fine-tune of a fine-tune."),
        _child("lora", "A low-rank fine-tune."),
        _child("continued", "Continued pretraining with a new tokenizer; rows of shared tokens kept."),
        _child("extended", "64 words added, then a fine-tune."),
        _child("new-tokenizer", "A new tokenizer, all token rows new.", lost=tokens),
        _child("new-attention", "Attention begun anew.", lost={"attention"}),
        _child("norms-only", "Only the norm gains kept.", lost={*tokens, "attention", "mlp"}),
        _child("embeddings-only", "Only token rows kept.", lost={"attention", "mlp", "norms"}, layers=()),
        _child("half-of-layers", "Layers 2 and 3 begun anew.", layers=((0, 0), (1, 1)), unclear={"norms"}),
        _child("qwen2-tuned", "A fine-tune.", base="qwen2-base"),
        _child("gpt2-tuned", "A fine-tune.", base="gpt2-base"),
        _child("moe-tuned", "A fine-tune.", base="moe-base"),
        _child("moe16-tuned", "A fine-tune.", base="moe16-1"),
    )


def _child(
    name: str,
    how: str,
    *,
    base: str = "base",
    lost: Iterable[str] = (),
    unclear: Iterable[str] = (),
    layers: Layers | None = None,
) -> Relation:
    key = _KEYS[base]
    family: Family = replace(FAMILIES[key], base=base)
    return row(
        f"{key}: trained {name}",
        family,
        partial(zoo_model, name),
        how,
        lost=lost,
        unclear=unclear,
        layers=layers,
    )
