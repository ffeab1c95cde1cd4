"""The models of the shipped studies at true names, configs, shapes and shard counts; their weights are drawn.

1.2 TB in all, none of it on disk: headers, configs and tokenizers are made when a Hub starts,
and weights when they are read (`tests.support.DrawnFile`).
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from tests.support import DrawnFile

from modelkin.formats.safetensors.writing import safetensors_head

Extent = tuple[int, ...]
Tensors = Iterator[tuple[str, Extent]]
Files = dict[str, bytes | DrawnFile]

_F32 = "e_score_correction_bias"


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """One model: what its config says, and how its tensors are named."""

    config: Mapping[str, Any] = field(repr=False)
    layout: Callable[[Mapping[str, Any]], Tensors]
    seed: str
    """Models with one seed have the same weights, except for their last bits if `touched` differs."""
    touched: int = 0
    shard_bytes: int = 5_000_000_000
    """The longest shard: that of `save_pretrained`, unless somebody chose another."""
    by_layer: bool = False
    """One shard per layer instead."""
    vocabulary: str | None = None
    """Tokenizers of one name are the same file; None means a model without a tokenizer.json."""

    def tensors(self) -> Tensors:
        """Yield names and shapes in the order of the state dict."""
        return self.layout(self.config)

    def files(self) -> Files:
        """Return its repository."""
        groups = self._groups()
        names = [
            f"model-{number:05d}-of-{len(groups):05d}.safetensors" for number in range(1, len(groups) + 1)
        ]
        made: Files = {
            "README.md": b"---\nlicense: other\n---\nA model.\n",
            "config.json": json.dumps(dict(self.config), indent=2).encode(),
            "generation_config.json": b"{}",
        }
        if self.vocabulary is not None:
            made["tokenizer.json"] = tokenizer_json(int(self.config["vocab_size"]), self.vocabulary)
            made["tokenizer_config.json"] = b'{"tokenizer_class": "PreTrainedTokenizerFast"}'
        phase = 0
        for name, group in zip(names, groups, strict=True):
            head, _ = safetensors_head(group)
            size = sum(n_bytes for _, _, n_bytes in group.values())
            made[name] = DrawnFile(
                head=head,
                size=len(head) + size,
                seed=zlib.crc32(self.seed.encode()),
                phase=phase,
                touched=self.touched,
            )
            phase += size
        weight_map = {tensor: name for name, group in zip(names, groups, strict=True) for tensor in group}
        index = {"metadata": {"total_size": phase}, "weight_map": dict(sorted(weight_map.items()))}
        made["model.safetensors.index.json"] = json.dumps(index, indent=2).encode()
        return made

    def _groups(self) -> list[dict[str, tuple[str, Extent, int]]]:
        """Deal tensors out to shards, in their order."""
        groups: list[dict[str, tuple[str, Extent, int]]] = [{}]
        held, place = 0, 0
        for name, extent in self.tensors():
            wide = name.endswith(_F32)
            n_bytes = (4 if wide else 2) * math.prod(extent)
            layer = int(name.split(".")[2]) if name.startswith("model.layers.") else place
            if groups[-1] and (layer != place if self.by_layer else held + n_bytes > self.shard_bytes):
                groups.append({})
                held = 0
            groups[-1][name] = ("F32" if wide else "BF16", extent, n_bytes)
            held, place = held + n_bytes, layer
        return groups


def dense(config: Mapping[str, Any]) -> Tensors:
    """Yield the tensors of Llama, Mistral, Yi and, with biases, Qwen2 or, with norms of heads, Qwen3."""
    hidden, mlp = config["hidden_size"], config["intermediate_size"]
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield from _attention(config, prefix, biases=config["model_type"] == "qwen2")
        if config["model_type"] == "qwen3":
            for name in ("q_norm", "k_norm"):
                yield f"{prefix}self_attn.{name}.weight", (config["head_dim"],)
        yield from _mlp(f"{prefix}mlp.", hidden, mlp)
        yield from _norms(prefix, hidden)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], hidden)


def mixtral(config: Mapping[str, Any]) -> Tensors:
    """Yield the tensors of Mixtral and, with biases, of Phi-3.5-MoE."""
    hidden, mlp = config["hidden_size"], config["intermediate_size"]
    biases = config["model_type"] == "phimoe"
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield from _attention(config, prefix, biases=biases, output_bias=biases)
        yield f"{prefix}block_sparse_moe.gate.weight", (config["num_local_experts"], hidden)
        for expert in range(config["num_local_experts"]):
            inside = f"{prefix}block_sparse_moe.experts.{expert}."
            yield f"{inside}w1.weight", (mlp, hidden)
            yield f"{inside}w2.weight", (hidden, mlp)
            yield f"{inside}w3.weight", (mlp, hidden)
        yield from _norms(prefix, hidden, biases=biases)
    yield "model.norm.weight", (hidden,)
    if biases:
        yield "model.norm.bias", (hidden,)
        yield "lm_head.bias", (config["vocab_size"],)
    yield "lm_head.weight", (config["vocab_size"], hidden)


def glm_moe(config: Mapping[str, Any]) -> Tensors:
    """Yield the tensors of GLM-4.5 with the layer that predicts a further token, and of Solar-Open."""
    hidden, experts = config["hidden_size"], config["n_routed_experts"]
    n_layers, n_extra = config["num_hidden_layers"], config.get("num_nextn_predict_layers", 0)
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for layer in range(n_layers + n_extra):
        prefix = f"model.layers.{layer}."
        yield from _attention(config, prefix, biases=config["attention_bias"])
        if layer < config["first_k_dense_replace"]:
            yield from _mlp(f"{prefix}mlp.", hidden, config["intermediate_size"])
        else:
            yield f"{prefix}mlp.gate.weight", (experts, hidden)
            yield f"{prefix}mlp.gate.{_F32}", (experts,)
            yield from _mlp(f"{prefix}mlp.shared_experts.", hidden, config["moe_intermediate_size"])
            for expert in range(experts):
                yield from _mlp(f"{prefix}mlp.experts.{expert}.", hidden, config["moe_intermediate_size"])
        yield from _norms(prefix, hidden)
        if layer >= n_layers:
            yield f"{prefix}eh_proj.weight", (hidden, 2 * hidden)
            for name in ("embed_tokens", "shared_head.head"):
                yield f"{prefix}{name}.weight", (config["vocab_size"], hidden)
            for name in ("enorm", "hnorm", "shared_head.norm"):
                yield f"{prefix}{name}.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (config["vocab_size"], hidden)


def internlm2(config: Mapping[str, Any]) -> Tensors:
    """Yield the tensors of InternLM2, which keeps queries, keys and values in one matrix."""
    hidden, mlp = config["hidden_size"], config["intermediate_size"]
    head = hidden // config["num_attention_heads"]
    rows = (config["num_attention_heads"] + 2 * config["num_key_value_heads"]) * head
    yield "model.tok_embeddings.weight", (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield f"{prefix}attention.wqkv.weight", (rows, hidden)
        yield f"{prefix}attention.wo.weight", (hidden, hidden)
        yield f"{prefix}feed_forward.w1.weight", (mlp, hidden)
        yield f"{prefix}feed_forward.w3.weight", (mlp, hidden)
        yield f"{prefix}feed_forward.w2.weight", (hidden, mlp)
        yield f"{prefix}attention_norm.weight", (hidden,)
        yield f"{prefix}ffn_norm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    yield "output.weight", (config["vocab_size"], hidden)


def _attention(
    config: Mapping[str, Any], prefix: str, *, biases: bool = False, output_bias: bool = False
) -> Tensors:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head = config.get("head_dim", hidden // heads)
    key = config["num_key_value_heads"] * head
    for part, rows in (("q_proj", heads * head), ("k_proj", key), ("v_proj", key)):
        yield f"{prefix}self_attn.{part}.weight", (rows, hidden)
        if biases:
            yield f"{prefix}self_attn.{part}.bias", (rows,)
    yield f"{prefix}self_attn.o_proj.weight", (hidden, heads * head)
    if output_bias:
        yield f"{prefix}self_attn.o_proj.bias", (hidden,)


def _mlp(prefix: str, hidden: int, width: int) -> Tensors:
    yield f"{prefix}gate_proj.weight", (width, hidden)
    yield f"{prefix}up_proj.weight", (width, hidden)
    yield f"{prefix}down_proj.weight", (hidden, width)


def _norms(prefix: str, hidden: int, *, biases: bool = False) -> Tensors:
    for name in ("input_layernorm", "post_attention_layernorm"):
        yield f"{prefix}{name}.weight", (hidden,)
        if biases:
            yield f"{prefix}{name}.bias", (hidden,)


def _config(
    kind: str, *, hidden: int, layers: int, mlp: int, heads: int, kv_heads: int, vocab: int, **more: object
) -> dict[str, Any]:
    return {
        "architectures": [_CLASSES[kind]],
        "model_type": kind,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": mlp,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        **more,
    }


_CLASSES = {
    "glm4_moe": "Glm4MoeForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "phimoe": "PhiMoEForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "solar_open": "SolarOpenForCausalLM",
}
_SPARSE: Mapping[str, object] = {
    "head_dim": 128,
    "n_group": 1,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": 8,
    "rope_theta": 1_000_000,
    "routed_scaling_factor": 1.0,
    "topk_group": 1,
}
_GLM = _config(
    "glm4_moe",
    hidden=4096,
    layers=46,
    mlp=10_944,
    heads=96,
    kv_heads=8,
    vocab=151_552,
    moe_intermediate_size=1408,
    first_k_dense_replace=1,
    num_nextn_predict_layers=1,
    attention_bias=True,
    partial_rotary_factor=0.5,
    use_qk_norm=False,
    **_SPARSE,
)
_SOLAR = _config(
    "solar_open",
    hidden=4096,
    layers=48,
    mlp=10_240,
    heads=64,
    kv_heads=8,
    vocab=196_608,
    moe_intermediate_size=1280,
    first_k_dense_replace=0,
    attention_bias=False,
    partial_rotary_factor=1.0,
    **_SPARSE,
)
_PHI = _config(
    "phimoe",
    hidden=4096,
    layers=32,
    mlp=6400,
    heads=32,
    kv_heads=8,
    vocab=32_064,
    num_local_experts=16,
    num_experts_per_tok=2,
    attention_bias=True,
    lm_head_bias=True,
)


def _mixtral(*, hidden: int, layers: int, mlp: int, heads: int, vocab: int) -> dict[str, Any]:
    return _config(
        "mixtral",
        hidden=hidden,
        layers=layers,
        mlp=mlp,
        heads=heads,
        kv_heads=8,
        vocab=vocab,
        num_local_experts=8,
        num_experts_per_tok=2,
    )


def _qwen3(*, hidden: int, layers: int, mlp: int, heads: int, tie_word_embeddings: bool) -> dict[str, Any]:
    return _config(
        "qwen3",
        hidden=hidden,
        layers=layers,
        mlp=mlp,
        heads=heads,
        kv_heads=8,
        vocab=151_936,
        head_dim=128,
        tie_word_embeddings=tie_word_embeddings,
    )


def _small(kind: str, *, layers: int = 32, mlp: int, kv_heads: int, vocab: int) -> dict[str, Any]:
    """Return the config of a dense model of 32 heads and width 4096."""
    return _config(kind, hidden=4096, layers=layers, mlp=mlp, heads=32, kv_heads=kv_heads, vocab=vocab)


_LLAMA = _small("llama", mlp=11_008, kv_heads=32, vocab=32_000)

MODELS: Mapping[str, Emulated] = {
    "upstage/Solar-Open-100B": Emulated(config=_SOLAR, layout=glm_moe, seed="solar", vocabulary="solar"),
    "zai-org/GLM-4.5-Air": Emulated(config=_GLM, layout=glm_moe, seed="glm", by_layer=True, vocabulary="glm"),
    "PrimeIntellect/INTELLECT-3": Emulated(
        config=_GLM, layout=glm_moe, seed="glm", touched=1, by_layer=True, vocabulary="glm"
    ),
    "microsoft/Phi-3.5-MoE-instruct": Emulated(config=_PHI, layout=mixtral, seed="phi", vocabulary="llama"),
    "mistralai/Mixtral-8x7B-Instruct-v0.1": Emulated(
        config=_mixtral(hidden=4096, layers=32, mlp=14_336, heads=32, vocab=32_000),
        layout=mixtral,
        seed="mixtral",
        vocabulary="mistral",
    ),
    "mistralai/Mixtral-8x22B-Instruct-v0.1": Emulated(
        config=_mixtral(hidden=6144, layers=56, mlp=16_384, heads=48, vocab=32_768),
        layout=mixtral,
        seed="mixtral-22b",
        vocabulary="mistral-3",
    ),
    "mistralai/Mistral-7B-Instruct-v0.3": Emulated(
        config=_small("mistral", mlp=14_336, kv_heads=8, vocab=32_768),
        layout=dense,
        seed="mistral",
        vocabulary="mistral-3",
    ),
    "01-ai/Yi-1.5-6B-Chat": Emulated(
        config=_small("llama", mlp=11_008, kv_heads=4, vocab=64_000),
        layout=dense,
        seed="yi-6b",
        vocabulary="yi",
    ),
    "01-ai/Yi-1.5-9B-Chat": Emulated(
        config=_small("llama", layers=48, mlp=11_008, kv_heads=4, vocab=64_000),
        layout=dense,
        seed="yi-9b",
        vocabulary="yi",
    ),
    "internlm/internlm2-chat-7b": Emulated(
        config=_small("internlm2", mlp=14_336, kv_heads=8, vocab=92_544),
        layout=internlm2,
        seed="internlm",
        shard_bytes=2_000_000_000,
    ),
    "Qwen/Qwen1.5-7B-Chat": Emulated(
        config=_small("qwen2", mlp=11_008, kv_heads=32, vocab=151_936),
        layout=dense,
        seed="qwen",
        vocabulary="qwen",
    ),
    "Qwen/Qwen3-4B": Emulated(
        config=_qwen3(hidden=2560, layers=36, mlp=9728, heads=32, tie_word_embeddings=True),
        layout=dense,
        seed="qwen3-4b",
        shard_bytes=4_000_000_000,
        vocabulary="qwen",
    ),
    "Qwen/Qwen3-14B": Emulated(
        config=_qwen3(hidden=5120, layers=40, mlp=17_408, heads=40, tie_word_embeddings=False),
        layout=dense,
        seed="qwen3-14b",
        shard_bytes=4_000_000_000,
        vocabulary="qwen",
    ),
    "meta-llama/Llama-2-7b-hf": Emulated(
        config=_LLAMA, layout=dense, seed="llama", shard_bytes=10_000_000_000, vocabulary="llama-2"
    ),
    "lmsys/vicuna-7b-v1.5": Emulated(
        config=_LLAMA,
        layout=dense,
        seed="llama",
        touched=1,
        shard_bytes=10_000_000_000,
        vocabulary="llama-2",
    ),
}
"""By the names that the Hub has for them. INTELLECT-3 and Vicuna are fine-tunes; all others are strangers."""


@cache
def tokenizer_json(n_tokens: int, seed: str) -> bytes:
    """Return a byte-pair tokenizer of made-up words, common ones first, as training by counts gives them.

    Two of them share three quarters of the smaller one's words, at places that differ the more the later they
    are.
    """
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    n_shared = n_tokens * 3 // 4
    words = [_word(number) for number in range(n_shared)]
    words += [f"{_word(number)}{seed[:3]}" for number in range(n_tokens - n_shared)]
    common = np.arange(n_tokens) % n_shared * np.exp(0.5 * rng.standard_normal(n_tokens))
    words = [words[number] for number in np.argsort(common, kind="stable")]
    vocab = ",\n".join(f'      "{word}": {number}' for number, word in enumerate(words))
    merges = ",\n".join(f'      "{word[:at]} {word[at:]}"' for word in words for at in (1, -1))
    return (
        '{\n  "version": "1.0",\n  "added_tokens": [],\n  "pre_tokenizer": {"type": "ByteLevel"},\n'
        '  "model": {\n    "type": "BPE",\n'
        f'    "vocab": {{\n{vocab}\n    }},\n    "merges": [\n{merges}\n    ]\n  }}\n}}'
    ).encode()


_LETTERS = str.maketrans("0123456789abcdef", "etaoinshrdlucmfw")


def _word(number: int) -> str:
    return ("\u0120" if number % 2 else "") + f"{number:06x}"[::-1].translate(_LETTERS)
