"""Llama models without training: tiny ones with random numbers, and huge ones that exist only as headers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from modelkin.formats.safetensors import safetensors_bytes, safetensors_head

from ._bfloat16 import to_bfloat16
from ._safetensors import INDEX_NAME, index_bytes, shard_name, sharded, split_by_size
from ._virtual_file import VirtualFile

FloatName = Literal["F32", "BF16", "F16"]

_TORCH_NAMES: dict[FloatName, str] = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
_INITIALISER_RANGE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaShape:
    """The sizes of a Llama. The defaults make a model of 34 thousand weights."""

    layers: int = 2
    hidden: int = 32
    mlp: int = 64
    heads: int = 4
    kv_heads: int = 2
    vocab: int = 128
    tied: bool = False
    """Whether the output matrix is the embedding and is not stored."""

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield names and shapes in the order of the model's state dict."""
        kv = self.hidden // self.heads * self.kv_heads
        yield "model.embed_tokens.weight", (self.vocab, self.hidden)
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            yield prefix + "self_attn.q_proj.weight", (self.hidden, self.hidden)
            yield prefix + "self_attn.k_proj.weight", (kv, self.hidden)
            yield prefix + "self_attn.v_proj.weight", (kv, self.hidden)
            yield prefix + "self_attn.o_proj.weight", (self.hidden, self.hidden)
            yield prefix + "mlp.gate_proj.weight", (self.mlp, self.hidden)
            yield prefix + "mlp.up_proj.weight", (self.mlp, self.hidden)
            yield prefix + "mlp.down_proj.weight", (self.hidden, self.mlp)
            yield prefix + "input_layernorm.weight", (self.hidden,)
            yield prefix + "post_attention_layernorm.weight", (self.hidden,)
        yield "model.norm.weight", (self.hidden,)
        if not self.tied:
            yield "lm_head.weight", (self.vocab, self.hidden)


BIG_LLAMA = LlamaShape(layers=48, hidden=4096, mlp=11008, heads=32, kv_heads=32, vocab=32000)
"""The layers of a 7B model, 48 of them: 10 billion weights, 20 GB in bfloat16."""


def llama_config(shape: LlamaShape | None = None, *, dtype: FloatName = "F32") -> dict[str, Any]:
    """Return the contents of ``config.json``."""
    shape = shape or LlamaShape()
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.mlp,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.hidden // shape.heads,
        "vocab_size": shape.vocab,
        "tie_word_embeddings": shape.tied,
        "hidden_act": "silu",
        "initializer_range": _INITIALISER_RANGE,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "torch_dtype": _TORCH_NAMES[dtype],
    }


def llama_tensors(
    shape: LlamaShape | None = None, *, seed: int = 0, dtype: FloatName = "F32"
) -> dict[str, NDArray[Any]]:
    """Return a Llama as it is before training, but with norms that are not all one.

    Parameters
    ----------
    shape
        Its sizes; tiny when None.
    seed
        Equal seeds give equal models, up to the rounding of `dtype`.
    dtype
        Of all arrays. ``BF16`` arrays have the dtype of ml_dtypes.
    """
    rng = np.random.default_rng(seed)
    tensors: dict[str, NDArray[Any]] = {}
    for name, extent in (shape or LlamaShape()).tensors():
        values = rng.normal(scale=_INITIALISER_RANGE, size=extent).astype(np.float32)
        if len(extent) == 1:
            values += np.float32(1)
        tensors[name] = _cast(values, dtype)
    return tensors


def llama_files(
    shape: LlamaShape | None = None, *, seed: int = 0, dtype: FloatName = "F32", n_shards: int = 1
) -> dict[str, bytes]:
    """Return a repository: ``config.json`` and one safetensors file, or several with their index."""
    tensors = llama_tensors(shape, seed=seed, dtype=dtype)
    config = {"config.json": json.dumps(llama_config(shape, dtype=dtype), indent=2).encode()}
    if n_shards == 1:
        return {**config, "model.safetensors": safetensors_bytes(tensors)}
    return {**config, **sharded(tensors, n_shards)}


def virtual_llama(
    shape: LlamaShape = BIG_LLAMA, *, seed: int = 0, dtype: FloatName = "BF16", n_shards: int = 4
) -> dict[str, bytes | VirtualFile]:
    """Return a repository of any size: real configuration, index and headers, virtual data.

    The numbers are normally distributed; norms are no exception.
    """
    width = 4 if dtype == "F32" else 2
    layout = {name: (dtype, extent, width * math.prod(extent)) for name, extent in shape.tensors()}
    groups = split_by_size({name: size for name, (_, _, size) in layout.items()}, n_shards)
    files: dict[str, bytes | VirtualFile] = {
        "config.json": json.dumps(llama_config(shape, dtype=dtype), indent=2).encode()
    }
    phase = 0
    for number, names in enumerate(groups, start=1):
        head, _ = safetensors_head({name: layout[name] for name in names})
        size = sum(layout[name][2] for name in names)
        file = VirtualFile(size=len(head) + size, head=head, fill=dtype, seed=seed, phase=phase)
        files[shard_name(number, len(groups)) if len(groups) > 1 else "model.safetensors"] = file
        phase += size
    if len(groups) > 1:
        files[INDEX_NAME] = index_bytes(groups, phase)
    return files


def _cast(values: NDArray[np.float32], dtype: FloatName) -> NDArray[Any]:
    match dtype:
        case "F32":
            return values
        case "F16":
            return values.astype(np.float16)
        case "BF16":
            return to_bfloat16(values).view(ml_dtypes.bfloat16)
