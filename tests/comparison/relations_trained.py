"""Rows of the truth table that were trained: models of the zoo with what their recipes kept of the parent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache, partial

from tests.comparison.disguises import DISGUISES, Hidden, disguised, zoo_model
from tests.comparison.relation import FAMILIES, Family, Layers, Relation, identity, row

_TOKENS = frozenset({"embedding", "head"})
_DEEP = FAMILIES["llama-deep"]
_EXPERTS = replace(_DEEP, components=_DEEP.components - {"mlp"} | {"experts", "router"})


@cache
def trained() -> tuple[Relation, ...]:
    """Return a row for each child in the zoo; a model of the same initialisation is not a child."""
    return (*_tuned(), *_partial(), *_reshaped(), *_reshaped("units", "heads", "residual-permutation"))


def _tuned() -> list[Relation]:
    return [
        _child("finetune-light", "A short fine-tune."),
        _child("finetune-sibling", "A fine-tune on another corpus."),
        _child("finetune-heavy", "A long fine-tune at the rate of the base's own training."),
        _child("grandchild", "A fine-tune of a fine-tune."),
        _child("lora", "A low-rank fine-tune."),
        _child("continued", "Continued pretraining with a new tokenizer; rows of shared tokens kept."),
        _child("extended", "64 words added, then a fine-tune."),
        _child("qwen2-tuned", "A fine-tune.", FAMILIES["qwen2"]),
        _child("gpt2-tuned", "A fine-tune.", FAMILIES["gpt2"]),
        _child("moe-tuned", "A fine-tune.", FAMILIES["mixtral"]),
        _child("moe16-tuned", "A fine-tune.", FAMILIES["mixtral-16"]),
    ]


def _partial() -> list[Relation]:
    """Return children that kept some parts; the others were reinitialised and trained."""
    return [
        _child("new-tokenizer", "A new tokenizer, all token rows new.", lost=_TOKENS),
        _child("new-attention", "Attention initialised anew.", lost={"attention"}),
        _child("norms-only", "Only the norm gains kept.", lost={*_TOKENS, "attention", "mlp"}),
        # Its gains are new, but they were trained on the old dimensions: a weak trace of those is no error.
        _child(
            "embeddings-only",
            "Only token rows kept.",
            lost={"attention", "mlp"},
            unclear={"norms"},
            layers=(),
        ),
        _child("half-of-layers", "Layers 2 and 3 initialised anew.", layers=identity(2)),
        _child(
            "new-heads", "Attention initialised anew with other numbers of heads.", _DEEP, lost={"attention"}
        ),
        _child("new-embeddings", "Token rows initialised anew.", _DEEP, lost={"embedding"}),
        _child(
            "third-of-layers",
            "Layers 2 and 3 of six kept, all else initialised anew.",
            _DEEP,
            layers=((2, 2), (3, 3)),
            lost={"embedding"},
            unclear={"norms"},
        ),
        _child("mlps-only", "Only the MLPs kept.", _DEEP, lost={"embedding", "attention", "norms"}),
        _child(
            "rotated",
            "Gains folded, residual stream rotated, then trained; its gains began at one.",
            _DEEP,
            lost={"norms"},
            hides={"residual-rotation"},
        ),
    ]


def _reshaped(*disguises: str) -> list[Relation]:
    """Return children of another shape, trained after the change, maybe with disguises put on at the end."""
    child = partial(_child, disguises=disguises)
    return [
        child("depth-up", "Layers 0, 1, 2, 1, 2, 3, then trained.", layers=_layers(0, 1, 2, 1, 2, 3)),
        child("fewer-dimensions", "72 of 96 residual dimensions in their order, then trained."),
        child("fewer-layers", "Layers 0, 1, 3, 5, then trained.", _DEEP, layers=_layers(0, 1, 3, 5)),
        child("fewer-units", "44 of 64 units of each MLP in their order, then trained.", _DEEP),
        child(
            "scrambled-units",
            "44 of 64 units of each MLP in a random order, then trained.",
            _DEEP,
            hides={"units"},
        ),
        child("experts", "Three experts from each MLP, with noise, then trained.", _EXPERTS, lost={"router"}),
        child(
            "qwen2-depth-up",
            "Layers 0, 1, 1, 2, then trained.",
            FAMILIES["qwen2"],
            layers=_layers(0, 1, 1, 2),
        ),
        child(
            "gpt2-depth-up", "Layers 0, 1, 1, 2, then trained.", FAMILIES["gpt2"], layers=_layers(0, 1, 1, 2)
        ),
        child("moe-fewer-layers", "Layers 0 and 2, then trained.", FAMILIES["mixtral"], layers=_layers(0, 2)),
    ]


def _layers(*old: int) -> Layers:
    return tuple(enumerate(old))


def _child(
    name: str,
    how: str,
    family: Family = FAMILIES["llama"],
    *,
    lost: Iterable[str] = (),
    unclear: Iterable[str] = (),
    layers: Layers | None = None,
    hides: Iterable[Hidden] = (),
    disguises: tuple[str, ...] = (),
) -> Relation:
    hidden = frozenset(hides).union(*(DISGUISES[disguise].hides for disguise in disguises))
    return row(
        f"trained: {name}" + (", permuted" if disguises else ""),
        family,
        lambda: disguised(zoo_model(name), *disguises),
        f"{how} Then {', '.join(disguises)}." if disguises else how,
        lost=lost,
        unclear=unclear,
        layers=layers,
        disguise=hidden,
    )
