"""What ``config.json`` would say, from the keys of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping

from ._architectures import GgufArchitecture
from ._metadata import Metadata


def config_of(
    metadata: Metadata, architecture: GgufArchitecture, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, object]:
    """Return a config with the fields that the file states, under their names in transformers.

    Parameters
    ----------
    metadata
        The keys.
    architecture
        How the model family calls its fields.
    shapes
        Of the tensors as the file names them: they tell the size of the vocabulary, and whether the head is
        tied.
    """
    prefix = metadata.architecture
    config: dict[str, object] = {"model_type": architecture.model_type}
    if architecture.class_name:
        config["architectures"] = [architecture.class_name]
    for key, field in architecture.fields.items():
        value = _stated(metadata, f"{prefix}.{key}")
        if field and value is not None:
            config[field] = value
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
    """Return a number, or that of all layers where it is stated for each and always the same."""
    value = metadata.number(key)
    return metadata.of_layer(key, None) if value is None else value


def _special(config: dict[str, object], metadata: Metadata, model_type: str) -> None:
    """Add what follows from several keys at once."""
    prefix = metadata.architecture
    heads = metadata.of_layer(f"{prefix}.attention.head_count", None)
    width = metadata.whole(f"{prefix}.embedding_length")
    head_dim = metadata.whole(f"{prefix}.attention.key_length")
    if head_dim is not None and heads and width == head_dim * heads and config.get("head_dim") == head_dim:
        del config["head_dim"]  # configs leave out what follows
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
    """Tell the head dimensions apart. Files with absorbed keys state those of the latent beside them."""
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
