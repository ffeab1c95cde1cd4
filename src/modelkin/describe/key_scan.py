"""What the names and shapes of tensors say in addition to the config: experts, odd layers, other sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.architecture import Role, RoleEntry
from modelkin.model import Model

from .config_fields import named_fields

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks?|layer)\.(\d{1,6})\.")
_EXPERT = re.compile(r"(?:^|\.)experts\.(\d{1,6})\.")
_WORDS = frozenset(
    {"mtp", "nextn", "eh_proj", "enorm", "hnorm", "predict", "predictor", "gmask", "sop", "medusa"}
)
"""Parts of names that indicate more than a plain decoder."""
_PIECES = re.compile(r"\.|_(?!proj)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertCensus:
    """Experts as the tensors have them."""

    layers: int
    """Layers with routed experts."""
    first_layer: int | None
    fewest: int | None
    """Experts of the layer with the fewest; None without experts."""
    most: int | None
    shared: bool
    """Whether there are experts that every token passes through."""
    declared: int | None
    """What the config says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyScan:
    """Names of tensors, examined without knowing the architecture."""

    tensors: int
    layers: int
    """Distinct layer numbers."""
    first_layer: int | None
    last_layer: int | None
    missing: tuple[int, ...]
    """Numbers between first and last that no tensor has."""
    declared: int | None
    """Layers stated by the config."""
    beyond: Mapping[int, int]
    """Layers beyond those in the config -> tensors: prediction layers, or a wrong config."""
    words: Mapping[str, int]
    """Telling parts of names -> tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionCheck:
    """One size: what the config says, and what is stored."""

    name: str
    config: int | None
    stored: int | None
    agrees: bool | None
    """None if one of them is unknown."""


def count_experts(model: Model) -> ExpertCensus:
    """Count the experts of each layer."""
    architecture = model.architecture
    by_layer: dict[int, int] = {}
    for layer in architecture.layers:
        numbers = architecture.experts_of(layer)
        if numbers:
            by_layer[layer] = len(numbers)
    if not by_layer:  # names alone, if the architecture is unknown
        seen: dict[int, set[int]] = {}
        for name in model.index:
            expert, layer_match = _EXPERT.search(name), _LAYER.search(name)
            if expert and layer_match:
                seen.setdefault(int(layer_match[1]), set()).add(int(expert[1]))
        by_layer = {layer: len(numbers) for layer, numbers in seen.items()}
    return ExpertCensus(
        layers=len(by_layer),
        first_layer=min(by_layer, default=None),
        fewest=min(by_layer.values(), default=None),
        most=max(by_layer.values(), default=None),
        shared=any(".shared_expert" in name for name in model.index),
        declared=_declared(model, "n_routed_experts"),
    )


def scan_keys(model: Model) -> KeyScan:
    """Scan all names."""
    counts: dict[int, int] = {}
    words: dict[str, int] = {}
    for name in model.index:
        if found := _LAYER.search(name):
            counts[int(found[1])] = counts.get(int(found[1]), 0) + 1
        for word in _WORDS & set(_PIECES.split(name.lower())):
            words[word] = words.get(word, 0) + 1
    declared = _declared(model, "num_hidden_layers")
    first, last = min(counts, default=None), max(counts, default=None)
    missing = (
        ()
        if first is None or last is None or last - first > 100_000
        else tuple(number for number in range(first, last) if number not in counts)
    )
    return KeyScan(
        tensors=len(model.index),
        layers=len(counts),
        first_layer=first,
        last_layer=last,
        missing=missing[:100],
        declared=declared,
        beyond={
            number: count
            for number, count in sorted(counts.items())
            if declared is not None and number >= declared
        },
        words=dict(sorted(words.items())),
    )


def check_dimensions(model: Model) -> tuple[DimensionCheck, ...]:
    """Compare sizes of the config with shapes of tensors whose role is known."""
    architecture = model.architecture
    heads = _declared(model, "num_attention_heads")
    kv_heads = _declared(model, "num_key_value_heads") or heads
    width = _declared(model, "hidden_size")
    head = _declared(model, "head_dim") or (width // heads if width and heads else None)
    layer = next(iter(architecture.layers_of(Role.ATTENTION_QUERY)), None)
    dense = next(iter(architecture.layers_of(Role.MLP_UP)), None)
    routed = next((number for number in architecture.layers if architecture.experts_of(number)), None)
    rows = [
        ("vocab_size", _declared(model, "vocab_size"), _axis(model, Role.EMBEDDING, None, 0)),
        ("hidden_size", width, _axis(model, Role.EMBEDDING, None, 1)),
        ("num_hidden_layers", _declared(model, "num_hidden_layers"), architecture.n_layers or None),
        (
            "num_attention_heads * head_dim",
            heads * head if heads and head else None,
            _axis(model, Role.ATTENTION_QUERY, layer, 0),
        ),
        (
            "num_key_value_heads * head_dim",
            kv_heads * head if kv_heads and head else None,
            _axis(model, Role.ATTENTION_KEY, layer, 0),
        ),
        ("intermediate_size", _declared(model, "intermediate_size"), _axis(model, Role.MLP_UP, dense, 0)),
    ]
    if routed is not None:
        rows.append(
            ("n_routed_experts", _declared(model, "n_routed_experts"), len(architecture.experts_of(routed)))
        )
    return tuple(
        DimensionCheck(
            name=name,
            config=said,
            stored=stored,
            agrees=None if said is None or stored is None else said == stored,
        )
        for name, said, stored in rows
    )


def _axis(model: Model, role: Role, layer: int | None, axis: int) -> int | None:
    """Return a length as the role has it; None if it is fused with others, packed or unknown."""
    entry: RoleEntry | None = model.architecture.find(role, layer)
    if entry is None or entry.segment is not None:
        return None
    shape = model.index[entry.tensor].shape
    if len(shape) != 2:
        return None
    return shape[1 - axis] if entry.transposed else shape[axis]


def _declared(model: Model, name: str) -> int | None:
    _, value = named_fields(model.config or {}).get(name, ("", None))
    return value if type(value) is int and value >= 0 else None
