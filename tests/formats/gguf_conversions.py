"""What llama.cpp's converter does to the tensors of each architecture, rewritten with reshapes.

Names come from the tables of the `gguf` package. Nothing is shared with the reader under test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Config = Mapping[str, Any]
Pairs = Iterator[tuple[str, Array]]
Transform = Callable[[str, Array, Config], Pairs]
DROPPED = re.compile(
    r"(^|\.)(cls|pooler|lm_head\.bias|score|classifier|head|decoder\.bias)(\.|$)|inv_freq|masked_bias"
)
"""Tensors that the converter leaves out."""


def unchanged(name: str, values: Array, config: Config) -> Pairs:
    yield name, values


def permuted(weights: Array, heads: int) -> Array:
    """Put the halves of each head in turns."""
    shape = (heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return weights.reshape(shape).swapaxes(1, 2).reshape(weights.shape)


def rope_rows(name: str, values: Array, config: Config) -> Pairs:
    if "q_proj" in name:
        values = permuted(values, config["num_attention_heads"])
    elif "k_proj" in name:
        values = permuted(values, config.get("num_key_value_heads") or config["num_attention_heads"])
    yield name, values


def plus_one(name: str, values: Array, config: Config) -> Pairs:
    yield name, values + np.float32(1) if name.endswith("norm.weight") else values


def conv1d(name: str, values: Array, config: Config) -> Pairs:
    yield name, values.T if re.search(r"\.(c_attn|c_proj|c_fc)\.weight$", name) else values


def heads_apart(name: str, values: Array, config: Config) -> Pairs:
    """Sort queries, keys and values of all heads by kind."""
    if "query_key_value" in name:
        heads, groups = head_counts(config)
        rest = values.shape[1:]
        size = values.shape[0] // (heads + 2 * groups)
        parts = values.reshape(groups, heads // groups + 2, size, *rest)
        kinds = (parts[:, :-2], parts[:, -2], parts[:, -1])
        values = np.concatenate([kind.reshape(-1, *rest) for kind in kinds])
    yield name.removeprefix("transformer.") if config["model_type"] == "bloom" else name, values


def wqkv_apart(name: str, values: Array, config: Config) -> Pairs:
    if "wqkv" not in name:
        yield name, values
        return
    heads, groups = head_counts(config)
    size = values.shape[0] // (heads + 2 * groups)
    parts = values.reshape(groups, heads // groups + 2, size, -1)
    for kind, rows in (("wq", parts[:, :-2]), ("wk", parts[:, -2]), ("wv", parts[:, -1])):
        flat = rows.reshape(-1, parts.shape[-1])
        count = heads if kind == "wq" else groups
        yield name.replace("wqkv", kind), flat if kind == "wv" else permuted(flat, count)


def without_body(name: str, values: Array, config: Config) -> Pairs:
    yield name.removeprefix("transformer."), values


def latent(name: str, values: Array, config: Config) -> Pairs:
    """Split the matrix that makes keys and values from the latent, with keys transposed."""
    if "e_score_correction_bias" in name:
        yield name.replace("e_score_correction_bias", "e_score_correction.bias"), values
    elif "kv_b_proj" in name:
        heads, nope = config["num_attention_heads"], config["qk_nope_head_dim"]
        parts = values.reshape(heads, nope + config["v_head_dim"], values.shape[-1])
        yield name.replace("kv_b_proj", "k_b_proj"), parts[:, :nope].transpose(0, 2, 1)
        yield name.replace("kv_b_proj", "v_b_proj"), parts[:, nope:]
    else:
        yield name, values


def latent_whole(name: str, values: Array, config: Config) -> Pairs:
    """Do as the converter did before keys were absorbed."""
    yield name.replace("e_score_correction_bias", "e_score_correction.bias"), values


def gpt_oss(name: str, values: Array, config: Config) -> Pairs:
    stem = re.sub(r"_bias$", ".bias", name)
    if "sinks" in name:
        yield f"{name}.weight", values
    elif "experts" not in name:
        yield name, values
    elif "down_proj" in name:
        is_bias = stem.endswith(".bias")
        yield (stem if is_bias else f"{stem}.weight"), values if is_bias else values.swapaxes(-1, -2)
    else:
        is_bias = stem.endswith(".bias")
        turned = values if is_bias else values.swapaxes(-1, -2)
        for number, part in enumerate(("gate_proj", "up_proj")):
            piece = turned[:, number::2]
            yield stem.replace("gate_up_proj", part) + ("" if is_bias else ".weight"), piece


def head_counts(config: Config) -> tuple[int, int]:
    """Return heads and groups of keys."""
    heads = config.get("num_attention_heads") or config["n_head"]
    if config["model_type"] == "falcon":
        if config.get("new_decoder_architecture"):
            return heads, config.get("num_kv_heads") or heads
        return heads, 1 if config.get("multi_query", True) else heads
    return heads, config.get("num_key_value_heads") or config.get("multi_query_group_num") or heads


@dataclass(frozen=True)
class Conversion:
    """How one architecture is converted."""

    arch: gguf.MODEL_ARCH
    transform: Transform = unchanged
    keys: Mapping[str, str] | None = None
    """Keys of the file -> fields of the config, beside or instead of the usual ones."""


USUAL = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.key_length": "head_dim",
    "context_length": "max_position_embeddings",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_eps",
}
_GPT2 = {
    "embedding_length": "n_embd",
    "block_count": "n_layer",
    "attention.head_count": "n_head",
    "feed_forward_length": "n_inner",
    "context_length": "n_positions",
}
_EXPERTS = {
    "expert_count": "n_routed_experts",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "expert_group_count": "n_group",
    "leading_dense_block_count": "first_k_dense_replace",
}
_LATENT = {**_EXPERTS, "attention.q_lora_rank": "q_lora_rank", "attention.kv_lora_rank": "kv_lora_rank"}
_T5 = {
    "embedding_length": "d_model",
    "block_count": "num_layers",
    "attention.head_count": "num_heads",
    "feed_forward_length": "d_ff",
    "attention.key_length": "d_kv",
}
_QWEN_MOE = {
    "expert_count": "num_experts",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}
_A = gguf.MODEL_ARCH
CONVERSIONS = {
    "llama": Conversion(_A.LLAMA, rope_rows),
    "mistral": Conversion(_A.LLAMA, rope_rows),
    "mixtral": Conversion(_A.LLAMA, rope_rows, {"expert_count": "num_local_experts"}),
    "granite": Conversion(_A.GRANITE, rope_rows),
    "smollm3": Conversion(_A.SMOLLM3, rope_rows),
    "qwen2": Conversion(_A.QWEN2),
    "qwen3": Conversion(_A.QWEN3),
    "qwen2_moe": Conversion(_A.QWEN2MOE, unchanged, _QWEN_MOE),
    "qwen3_moe": Conversion(_A.QWEN3MOE, unchanged, _QWEN_MOE),
    "gemma": Conversion(_A.GEMMA, plus_one),
    "gemma2": Conversion(_A.GEMMA2, plus_one),
    "gemma3_text": Conversion(_A.GEMMA3, plus_one),
    "olmo": Conversion(_A.OLMO, rope_rows),
    "olmo2": Conversion(_A.OLMO2),
    "olmoe": Conversion(_A.OLMOE, unchanged, {"expert_count": "num_experts"}),
    "starcoder2": Conversion(_A.STARCODER2),
    "stablelm": Conversion(_A.STABLELM),
    "cohere": Conversion(_A.COMMAND_R),
    "glm": Conversion(_A.CHATGLM),
    "glm4": Conversion(_A.GLM4),
    "chatglm": Conversion(
        _A.CHATGLM,
        without_body,
        {"block_count": "num_layers", "feed_forward_length": "ffn_hidden_size"},
    ),
    "glm4_moe": Conversion(
        _A.GLM4_MOE, latent_whole, {**_EXPERTS, "nextn_predict_layers": "num_nextn_predict_layers"}
    ),
    "deepseek_v2": Conversion(_A.DEEPSEEK2, latent_whole, _LATENT),
    "deepseek_v3": Conversion(_A.DEEPSEEK2, latent, _LATENT),
    "gpt_oss": Conversion(
        _A.GPT_OSS,
        gpt_oss,
        {"expert_count": "num_local_experts", "expert_feed_forward_length": "intermediate_size"},
    ),
    "phi": Conversion(_A.PHI2),
    "phi3": Conversion(_A.PHI3),
    "phimoe": Conversion(_A.PHIMOE, unchanged, {"expert_count": "num_local_experts"}),
    "internlm2": Conversion(_A.INTERNLM2, wqkv_apart),
    "gpt2": Conversion(_A.GPT2, conv1d, _GPT2),
    "gptj": Conversion(_A.GPTJ, unchanged, {**_GPT2, "rope.dimension_count": "rotary_dim"}),
    "gpt_neox": Conversion(_A.GPTNEOX, heads_apart),
    "falcon": Conversion(_A.FALCON, heads_apart, {"feed_forward_length": "ffn_hidden_size"}),
    "bloom": Conversion(_A.BLOOM, heads_apart, {"block_count": "n_layer", "attention.head_count": "n_head"}),
    "mpt": Conversion(
        _A.MPT,
        unchanged,
        {"embedding_length": "d_model", "block_count": "n_layers", "attention.head_count": "n_heads"},
    ),
    "bert": Conversion(_A.BERT),
    "modernbert": Conversion(_A.MODERN_BERT),
    "t5": Conversion(_A.T5, unchanged, _T5),
}


@cache
def _names(arch: gguf.MODEL_ARCH) -> gguf.TensorNameMap:
    return gguf.get_tensor_name_map(arch, 64)


def official_name(arch: gguf.MODEL_ARCH, name: str) -> str:
    """Return the name that the `gguf` package gives to a tensor."""
    names = _names(arch)
    for stem in (
        name,
        name.removeprefix("bert."),
        name.removeprefix("model."),
        # The converter stacks Mixtral's experts under the name of the original release.
        name.removeprefix("model.").replace(".block_sparse_moe.experts.", ".feed_forward.experts."),
    ):
        if found := names.get_name(stem, try_suffixes=(".weight", ".bias")):
            return found
    layer = re.fullmatch(r"model\.layers\.(\d+)\.attention\.w([qkv])\.weight", name)
    assert layer is not None, f"the gguf package has no name for {name}"
    return f"blk.{layer[1]}.attn_{layer[2]}.weight"


def converted_tensors(arrays: Mapping[str, Array], config: Config) -> dict[str, Array]:
    """Return the tensors as the converter writes them, in float32."""
    conversion = CONVERSIONS[config["model_type"]]
    found: dict[str, Array] = {}
    stacks: dict[str, dict[int, Array]] = {}
    for name, values in sorted(arrays.items()):
        if DROPPED.search(name):
            continue
        for made, array in conversion.transform(name, np.asarray(values, np.float32), config):
            expert = re.fullmatch(r"(.*\.experts\.)(\d+)\.(.*)", made)
            if expert is not None:
                stacks.setdefault(f"{expert[1]}{expert[3]}", {})[int(expert[2])] = array
            else:
                found[official_name(conversion.arch, made)] = array
    for name, stack in stacks.items():
        stacked = np.stack([stack[number] for number in sorted(stack)])
        found[official_name(conversion.arch, name)] = stacked
    return found


def converted_keys(config: Config) -> dict[str, object]:
    """Return the keys of sizes as the converter writes them."""
    conversion = CONVERSIONS[config["model_type"]]
    arch = gguf.MODEL_ARCH_NAMES[conversion.arch]
    fields = {**USUAL, **(conversion.keys or {})}
    keys: dict[str, object] = {
        f"{arch}.{key}": config[field] for key, field in fields.items() if config.get(field) is not None
    }
    if "num_attention_heads" in config or "n_head" in config:
        keys[f"{arch}.attention.head_count_kv"] = head_counts(config)[1]
    part = config.get("partial_rotary_factor") or config.get("rotary_pct")
    part = part or (config.get("rope_parameters") or {}).get("partial_rotary_factor")
    if part:
        head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        keys[f"{arch}.rope.dimension_count"] = int(part * head_dim)
    if conversion.transform in (latent, latent_whole) and "qk_rope_head_dim" in config:
        whole = config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
        absorbed = conversion.transform is latent
        ending = "_mla" if absorbed else ""
        keys[f"{arch}.attention.key_length{ending}"] = whole
        keys[f"{arch}.attention.value_length{ending}"] = config["v_head_dim"]
        keys[f"{arch}.rope.dimension_count"] = config["qk_rope_head_dim"]
        if absorbed:
            keys[f"{arch}.attention.head_count_kv"] = 1
            keys[f"{arch}.attention.key_length"] = config["kv_lora_rank"] + config["qk_rope_head_dim"]
    return keys
