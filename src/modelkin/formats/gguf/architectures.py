"""What GGUF calls things and how its converters store them, by architecture: see `architectures.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ._metadata import Metadata

_LAYER = re.compile(r"((?:enc\.|dec\.)?blk\.)(\d{1,6})\.(.+)")
_EXPERT = re.compile(r"(ffn_(?:gate|up|down))\.(\d{1,6})")
_ENDINGS = (".weight", ".bias")
_AS_STATED = ("model_type", "class_name", "rope_rows", "plus_one", "grouped_qkv", "joined_qkv")


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufArchitecture:
    """How the tensors of one architecture are named and stored."""

    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    """Pattern of the file -> patterns of transformers; several when rows are divided among them."""
    model_type: str
    class_name: str | None = None
    rope_rows: bool = False
    plus_one: bool = False
    turned: frozenset[str] = frozenset()
    grouped_qkv: bool = False
    joined_qkv: str | None = None
    as_row: frozenset[str] = frozenset()
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufName:
    """The parsed name of a tensor."""

    pattern: str
    """With ``{layer}`` and ``{expert}`` for numbers, without its ending."""
    ending: str
    """``.weight``, ``.bias`` or nothing."""
    layer: str | None = None
    expert: str | None = None

    @property
    def part(self) -> str:
        """What it is in its layer: ``attn_q``."""
        return self.pattern.rpartition("{layer}.")[2]

    @property
    def layer_number(self) -> int | None:
        """Number of the layer."""
        return None if self.layer is None else int(self.layer)


def take_apart(name: str) -> GgufName:
    """Parse the name of a tensor."""
    ending = next((item for item in _ENDINGS if name.endswith(item)), "")
    base = name.removesuffix(ending)
    found = _LAYER.fullmatch(base)
    if found is None:
        return GgufName(pattern=base, ending=ending)
    expert = _EXPERT.fullmatch(found[3])
    rest = found[3] if expert is None else f"{expert[1]}.{{expert}}"
    return GgufName(
        pattern=f"{found[1]}{{layer}}.{rest}",
        ending=ending,
        layer=found[2],
        expert=None if expert is None else expert[2],
    )


def theirs(architecture: GgufArchitecture, name: GgufName) -> tuple[str, ...]:
    """Return the names in transformers; ``{expert}`` stays in them where a stack is to be split."""
    whole = architecture.names.get(name.pattern + name.ending)
    patterns = architecture.names.get(name.pattern, ()) if whole is None else whole
    ending = name.ending if whole is None else ""
    return tuple(_filled(pattern, name) + ending for pattern in patterns)


def _filled(pattern: str, name: GgufName) -> str:
    text = pattern.replace("{layer}", name.layer or "")
    return text if name.expert is None else text.replace("{expert}", name.expert)


def is_derived(name: GgufName) -> bool:
    """Say whether a tensor is a table that follows from the config."""
    return name.pattern in _document()["derived"]


def architecture_of(metadata: Metadata, tensors: Iterable[str]) -> GgufArchitecture | None:
    """Return what is known about the architecture that a file states; None if nothing is."""
    stated = _document()["architectures"].get(metadata.architecture)
    if stated is None:
        return None
    found = _made(stated)
    patterns: set[str] | None = None
    for variant in stated.get("variants", ()):
        if "key" in variant:
            fits = bool(metadata.whole(f"{metadata.architecture}.{variant['key']}"))
        else:
            if patterns is None:
                patterns = {name for tensor in tensors for name in (tensor, _pattern(tensor))}
            fits = variant["tensor"] in patterns
        if fits:
            found = _changed(found, variant)
    return found


def unknown_architecture(metadata: Metadata) -> GgufArchitecture:
    """Return what holds for every architecture: the keys for sizes, and no names."""
    return GgufArchitecture(model_type=metadata.architecture or "unknown", fields=_document()["fields"])


def _pattern(tensor: str) -> str:
    name = take_apart(tensor)
    return name.pattern + name.ending


def _made(stated: Mapping[str, Any]) -> GgufArchitecture:
    given = {key: stated[key] for key in _AS_STATED if key in stated}
    return GgufArchitecture(
        **given,
        names=_names(stated["layout"]),
        turned=frozenset(stated.get("turned", ())),
        as_row=frozenset(stated.get("as_row", ())),
        fields=_document()["fields"] | stated.get("fields", {}),
    )


def _changed(found: GgufArchitecture, variant: Mapping[str, Any]) -> GgufArchitecture:
    return replace(
        found,
        names=_names(variant["layout"]) if "layout" in variant else found.names,
        model_type=variant.get("model_type", found.model_type),
        class_name=variant.get("class_name", found.class_name),
        fields={**found.fields, **variant.get("fields", {})},
    )


@cache
def _names(layout: str) -> Mapping[str, tuple[str, ...]]:
    stated = dict(_document()["layouts"][layout])
    parent = stated.pop("extends", None)
    own = {key: (value,) if isinstance(value, str) else tuple(value) for key, value in stated.items()}
    return {**(_names(parent) if parent else {}), **own}


@cache
def _document() -> Mapping[str, Any]:
    return tomllib.loads((files(__package__) / "architectures.toml").read_text(encoding="utf-8"))


def config_of(
    metadata: Metadata, architecture: GgufArchitecture, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, object]:
    """Return a config with the fields that the file states, under their names in transformers.

    Shapes of the tensors, as the file names them, tell the size of the vocabulary and whether the head is
    tied.
    """
    prefix = metadata.architecture
    config: dict[str, object] = {"model_type": architecture.model_type}
    if architecture.class_name:
        config["architectures"] = [architecture.class_name]
    for key, name in architecture.fields.items():
        value = _stated(metadata, f"{prefix}.{key}")
        if name and value is not None:
            config[name] = value
    embedding = shapes.get("token_embd.weight", ())
    vocab_field = architecture.fields.get("vocab_size", "vocab_size")
    if len(embedding) == 2:
        config[vocab_field] = embedding[0]
    if "output" in architecture.names:
        config["tie_word_embeddings"] = "output.weight" not in shapes
    for name in ("bos", "eos"):
        if (number := metadata.whole(f"tokenizer.ggml.{name}_token_id")) is not None:
            config[f"{name}_token_id"] = number
    _special(config, metadata, architecture.model_type)
    return config


def _stated(metadata: Metadata, key: str) -> int | float | bool | None:
    """Return a number, or the common value if it is stated for each layer and always the same."""
    value = metadata.number(key)
    return metadata.of_layer(key, None) if value is None else value


def _special(config: dict[str, object], metadata: Metadata, model_type: str) -> None:
    """Add what follows from several keys at once."""
    prefix = metadata.architecture
    heads = metadata.of_layer(f"{prefix}.attention.head_count", None)
    width = metadata.whole(f"{prefix}.embedding_length")
    head_dim = metadata.whole(f"{prefix}.attention.key_length")
    if head_dim is not None and heads and width == head_dim * heads and config.get("head_dim") == head_dim:
        del config["head_dim"]  # configs leave out what is implied
    if head_dim is None and heads and width:
        head_dim = width // heads
    if model_type in ("deepseek_v2", "deepseek_v3"):
        _latent_attention(config, metadata, heads)
    elif model_type == "falcon":
        _falcon(config, heads)
    elif model_type == "mpt":
        _mpt(config, metadata, heads, width)
    elif model_type not in ("gptj", "chatglm"):
        turning = metadata.whole(f"{prefix}.rope.dimension_count")
        if turning and head_dim and 0 < turning < head_dim:
            config["rotary_pct" if model_type == "gpt_neox" else "partial_rotary_factor"] = turning / head_dim


def _latent_attention(config: dict[str, object], metadata: Metadata, heads: int | None) -> None:
    """Tell the head dimensions apart. Files with absorbed keys also state those of the latent."""
    attention = f"{metadata.architecture}.attention"
    absorbed = metadata.whole(f"{attention}.key_length_mla")
    keys = absorbed or metadata.whole(f"{attention}.key_length")
    values = metadata.whole(f"{attention}.value_length_mla") or metadata.whole(f"{attention}.value_length")
    turning = metadata.whole(f"{metadata.architecture}.rope.dimension_count")
    if keys and turning and keys > turning:
        config["qk_nope_head_dim"] = keys - turning
    if values:
        config["v_head_dim"] = values
    if absorbed and heads:
        config["num_key_value_heads"] = heads


def _falcon(config: dict[str, object], heads: int | None) -> None:
    kv_heads = config.get("num_kv_heads", 1)
    config["multi_query"] = kv_heads == 1
    config["new_decoder_architecture"] = kv_heads not in (1, heads)


def _mpt(config: dict[str, object], metadata: Metadata, heads: int | None, width: int | None) -> None:
    prefix = metadata.architecture
    slope = metadata.number(f"{prefix}.attention.max_alibi_bias")
    attention: dict[str, object] = {"alibi": bool(slope)}
    kv_heads = metadata.of_layer(f"{prefix}.attention.head_count_kv", None)
    if kv_heads and kv_heads != heads:
        attention["kv_n_heads"] = kv_heads
    config["attn_config"] = attention
    mlp = metadata.of_layer(f"{prefix}.feed_forward_length", None)
    if mlp and width:
        config["expansion_ratio"] = mlp / width
