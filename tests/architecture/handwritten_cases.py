"""Tiny checkpoints that transformers does not write: other code's layouts, older buffers, quantised weights.

Names and shapes follow the published checkpoints; only the sizes are small.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"

Shapes = dict[str, tuple[int, ...]]
Case = tuple[dict[str, Any] | None, Shapes]


def recorded(case: str) -> Case:
    """Return a recorded case."""
    content = json.loads((DATA / f"{case}.json").read_text())
    return content["config"], {name: tuple(shape) for name, shape in content["shapes"].items()}


def recorded_names() -> list[str]:
    return sorted(path.stem for path in DATA.glob("*.json"))


_GQA = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def internlm2() -> Case:
    shapes: Shapes = {
        "model.tok_embeddings.weight": (96, 32),
        "model.norm.weight": (32,),
        "output.weight": (96, 32),
    }
    for layer in range(2):
        stem = f"model.layers.{layer}."
        shapes |= {
            f"{stem}attention_norm.weight": (32,),
            f"{stem}attention.wqkv.weight": (64, 32),
            f"{stem}attention.wo.weight": (32, 32),
            f"{stem}ffn_norm.weight": (32,),
            f"{stem}feed_forward.w1.weight": (48, 32),
            f"{stem}feed_forward.w2.weight": (32, 48),
            f"{stem}feed_forward.w3.weight": (48, 32),
        }
    return {**_GQA, "model_type": "internlm2", "architectures": ["InternLM2ForCausalLM"]}, shapes


def internvl() -> Case:
    config, shapes = internlm2()
    wrapped = {f"language_model.{name}": shape for name, shape in shapes.items()}
    wrapped |= {
        "vision_model.encoder.layers.0.attn.qkv.weight": (48, 16),
        "mlp1.0.weight": (64,),
        "mlp1.1.weight": (32, 64),
    }
    return {
        "model_type": "internvl_chat",
        "llm_config": config,
        "vision_config": {"hidden_size": 16},
    }, wrapped


def chatglm() -> Case:
    shapes: Shapes = {
        "transformer.embedding.word_embeddings.weight": (96, 32),
        "transformer.rotary_pos_emb.inv_freq": (2,),
        "transformer.encoder.final_layernorm.weight": (32,),
        "transformer.output_layer.weight": (96, 32),
    }
    for layer in range(2):
        stem = f"transformer.encoder.layers.{layer}."
        shapes |= {
            f"{stem}input_layernorm.weight": (32,),
            f"{stem}self_attention.query_key_value.weight": (64, 32),
            f"{stem}self_attention.query_key_value.bias": (64,),
            f"{stem}self_attention.dense.weight": (32, 32),
            f"{stem}post_attention_layernorm.weight": (32,),
            f"{stem}mlp.dense_h_to_4h.weight": (96, 32),
            f"{stem}mlp.dense_4h_to_h.weight": (32, 48),
        }
    config = {
        "model_type": "chatglm",
        "architectures": ["ChatGLMModel"],
        "num_layers": 2,
        "hidden_size": 32,
        "ffn_hidden_size": 48,
        "num_attention_heads": 4,
        "kv_channels": 8,
        "multi_query_attention": True,
        "multi_query_group_num": 2,
        "padded_vocab_size": 96,
    }
    return config, shapes


def _with_mtp(case: str) -> Case:
    """Append a next-token-prediction layer after the last decoder layer."""
    config, shapes = recorded(case)
    shapes |= {name.replace("layers.1.", "layers.2."): shape for name, shape in shapes.items()}
    shapes |= {
        "model.layers.2.enorm.weight": (32,),
        "model.layers.2.hnorm.weight": (32,),
        "model.layers.2.eh_proj.weight": (32, 64),
        "model.layers.2.embed_tokens.weight": (96, 32),
        "model.layers.2.shared_head.norm.weight": (32,),
        "model.layers.2.shared_head.head.weight": (96, 32),
    }
    return config, shapes


def glm4_moe_mtp() -> Case:
    return _with_mtp("glm4_moe")


def deepseek_v3_fp8_mtp() -> Case:
    config, shapes = _with_mtp("deepseek_v3")
    scales: Shapes = {f"{name}_scale_inv": (1, 1) for name in shapes if name.endswith("proj.weight")}
    return config, shapes | scales


def gpt_oss_packed() -> Case:
    config, shapes = recorded("gpt_oss")
    for layer in range(2):
        stem = f"model.layers.{layer}.mlp.experts."
        del shapes[f"{stem}gate_up_proj"], shapes[f"{stem}down_proj"]
        shapes |= {
            f"{stem}gate_up_proj_blocks": (4, 96, 1, 16),
            f"{stem}gate_up_proj_scales": (4, 96, 1),
            f"{stem}down_proj_blocks": (4, 32, 2, 16),
            f"{stem}down_proj_scales": (4, 32, 2),
        }
    return config, shapes


def _with_buffers(case: str, buffers: Iterable[tuple[str, tuple[int, ...]]]) -> Case:
    config, shapes = recorded(case)
    return config, shapes | {name.format(layer=layer): shape for name, shape in buffers for layer in range(2)}


def gpt2_masks() -> Case:
    return _with_buffers(
        "gpt2",
        [("transformer.h.{layer}.attn.bias", (1, 1, 64, 64)), ("transformer.h.{layer}.attn.masked_bias", ())],
    )


def gpt_neox_masks() -> Case:
    stem = "gpt_neox.layers.{layer}.attention."
    return _with_buffers(
        "gpt_neox",
        [(f"{stem}bias", (1, 1, 64, 64)), (f"{stem}masked_bias", ()), (f"{stem}rotary_emb.inv_freq", (1,))],
    )


def llama_frequencies() -> Case:
    return _with_buffers("llama", [("model.layers.{layer}.self_attn.rotary_emb.inv_freq", (6,))])


def bert_gamma_beta() -> Case:
    config, shapes = recorded("bert")
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): shape
        for name, shape in shapes.items()
    }
    return config, renamed | {
        "bert.embeddings.position_ids": (1, 64),
        "cls.seq_relationship.weight": (2, 32),
        "cls.seq_relationship.bias": (2,),
    }


def llama_gptq() -> Case:
    config, shapes = recorded("llama")
    packed: Shapes = {}
    for name, shape in shapes.items():
        if not name.endswith("proj.weight"):
            packed[name] = shape
            continue
        stem = name.removesuffix("weight")
        packed |= {f"{stem}qweight": (shape[1] // 8, shape[0]), f"{stem}qzeros": (1, shape[0] // 8)}
        packed |= {f"{stem}scales": (1, shape[0]), f"{stem}g_idx": (shape[1],)}
    return config, packed


def qwen2_5_omni() -> Case:
    config, shapes = recorded("qwen2")
    wrapped = {f"thinker.{name}": shape for name, shape in shapes.items()}
    wrapped |= {
        "thinker.visual.blocks.0.attn.q.weight": (16, 16),
        "talker.model.layers.0.mlp.up_proj.weight": (8, 8),
    }
    assert config is not None
    text = {**config, "model_type": "qwen2_5_omni_text"}
    return {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": text}}, wrapped


# case: (maker, family)
HANDWRITTEN = {
    "internlm2": (internlm2, "internlm2"),
    "internvl": (internvl, "internlm2"),
    "chatglm": (chatglm, "chatglm"),
    "glm4_moe_mtp": (glm4_moe_mtp, "glm4_moe"),
    "deepseek_v3_fp8_mtp": (deepseek_v3_fp8_mtp, "deepseek"),
    "gpt_oss_packed": (gpt_oss_packed, "gpt_oss"),
    "gpt2_masks": (gpt2_masks, "gpt2"),
    "gpt_neox_masks": (gpt_neox_masks, "gpt_neox"),
    "llama_frequencies": (llama_frequencies, "llama"),
    "bert_gamma_beta": (bert_gamma_beta, "bert"),
    "llama_gptq": (llama_gptq, "llama"),
    "qwen2_5_omni": (qwen2_5_omni, "llama"),
}
