"""What can be done to a model without changing what it computes, by the name of what it hides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal
from zlib import crc32

import numpy as np
from tests.places import ZOO
from tests.scale.lifelike import LIFELIKE, grown, size_of

from modelkin.casework.lab import derive, load_zoo
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.casework.lab.zoo import Zoo

Hidden = Literal["residual-permutation", "residual-signs", "residual-rotation", "units", "heads", "experts"]
Change = Callable[[Checkpoint, np.random.Generator], Checkpoint]

EVERYWHERE = ("llama", "qwen2", "gpt2", "mixtral", "gemma", "bert")
RMS = ("llama", "qwen2", "mixtral", "gemma")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disguise:
    """One change that preserves the function."""

    change: Change
    families: tuple[str, ...]
    hides: frozenset[Hidden] = frozenset()
    """The orders and directions that are not the old ones afterwards; factors of units hide none."""
    how: str


def _rotate_and_insert_gains(model: Checkpoint, rng: np.random.Generator) -> Checkpoint:
    return derive.insert_gains(derive.rotate_residual(model, rng=rng), rng=rng)


def _disguise(change: Change, families: tuple[str, ...], how: str, *hides: Hidden) -> Disguise:
    return Disguise(change=change, families=families, hides=frozenset(hides), how=how)


DISGUISES: Mapping[str, Disguise] = {
    "units": _disguise(
        lambda model, rng: derive.permute_mlp_units(model, rng=rng),
        EVERYWHERE,
        "The units of every MLP are in another order.",
        "units",
    ),
    "heads": _disguise(
        lambda model, rng: derive.permute_heads(model, rng=rng),
        EVERYWHERE,
        "KV groups, and the query heads inside each, are in another order.",
        "heads",
    ),
    "experts": _disguise(
        lambda model, rng: derive.permute_experts(model, rng=rng),
        ("mixtral",),
        "The experts of every layer are in another order, the router's rows with them.",
        "experts",
    ),
    "residual-permutation": _disguise(
        lambda model, rng: derive.permute_residual(model, rng=rng),
        EVERYWHERE,
        "The residual dimensions are in another order, everywhere in the same one.",
        "residual-permutation",
    ),
    "residual-signs": _disguise(
        lambda model, rng: derive.flip_residual_signs(model, rng=rng),
        RMS,
        "About half of the residual dimensions have the other sign.",
        "residual-signs",
    ),
    "residual-rotation": _disguise(
        lambda model, rng: derive.rotate_residual(model, rng=rng),
        RMS,
        "Gains are folded into their readers, then the residual stream is turned by a random rotation.",
        "residual-rotation",
    ),
    "rotation-and-gains": _disguise(
        _rotate_and_insert_gains,
        RMS,
        "Rotated as before, then random gains are put into every norm and divided out of its readers.",
        "residual-rotation",
    ),
    "folded-gains": _disguise(
        lambda model, rng: derive.fold_gains(model),
        RMS,
        "The gains of every norm are multiplied into its readers and set to one.",
    ),
    "inserted-gains": _disguise(
        lambda model, rng: derive.insert_gains(model, rng=rng, spread=0.5),
        RMS,
        "The gains of every norm are multiplied by random numbers, its readers divided by them.",
    ),
    "residual-scale": _disguise(
        lambda model, rng: derive.scale_residual(model, factor=3.0),
        RMS,
        "Everything that writes to the residual stream is three times as large.",
    ),
    "unit-scales": _disguise(
        lambda model, rng: derive.scale_mlp_units(model, rng=rng),
        RMS,
        "Each row of up has a random factor of either sign, its column of down the inverse.",
    ),
    "unit-signs": _disguise(
        lambda model, rng: derive.flip_mlp_signs(model),
        RMS,
        "Up and down of all units have the other sign.",
    ),
    "head-scales": _disguise(
        lambda model, rng: derive.scale_heads(model, rng=rng),
        EVERYWHERE,
        "The values of each KV head have a random factor of either sign, the output the inverse.",
    ),
    "rope-pairs": _disguise(
        lambda model, rng: derive.turn_rope_pairs(model, rng=rng),
        RMS,
        "Each RoPE pair of queries is scaled and turned, that of keys scaled back and turned alike.",
    ),
    "mixed-values": _disguise(
        lambda model, rng: derive.mix_values(model, rng=rng),
        RMS,
        "The values of each KV head are mixed by a random matrix, the output by its inverse.",
    ),
    "tokens": _disguise(
        lambda model, rng: derive.reorder_vocabulary(model, rng=rng),
        EVERYWHERE,
        "The tokens have other numbers, in the rows and in the tokenizer.",
    ),
}
"""By name. Layer norms allow fewer: they subtract a mean, which signs and rotations change."""


def suitable(model: Checkpoint) -> tuple[str, ...]:
    """Return the names of the disguises that preserve the function of a model of this family."""
    return tuple(name for name, disguise in DISGUISES.items() if model.family in disguise.families)


def disguised(model: Checkpoint, *names: str, seed: int = 0) -> Checkpoint:
    """Return a model with disguises put on in this order; the same seed gives the same model."""
    for name in names:
        if model.family not in DISGUISES[name].families:
            raise ValueError(f"{name} changes the function of a {model.family}")
        model = DISGUISES[name].change(model, np.random.default_rng([seed, crc32(name.encode())]))
    return model


@cache
def kept_zoo() -> Zoo:
    """Return the zoo; its list is read once."""
    return load_zoo(ZOO)


def zoo_model(name: str) -> Checkpoint:
    """Return a model of the zoo, or one that is drawn at a width of the world (`tests.scale.lifelike`)."""
    return grown(name) if name.startswith(LIFELIKE) else _read(name)


@cache
def _read(name: str) -> Checkpoint:
    return kept_zoo()[name].load()


def model_type_of(name: str) -> str:
    """Return the ``model_type`` of such a model, without drawing it."""
    return size_of(name).model_type if name.startswith(LIFELIKE) else zoo_model(name).family
