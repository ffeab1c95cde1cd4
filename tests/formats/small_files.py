"""Files of CTranslate2, whisper.cpp and llama2.c, written by hand after their writers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# -- CTranslate2 ---------------------------------------------------------------------------------------

CT2_TYPES = {"<f4": 0, "|i1": 1, "<i2": 2, "<i4": 3, "<f2": 4}


def ct2_text(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def ct2_file(
    variables: Mapping[str, Array],
    aliases: Mapping[str, str] | None = None,
    *,
    spec: str = "TransformerDecoderSpec",
    version: int = 6,
) -> bytes:
    out = [struct.pack("<I", version)]
    if version >= 2:
        out += [ct2_text(spec), struct.pack("<I", 8)]
    out.append(struct.pack("<I", len(variables)))
    for name, array in sorted(variables.items()):
        out += [ct2_text(name), struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)]
        if version >= 4:
            out.append(struct.pack("<BI", CT2_TYPES[array.dtype.str], array.nbytes))
        else:
            out.append(struct.pack("<BI", array.itemsize, array.size))
        out.append(array.tobytes())
    if version >= 3:
        out.append(struct.pack("<I", len(aliases or {})))
        out += [ct2_text(alias) + ct2_text(name) for alias, name in sorted((aliases or {}).items())]
    return b"".join(out)


_LAYER = {
    "input_layernorm": "self_attention/layer_norm/gamma",
    "self_attn.o_proj": "self_attention/linear_1/weight",
    "post_attention_layernorm": "ffn/layer_norm/gamma",
    "mlp.gate_proj": "ffn/linear_0/weight",
    "mlp.up_proj": "ffn/linear_0_noact/weight",
    "mlp.down_proj": "ffn/linear_1/weight",
}


def ct2_llama(
    config: Mapping[str, Any], tensors: Mapping[str, Array], *, kind: str = "f32", version: int = 6
) -> bytes:
    """Convert as the converter of Llama does: queries, keys and values joined, settings as scalars."""
    n_layers = config["num_hidden_layers"]
    variables: dict[str, Array] = {
        "decoder/embeddings/weight": tensors["model.embed_tokens.weight"],
        "decoder/layer_norm/gamma": tensors["model.norm.weight"],
        "decoder/num_heads": np.array(config["num_attention_heads"], "<i2"),
        "decoder/pre_norm": np.array(1, "i1"),
    }
    aliases = {}
    if "lm_head.weight" in tensors:
        variables["decoder/projection/weight"] = tensors["lm_head.weight"]
    else:
        aliases["decoder/projection/weight"] = "decoder/embeddings/weight"
    for layer in range(n_layers):
        here, there = f"model.layers.{layer}.", f"decoder/layer_{layer}/"
        fused = [tensors[f"{here}self_attn.{part}_proj.weight"] for part in "qkv"]
        variables[f"{there}self_attention/linear_0/weight"] = np.concatenate(fused)
        variables[f"{there}self_attention/num_heads_kv"] = np.array(config["num_key_value_heads"], "<i4")
        variables[f"{there}self_attention/rotary_interleave"] = np.array(0, "i1")
        for name, variable in _LAYER.items():
            variables[there + variable] = tensors[f"{here}{name}.weight"]
    for name, array in list(variables.items()):
        if array.ndim:
            variables[name] = array.astype("<f2" if kind == "f16" else "<f4")
        if kind.startswith("int") and array.ndim == 2 and name.endswith("weight"):
            codes, scales = (ct2_int8 if kind == "int8" else ct2_int16)(array)
            variables |= {name: codes, f"{name}_scale": scales}
    return ct2_file(variables, aliases, version=version)


def ct2_int8(array: Array) -> tuple[Array, Array]:
    most = np.abs(array.reshape(len(array), -1)).max(1)
    most[most == 0] = 127.0
    scales = (np.float32(127) / most).astype("<f4")
    shaped = scales.reshape(-1, *[1] * (array.ndim - 1))
    return np.rint(array * shaped).astype("i1"), scales


def ct2_int16(array: Array) -> tuple[Array, Array]:
    scale = np.float32(2**10 / np.abs(array).max())
    return np.rint(array * scale).astype("<i2"), np.array(scale, "<f4")


# -- ggml ----------------------------------------------------------------------------------------------

GGML_SIZES = (40, 12, 8, 2, 1, 10, 8, 2, 1, 4)
"""Vocabulary, positions, width, heads and layers of audio, the same of text, mel bins."""


def ggml_file(
    tensors: Mapping[str, tuple[int, Sequence[int], bytes]],
    *,
    sizes: Sequence[int] = GGML_SIZES,
    ftype: int = 1,
    tokens: Sequence[bytes] = (b"a", b" the", b"\xff\n", b""),
    filters: tuple[int, int] = (4, 5),
) -> bytes:
    """Write tensors that are given as (type, shape, bytes)."""
    out = [b"lmgg", struct.pack("<11i", *sizes, ftype), struct.pack("<2i", *filters)]
    out += [bytes(4 * filters[0] * filters[1]), struct.pack("<i", len(tokens))]
    out += [struct.pack("<I", len(token)) + token for token in tokens]
    for name, (kind, shape, data) in tensors.items():
        out.append(struct.pack(f"<3i{len(shape)}i", len(shape), len(name), kind, *shape[::-1]))
        out += [name.encode(), data]
    return b"".join(out)


def whisper_shapes(sizes: Sequence[int] = GGML_SIZES) -> dict[str, tuple[int, ...]]:
    """Return the tensors of an original Whisper; the biases of convolutions as ggml stores them."""
    vocab, audio, width, _, audio_layers, text, _, _, text_layers, mels = sizes
    found: dict[str, tuple[int, ...]] = {
        "decoder.positional_embedding": (text, width),
        "encoder.positional_embedding": (audio, width),
        "decoder.token_embedding.weight": (vocab, width),
        "encoder.conv1.weight": (width, mels, 3),
        "encoder.conv1.bias": (width, 1),
        "encoder.conv2.weight": (width, width, 3),
        "encoder.conv2.bias": (width, 1),
    }
    norms = ["encoder.ln_post", "decoder.ln"]
    for stack, layers in (("encoder", audio_layers), ("decoder", text_layers)):
        attentions = ["attn"] if stack == "encoder" else ["attn", "cross_attn"]
        for layer in range(layers):
            block = f"{stack}.blocks.{layer}."
            norms += [f"{block}{attention}_ln" for attention in attentions] + [f"{block}mlp_ln"]
            for attention in attentions:
                for part in ("query", "key", "value", "out"):
                    found[f"{block}{attention}.{part}.weight"] = (width, width)
                    if part != "key":
                        found[f"{block}{attention}.{part}.bias"] = (width,)
            found |= {f"{block}mlp.0.weight": (4 * width, width), f"{block}mlp.0.bias": (4 * width,)}
            found |= {f"{block}mlp.2.weight": (width, 4 * width), f"{block}mlp.2.bias": (width,)}
    for norm in norms:
        found |= {f"{norm}.weight": (width,), f"{norm}.bias": (width,)}
    return found


def ggml_whisper(*, seed: int = 0, sizes: Sequence[int] = GGML_SIZES) -> tuple[bytes, dict[str, Array]]:
    """Return a file with matrices in half precision, and what is in it."""
    rng = np.random.default_rng(seed)
    arrays = {
        name: rng.normal(size=shape).astype("<f2" if len(shape) > 1 and shape[1] > 1 else "<f4")
        for name, shape in whisper_shapes(sizes).items()
    }
    stored = {
        name: (int(array.dtype == np.float16), array.shape, array.tobytes()) for name, array in arrays.items()
    }
    return ggml_file(stored, sizes=sizes), arrays


# -- llama2.c ------------------------------------------------------------------------------------------

_KINDS = {
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "wq": "self_attn.q_proj",
    "wk": "self_attn.k_proj",
    "wv": "self_attn.v_proj",
    "wo": "self_attn.o_proj",
    "w1": "mlp.gate_proj",
    "w2": "mlp.down_proj",
    "w3": "mlp.up_proj",
}


def meta_rows(array: Array, head_dim: int) -> Array:
    """Put rows of queries or keys into Meta's order: the inverse of what transformers' converter does."""
    heads = len(array) // head_dim
    shaped = array.reshape(heads, 2, head_dim // 2, -1)
    return shaped.swapaxes(1, 2).reshape(array.shape)


def llama2c_file(
    config: Mapping[str, Any], tensors: Mapping[str, Array], *, version: int = 0, group: int = 32
) -> bytes:
    """Export as ``export.py`` does."""
    dim, heads = config["hidden_size"], config["num_attention_heads"]
    tied = "lm_head.weight" not in tensors
    sizes = [
        *(dim, config["intermediate_size"], config["num_hidden_layers"], heads),
        *(config["num_key_value_heads"], config["vocab_size"], config["max_position_embeddings"]),
    ]

    def all_of(kind: str) -> list[Array]:
        found = [
            tensors[f"model.layers.{layer}.{_KINDS[kind]}.weight"].astype("<f4")
            for layer in range(config["num_hidden_layers"])
        ]
        return [meta_rows(array, dim // heads) for array in found] if kind in ("wq", "wk") else found

    embedding, norm = tensors["model.embed_tokens.weight"], tensors["model.norm.weight"]
    head = [] if tied else [tensors["lm_head.weight"]]
    attention = [array for kind in ("wq", "wk", "wv", "wo") for array in all_of(kind)]
    mlp = [array for kind in ("w1", "w2", "w3") for array in all_of(kind)]
    if version == 0:
        sizes[5] *= 1 if tied else -1
        tables = [np.zeros((sizes[6], dim // heads // 2), "<f4")] * 2
        arrays = [embedding, *all_of("attention_norm"), *attention, *all_of("ffn_norm"), *mlp, norm, *tables]
        return struct.pack("<7i", *sizes) + b"".join(a.astype("<f4").tobytes() for a in [*arrays, *head])
    start = struct.pack("<Ii7iB", 0x616B3432, version, *sizes, tied)
    norms = [*all_of("attention_norm"), *all_of("ffn_norm"), norm]
    matrices = [embedding, *attention, *mlp, *head]
    if version == 1:
        return start.ljust(256, b"\0") + b"".join(a.astype("<f4").tobytes() for a in [*norms, *matrices])
    start += struct.pack("<i", group)
    coded = [part for array in matrices for part in q80(array, group)]
    return start.ljust(256, b"\0") + b"".join(
        [*(a.astype("<f4").tobytes() for a in norms), *(part.tobytes() for part in coded)]
    )


def q80(array: Array, group: int) -> tuple[Array, Array]:
    grouped = array.astype(np.float32).reshape(-1, group)
    scales = (np.abs(grouped).max(1) / np.float32(127)).astype("<f4")
    safe = np.where(scales == 0, np.float32(1), scales)
    return np.rint(grouped / safe[:, None]).astype("i1"), scales
