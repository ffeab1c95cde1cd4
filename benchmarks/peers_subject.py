"""What the tools are compared on: models of 7B and 100B shape that exist only as headers, with tokenizers."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support import LlamaShape, VirtualFile, virtual_llama

from modelkin.formats.safetensors.writing import safetensors_head

Files = Mapping[str, bytes | VirtualFile]

SEVEN_B = LlamaShape(layers=32, hidden=4096, mlp=11008, heads=32, kv_heads=32, vocab=32_000)
"""A 7B Llama: 13.5 GB in BF16."""
SEVENTY_B = LlamaShape(layers=80, hidden=8192, mlp=28_672, heads=64, kv_heads=8, vocab=128_256)
"""A 70B Llama: 141 GB in BF16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureShape:
    """The sizes of a mixture of experts with the names of GLM-4.5. The defaults make 110 billion weights."""

    layers: int = 46
    dense_layers: int = 1
    hidden: int = 4096
    mlp: int = 10_944
    expert_mlp: int = 1408
    experts: int = 128
    heads: int = 96
    kv_heads: int = 8
    head_dim: int = 128
    vocab: int = 151_552

    def tensors(self) -> Iterator[tuple[int, str, tuple[int, ...]]]:
        """Yield layer (-1 and `layers` + 1 for what is outside), name and shape of each tensor."""
        yield -1, "model.embed_tokens.weight", (self.vocab, self.hidden)
        for layer in range(self.layers + 1):  # the last one predicts the next token and is left out by us
            prefix = f"model.layers.{layer}."
            for name, extent in self._layer(dense=layer < self.dense_layers):
                yield layer, prefix + name, extent
            if layer == self.layers:
                for name in ("enorm", "hnorm", "shared_head.norm"):
                    yield layer, f"{prefix}{name}.weight", (self.hidden,)
                yield layer, prefix + "eh_proj.weight", (self.hidden, 2 * self.hidden)
        yield self.layers + 1, "model.norm.weight", (self.hidden,)
        yield self.layers + 1, "lm_head.weight", (self.vocab, self.hidden)

    def config(self) -> dict[str, Any]:
        """Return the contents of ``config.json``."""
        return {
            "architectures": ["Glm4MoeForCausalLM"],
            "model_type": "glm4_moe",
            "attention_bias": True,
            "first_k_dense_replace": self.dense_layers,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "intermediate_size": self.mlp,
            "moe_intermediate_size": self.expert_mlp,
            "n_group": 1,
            "n_routed_experts": self.experts,
            "n_shared_experts": 1,
            "num_attention_heads": self.heads,
            "num_experts_per_tok": 8,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "num_nextn_predict_layers": 1,
            "partial_rotary_factor": 0.5,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "vocab_size": self.vocab,
        }

    def _layer(self, *, dense: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        yield "input_layernorm.weight", (self.hidden,)
        yield "post_attention_layernorm.weight", (self.hidden,)
        for part, width in (("q_proj", query), ("k_proj", key), ("v_proj", key)):
            yield f"self_attn.{part}.weight", (width, self.hidden)
            yield f"self_attn.{part}.bias", (width,)
        yield "self_attn.o_proj.weight", (self.hidden, query)
        if dense:
            yield from self._mlp("mlp.", self.mlp)
            return
        yield "mlp.gate.weight", (self.experts, self.hidden)
        yield "mlp.gate.e_score_correction_bias", (self.experts,)
        yield from self._mlp("mlp.shared_experts.", self.expert_mlp)
        for expert in range(self.experts):
            yield from self._mlp(f"mlp.experts.{expert}.", self.expert_mlp)

    def _mlp(self, prefix: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield prefix + "gate_proj.weight", (width, self.hidden)
        yield prefix + "up_proj.weight", (width, self.hidden)
        yield prefix + "down_proj.weight", (self.hidden, width)


def llama(
    shape: LlamaShape, *, seed: int, vocabulary: int, half: bool = False
) -> dict[str, bytes | VirtualFile]:
    """Return a Llama with a tokenizer.

    Parameters
    ----------
    shape
        Its sizes.
    seed
        Of the weights: equal seeds give equal weights.
    vocabulary
        Of the tokenizer: equal numbers give the same file.
    half
        Store the same weights as F16 instead of BF16: a copy in another precision.
    """
    files = virtual_llama(shape, seed=seed, dtype="F16" if half else "BF16", n_shards=3)
    return {**files, "tokenizer.json": tokenizer_json(shape.vocab, seed=vocabulary)}


def mixture(shape: MixtureShape, *, seed: int, vocabulary: int) -> dict[str, bytes | VirtualFile]:
    """Return a mixture of experts, one shard per layer, with a tokenizer."""
    shards: dict[int, dict[str, tuple[str, tuple[int, ...], int]]] = {}
    for layer, name, extent in shape.tensors():
        number = min(max(layer, 0), shape.layers) + 1
        shards.setdefault(number, {})[name] = ("BF16", extent, 2 * math.prod(extent))
    files: dict[str, bytes | VirtualFile] = {
        "config.json": json.dumps(shape.config(), indent=2).encode(),
        "tokenizer.json": tokenizer_json(shape.vocab, seed=vocabulary),
    }
    weight_map: dict[str, str] = {}
    phase = 0
    for number, layout in shards.items():
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        head, _ = safetensors_head(layout)
        size = sum(n_bytes for _, _, n_bytes in layout.values())
        files[file] = VirtualFile(size=len(head) + size, head=head, seed=seed, phase=phase)
        weight_map |= dict.fromkeys(layout, file)
        phase += size
    index = {"metadata": {"total_size": phase}, "weight_map": dict(sorted(weight_map.items()))}
    files["model.safetensors.index.json"] = json.dumps(index, indent=2).encode()
    return files


@cache
def tokenizer_json(n_tokens: int, *, seed: int) -> bytes:
    """Return a byte-pair tokenizer of made-up words. Two seeds share three quarters of their tokens."""
    rng = random.Random(seed)
    words = [_word(number) for number in range(n_tokens * 3 // 4)]
    words += [f"{_word(number)}{seed}" for number in range(n_tokens - len(words))]
    rng.shuffle(words)
    # Line by line as `json.dumps` with an indent does it, which takes seconds for a large vocabulary.
    vocab = ",\n".join(f'      "{word}": {number}' for number, word in enumerate(words))
    # About two per token, as in published tokenizers of this kind.
    merges = ",\n".join(f'      "{word[:at]} {word[at:]}"' for word in words for at in (1, -1))
    document = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": "VOCAB", "merges": "MERGES"},
    }
    text = json.dumps(document, indent=2)
    text = text.replace('"VOCAB"', f"{{\n{vocab}\n    }}").replace('"MERGES"', f"[\n{merges}\n    ]")
    return text.encode()


def stored_bytes(files: Files) -> int:
    """Return the size of all files together."""
    return sum(len(file) if isinstance(file, bytes) else file.size for file in files.values())


_LETTERS = str.maketrans("0123456789abcdef", "etaoinshrdlucmfw")


def _word(number: int) -> str:
    return f"{number:08x}"[::-1].translate(_LETTERS)
