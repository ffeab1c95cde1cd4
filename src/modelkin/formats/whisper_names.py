"""Whisper as its authors stored it: their names of tensors and sizes, translated to the usual ones.

The original checkpoints and the files of whisper.cpp share these names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

DIMS = (
    *("n_mels", "n_vocab"),
    *("n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer"),
    *("n_text_ctx", "n_text_state", "n_text_head", "n_text_layer"),
)
"""What the original checkpoints state under ``dims``."""

_PARAMETER = re.compile(r"(.+)\.(weight|bias)")
_BLOCK = re.compile(r"(encoder|decoder)\.blocks\.([0-9]{1,4})\.(.+)")

_OUTSIDE = {
    "encoder.conv1": "encoder.conv1",
    "encoder.conv2": "encoder.conv2",
    "encoder.ln_post": "encoder.layer_norm",
    "decoder.ln": "decoder.layer_norm",
    "decoder.token_embedding": "decoder.embed_tokens",
}
_POSITIONS = {
    f"{stack}.positional_embedding": f"{stack}.embed_positions.weight" for stack in ("encoder", "decoder")
}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}
_INSIDE = {
    **{f"attn.{name}": f"self_attn.{known}" for name, known in _PROJECTIONS.items()},
    **{f"cross_attn.{name}": f"encoder_attn.{known}" for name, known in _PROJECTIONS.items()},
    "attn_ln": "self_attn_layer_norm",
    "cross_attn_ln": "encoder_attn_layer_norm",
    "mlp.0": "fc1",
    "mlp.2": "fc2",
    "mlp_ln": "final_layer_norm",
}


def is_openai_whisper(names: Iterable[str]) -> bool:
    """Say whether tensors are named as in the original checkpoints."""
    found = set(names)
    return {"decoder.token_embedding.weight", "encoder.conv1.weight", "encoder.ln_post.weight"} <= found


def whisper_name(name: str) -> str:
    """Return what transformers calls a tensor of the original checkpoints; an unknown name stays as it is.

    Examples
    --------
    >>> whisper_name("decoder.blocks.3.cross_attn.query.weight")
    'model.decoder.layers.3.encoder_attn.q_proj.weight'
    >>> whisper_name("encoder.positional_embedding")
    'model.encoder.embed_positions.weight'
    """
    if name in _POSITIONS:
        return f"model.{_POSITIONS[name]}"
    parameter = _PARAMETER.fullmatch(name)
    if parameter is None:
        return name
    module, kind = parameter.groups()
    if module in _OUTSIDE:
        return f"model.{_OUTSIDE[module]}.{kind}"
    block = _BLOCK.fullmatch(module)
    if block is None or block[3] not in _INSIDE:
        return name
    return f"model.{block[1]}.layers.{int(block[2])}.{_INSIDE[block[3]]}.{kind}"


def whisper_config(dims: Mapping[str, object]) -> dict[str, object] | None:
    """Return what ``config.json`` would say; None unless all sizes of `DIMS` are there and fit together."""
    sizes = {name: value for name in DIMS if type(value := dims.get(name)) is int and value > 0}
    if len(sizes) < len(DIMS) or sizes["n_audio_state"] != sizes["n_text_state"]:
        return None
    width = sizes["n_text_state"]
    return {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "d_model": width,
        "num_mel_bins": sizes["n_mels"],
        "vocab_size": sizes["n_vocab"],
        "max_source_positions": sizes["n_audio_ctx"],
        "max_target_positions": sizes["n_text_ctx"],
        "encoder_layers": sizes["n_audio_layer"],
        "encoder_attention_heads": sizes["n_audio_head"],
        # The original code has no other width for this layer.
        "encoder_ffn_dim": 4 * width,
        "decoder_layers": sizes["n_text_layer"],
        "decoder_attention_heads": sizes["n_text_head"],
        "decoder_ffn_dim": 4 * width,
        "tie_word_embeddings": True,
    }
