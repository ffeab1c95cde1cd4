"""Tiny models of the families in the shipped studies, with gains whose statistics are known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tests.support import to_bfloat16

from modelkin.formats.safetensors import safetensors_bytes

Floats = npt.NDArray[np.float64]
HIDDEN = 32
HEAD = 8
EXPERT = 4
EXPERTS = 16
WORDS = tuple("abcdefgh"[i] + "aeiou"[j] + "klm"[k] for i in range(8) for j in range(3) for k in range(1))


def unit_pattern(seed: int, n: int = HIDDEN) -> Floats:
    """Return a vector with mean 0 and standard deviation 1."""
    found = np.random.default_rng(seed).standard_normal(n)
    return np.asarray((found - found.mean()) / found.std())


def gain(mean: float, std: float, seed: int, n: int = HIDDEN) -> Floats:
    """Return a vector with exactly this mean and standard deviation."""
    return mean + std * unit_pattern(seed, n)


def correlated(r: float, seed: int, other: int, n: int = HIDDEN) -> Floats:
    """Return a pattern that correlates by exactly r with the pattern of another seed."""
    base = unit_pattern(other, n)
    own = unit_pattern(seed, n)
    own = own - (own @ base) / n * base
    own = (own - own.mean()) / own.std()
    return np.asarray(r * base + np.sqrt(1 - r * r) * own)


@dataclass(frozen=True, kw_only=True)
class Tiny:
    """A tiny model."""

    family: str
    layers: int
    seed: int
    heads: int = 4
    kv_heads: int = 2
    vocab: int = 64
    mtp: bool = False
    dense: int = 0
    """First layers without experts, where the family mixes both."""
    hidden: int = HIDDEN
    bf16: bool = False


def gains(tiny: Tiny, layer: int, kind: int) -> Floats:
    """Return gains like those of real models: layer 0 mostly spread, the others mostly mean."""
    seed = 1000 * tiny.seed + 2 * layer + kind
    if layer == 0 and kind == 0:
        return gain(0.016, 0.04, seed, tiny.hidden)
    return gain(0.2 + 0.02 * layer + 0.3 * kind, 0.03, seed, tiny.hidden)


def tensors(tiny: Tiny) -> dict[str, Floats]:
    """Return all tensors of a model."""
    rng = np.random.default_rng(tiny.seed)
    d, head = tiny.hidden, HEAD

    def normal(*shape: int) -> Floats:
        return rng.standard_normal(shape) * 0.02

    found = {"model.embed_tokens.weight": normal(tiny.vocab, d), "lm_head.weight": normal(tiny.vocab, d)}
    found["model.norm.weight"] = gain(1.0, 0.1, tiny.seed, d)
    if tiny.family == "phimoe":
        found["model.norm.bias"] = normal(d)
        found["lm_head.bias"] = normal(tiny.vocab)
    for layer in range(tiny.layers + tiny.mtp):
        p = f"model.layers.{layer}."
        found[p + "input_layernorm.weight"] = gains(tiny, layer, 0)
        found[p + "post_attention_layernorm.weight"] = gains(tiny, layer, 1)
        for name, shape in {
            "q_proj": (tiny.heads * head, d),
            "k_proj": (tiny.kv_heads * head, d),
            "v_proj": (tiny.kv_heads * head, d),
            "o_proj": (d, tiny.heads * head),
        }.items():
            found[f"{p}self_attn.{name}.weight"] = normal(*shape)
        found |= _mlp(tiny, p, normal, dense=layer < tiny.dense)
        if tiny.family == "phimoe":
            found[p + "input_layernorm.bias"] = normal(d)
            found[p + "post_attention_layernorm.bias"] = normal(d)
            for name, width in (("q", tiny.heads), ("k", tiny.kv_heads), ("v", tiny.kv_heads)):
                found[f"{p}self_attn.{name}_proj.bias"] = normal(width * head)
            found[p + "self_attn.o_proj.bias"] = normal(d)
        if layer >= tiny.layers:
            found[p + "enorm.weight"], found[p + "hnorm.weight"] = gain(1, 0.1, 1, d), gain(1, 0.1, 2, d)
            found[p + "eh_proj.weight"] = normal(d, 2 * d)
            found[p + "shared_head.norm.weight"] = gain(1, 0.1, 3, d)
    return found


def _mlp(tiny: Tiny, p: str, normal: Any, *, dense: bool) -> dict[str, Floats]:
    d, width = tiny.hidden, 32
    if dense or tiny.family in ("llama", "mistral", "qwen2", "internlm2"):
        return {
            p + "mlp.gate_proj.weight": normal(width, d),
            p + "mlp.up_proj.weight": normal(width, d),
            p + "mlp.down_proj.weight": normal(d, width),
        }
    if tiny.family in ("mixtral", "phimoe"):
        found = {p + "block_sparse_moe.gate.weight": normal(EXPERTS, d)}
        for expert in range(EXPERTS):
            e = f"{p}block_sparse_moe.experts.{expert}."
            found |= {
                e + "w1.weight": normal(EXPERT, d),
                e + "w3.weight": normal(EXPERT, d),
                e + "w2.weight": normal(d, EXPERT),
            }
        return found
    found = {p + "mlp.gate.weight": normal(EXPERTS, d)}
    found[p + "mlp.gate.e_score_correction_bias"] = normal(EXPERTS)
    for expert in range(EXPERTS):
        e = f"{p}mlp.experts.{expert}."
        found |= {e + f"{n}_proj.weight": normal(EXPERT, d) for n in ("gate", "up")}
        found[e + "down_proj.weight"] = normal(d, EXPERT)
    found |= {p + f"mlp.shared_experts.{n}_proj.weight": normal(EXPERT, d) for n in ("gate", "up")}
    found[p + "mlp.shared_experts.down_proj.weight"] = normal(d, EXPERT)
    return found


_CLASSES = {
    "glm4_moe": "Glm4MoeForCausalLM", "solar_open": "SolarOpenForCausalLM", "phimoe": "PhiMoEForCausalLM",
    "mixtral": "MixtralForCausalLM", "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
}  # fmt: skip


def config(tiny: Tiny) -> dict[str, Any]:
    """Return the config."""
    return {
        "architectures": [_CLASSES[tiny.family]],
        "model_type": tiny.family,
        "hidden_size": tiny.hidden,
        "intermediate_size": EXPERT if tiny.family in ("mixtral", "phimoe") else 32,
        "moe_intermediate_size": EXPERT,
        "num_hidden_layers": tiny.layers,
        "num_attention_heads": tiny.heads,
        "num_key_value_heads": tiny.kv_heads,
        "head_dim": HEAD,
        "n_routed_experts": EXPERTS,
        "num_local_experts": EXPERTS,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": tiny.dense,
        "vocab_size": tiny.vocab,
        "num_nextn_predict_layers": int(tiny.mtp),
        "tie_word_embeddings": False,
        "rope_theta": 1_000_000,
    }


def tokenizer(shift: int) -> bytes:
    """Return a word-level tokenizer: the same words, at ids shifted round by some places."""
    words = [*WORDS] + [f"w{number}" for number in range(32)]
    order = words[shift:] + words[:shift]
    vocab = {word: at for at, word in enumerate(order)}
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": "w0"}
    return json.dumps({"version": "1.0", "added_tokens": [], "model": model}).encode()


def files(tiny: Tiny, changed: Mapping[str, Floats] | None = None) -> dict[str, bytes]:
    """Return a repository."""
    found = tensors(tiny) | dict(changed or {})
    stored: dict[str, Any] = {name: values.astype(np.float32) for name, values in found.items()}
    if tiny.bf16:
        stored = {name: to_bfloat16(values).view(ml_dtypes.bfloat16) for name, values in stored.items()}
    return {
        "config.json": json.dumps(config(tiny)).encode(),
        "model.safetensors": safetensors_bytes(stored),
        "tokenizer.json": tokenizer(tiny.seed % 7),
    }
