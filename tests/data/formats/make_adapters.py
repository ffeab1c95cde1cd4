"""Make adapters with PEFT itself, and the result of merging base and adapter with it.

Needs torch, transformers and peft; run as ``python tests/data/formats/make_adapters.py``. The figures are
random: what counts is where each of them ends up.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

HERE = Path(__file__).parent / "adapters"
LLAMA = transformers.LlamaConfig(
    vocab_size=16,
    hidden_size=8,
    intermediate_size=12,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    max_position_embeddings=16,
    tie_word_embeddings=False,
    attention_bias=True,
)
GPT2 = transformers.GPT2Config(vocab_size=16, n_embd=8, n_layer=1, n_head=2, n_positions=8, n_inner=12)
OSS = transformers.Qwen3MoeConfig(
    vocab_size=16,
    hidden_size=8,
    intermediate_size=12,
    moe_intermediate_size=5,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=4,
    num_experts=3,
    num_experts_per_tok=2,
    max_position_embeddings=16,
)
ALL_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (
        LLAMA,
        {
            "r": 3,
            "lora_alpha": 5,
            "target_modules": ALL_LINEAR,
            "rank_pattern": {"down_proj": 2, "model.layers.1.self_attn.q_proj": 1},
            "alpha_pattern": {r".*o_proj": 7, "layers.0.mlp.up_proj": 9},
        },
    ),
    "rslora": (
        LLAMA,
        {
            "r": 4,
            "lora_alpha": 6,
            "use_rslora": True,
            "target_modules": ["q_proj", "v_proj"],
            "layers_to_transform": [1],
            "modules_to_save": ["lm_head"],
            "bias": "lora_only",
        },
    ),
    "dora": (LLAMA, {"r": 2, "lora_alpha": 4, "use_dora": True, "target_modules": ["q_proj", "down_proj"]}),
    "embedding": (
        LLAMA,
        {"r": 2, "lora_alpha": 3, "target_modules": ["embed_tokens", "k_proj"], "lora_bias": False},
    ),
    "bias": (LLAMA, {"r": 2, "lora_alpha": 3, "target_modules": ["k_proj"], "lora_bias": True}),
    "gpt2": (
        GPT2,
        {"r": 2, "lora_alpha": 4, "target_modules": ["c_attn", "c_proj", "c_fc"], "fan_in_fan_out": True},
    ),
    "gpt2-dora": (
        GPT2,
        {"r": 2, "lora_alpha": 4, "target_modules": ["c_attn"], "fan_in_fan_out": True, "use_dora": True},
    ),
    "experts": (
        OSS,
        {
            "r": 2,
            "lora_alpha": 4,
            "target_modules": ["q_proj"],
            "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
        },
    ),
}


def make(name: str) -> None:
    settings, arguments = CASES[name]
    torch.manual_seed(len(name))
    model = transformers.AutoModelForCausalLM.from_config(settings).float()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "base").mkdir(parents=True)
    # The names of the class, not those of the file: of the experts only these can be adapted.
    state = {key: value.clone() for key, value in model.state_dict().items()}
    if settings.tie_word_embeddings:
        del state["lm_head.weight"]
    save_file(state, folder / "base" / "model.safetensors")
    document = {"architectures": settings.architectures or [type(model).__name__], **settings.to_diff_dict()}
    (folder / "base" / "config.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **arguments))
    for key, parameter in adapted.named_parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, mean=1.0 if "magnitude" in key else 0.0)
    adapted.peft_config["default"].base_model_name_or_path = "org/base"
    adapted.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink()
    merged = adapted.merge_and_unload().state_dict()
    save_file(
        {key: value.clone() for key, value in merged.items() if key in state}, folder / "merged.safetensors"
    )


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        make(case)
