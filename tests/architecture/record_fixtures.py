"""Record the tensor names and shapes of tiny models, one JSON file per case.

Run ``python tests/architecture/record_fixtures.py`` where torch, transformers and safetensors are installed.
A case is recorded twice where the two differ: as `save_pretrained` writes it (the Hub layout), and as the
module holds it in memory. Families that transformers has no code for are written by hand in
`handwritten_cases.py`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"

_SMALL: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_NO_HEAD_DIM = {key: value for key, value in _SMALL.items() if key != "head_dim"}
_MHA = {key: value for key, value in _NO_HEAD_DIM.items() if key != "num_key_value_heads"}
_TEXT = {"text_config": {**_SMALL, "model_type": "llama"}}
_VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 20}
_MLA = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 5,
    "n_routed_experts": 4,
    "n_shared_experts": 2,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 20,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
}
_GLM_MOE = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 20,
    "n_group": 1,
    "topk_group": 1,
}
_BERT = {**_MHA, "type_vocab_size": 2}

# case: (model_type, class of transformers, settings)
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("llama", "LlamaForCausalLM", _SMALL),
    "llama_biases": ("llama", "LlamaForCausalLM", {**_SMALL, "attention_bias": True, "mlp_bias": True}),
    "llama_classifier": ("llama", "LlamaForSequenceClassification", {**_SMALL, "num_labels": 3}),
    "mistral": ("mistral", "MistralForCausalLM", _SMALL),
    "qwen2": ("qwen2", "Qwen2ForCausalLM", _NO_HEAD_DIM),
    "qwen3": ("qwen3", "Qwen3ForCausalLM", _SMALL),
    "smollm3": ("smollm3", "SmolLM3ForCausalLM", _NO_HEAD_DIM),
    "granite": ("granite", "GraniteForCausalLM", _NO_HEAD_DIM),
    "phi3": ("phi3", "Phi3ForCausalLM", _NO_HEAD_DIM),
    "gemma": ("gemma", "GemmaForCausalLM", _SMALL),
    "gemma2": ("gemma2", "Gemma2ForCausalLM", _SMALL),
    "gemma3": ("gemma3_text", "Gemma3ForCausalLM", _SMALL),
    "olmo": ("olmo", "OlmoForCausalLM", _NO_HEAD_DIM),
    "olmo2": ("olmo2", "Olmo2ForCausalLM", _NO_HEAD_DIM),
    "olmo3": ("olmo3", "Olmo3ForCausalLM", _NO_HEAD_DIM),
    "olmoe": ("olmoe", "OlmoeForCausalLM", {**_NO_HEAD_DIM, "num_experts": 4, "num_experts_per_tok": 2}),
    "glm": ("glm", "GlmForCausalLM", _SMALL),
    "glm4": ("glm4", "Glm4ForCausalLM", _SMALL),
    "gpt2": (
        "gpt2",
        "GPT2LMHeadModel",
        {"vocab_size": 96, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4},
    ),
    "gpt2_bare": (
        "gpt2",
        "GPT2Model",
        {"vocab_size": 96, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4},
    ),
    "gpt_neox": ("gpt_neox", "GPTNeoXForCausalLM", _MHA),
    "gptj": (
        "gptj",
        "GPTJForCausalLM",
        {"vocab_size": 96, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4},
    ),
    "phi": ("phi", "PhiForCausalLM", _NO_HEAD_DIM),
    "starcoder2": ("starcoder2", "Starcoder2ForCausalLM", _NO_HEAD_DIM),
    "stablelm": ("stablelm", "StableLmForCausalLM", _NO_HEAD_DIM),
    "cohere": ("cohere", "CohereForCausalLM", _NO_HEAD_DIM),
    "opt": ("opt", "OPTForCausalLM", {**_MHA, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "opt_350m": (
        "opt",
        "OPTForCausalLM",
        {**_MHA, "ffn_dim": 48, "word_embed_proj_dim": 24, "do_layer_norm_before": False},
    ),
    "bloom": ("bloom", "BloomForCausalLM", {"vocab_size": 96, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "falcon_7b": ("falcon", "FalconForCausalLM", {**_MHA, "multi_query": True, "parallel_attn": True}),
    "falcon_rw": (
        "falcon",
        "FalconForCausalLM",
        {**_MHA, "multi_query": False, "parallel_attn": False, "alibi": True, "bias": True},
    ),
    "falcon_40b": (
        "falcon",
        "FalconForCausalLM",
        {**_MHA, "new_decoder_architecture": True, "num_kv_heads": 2},
    ),
    "mpt": (
        "mpt",
        "MptForCausalLM",
        {"vocab_size": 96, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
    ),
    "mixtral": ("mixtral", "MixtralForCausalLM", {**_SMALL, "num_local_experts": 4}),
    "phimoe": (
        "phimoe",
        "PhimoeForCausalLM",
        {**_NO_HEAD_DIM, "num_local_experts": 4, "attention_bias": True, "lm_head_bias": True},
    ),
    "qwen2_moe": (
        "qwen2_moe",
        "Qwen2MoeForCausalLM",
        {**_NO_HEAD_DIM, **_MOE, "shared_expert_intermediate_size": 28},
    ),
    "qwen3_moe": ("qwen3_moe", "Qwen3MoeForCausalLM", {**_SMALL, **_MOE}),
    "glm4_moe": (
        "glm4_moe",
        "Glm4MoeForCausalLM",
        {**_SMALL, **_GLM_MOE, "first_k_dense_replace": 1, "use_qk_norm": True, "attention_bias": True},
    ),
    "solar_open": ("solar_open", "SolarOpenForCausalLM", {**_SMALL, **_GLM_MOE}),
    "deepseek_v2": ("deepseek_v2", "DeepseekV2ForCausalLM", {**_MHA, **_MLA, "q_lora_rank": None}),
    "deepseek_v3": ("deepseek_v3", "DeepseekV3ForCausalLM", {**_MHA, **_MLA, "q_lora_rank": 14}),
    "gpt_oss": ("gpt_oss", "GptOssForCausalLM", {**_SMALL, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "bert": ("bert", "BertForMaskedLM", _BERT),
    "bert_bare": ("bert", "BertModel", _BERT),
    "bert_classifier": ("bert", "BertForSequenceClassification", {**_BERT, "num_labels": 3}),
    "roberta": ("roberta", "RobertaForMaskedLM", _BERT),
    "xlm_roberta_bare": ("xlm-roberta", "XLMRobertaModel", _BERT),
    "roberta_classifier": ("roberta", "RobertaForSequenceClassification", {**_BERT, "num_labels": 3}),
    "distilbert": (
        "distilbert",
        "DistilBertForMaskedLM",
        {
            "vocab_size": 96,
            "dim": 32,
            "hidden_dim": 48,
            "n_layers": 2,
            "n_heads": 4,
            "max_position_embeddings": 64,
        },
    ),
    "mpnet": ("mpnet", "MPNetForMaskedLM", _MHA),
    "mpnet_bare": ("mpnet", "MPNetModel", _MHA),
    "modernbert": ("modernbert", "ModernBertForMaskedLM", {**_MHA, "cls_token_id": 3, "sep_token_id": 4}),
    "t5": (
        "t5",
        "T5ForConditionalGeneration",
        {
            "vocab_size": 96,
            "d_model": 32,
            "d_kv": 12,
            "d_ff": 48,
            "num_layers": 2,
            "num_decoder_layers": 3,
            "num_heads": 4,
        },
    ),
    "t5_gated": (
        "t5",
        "T5ForConditionalGeneration",
        {
            "vocab_size": 96,
            "d_model": 32,
            "d_kv": 12,
            "d_ff": 48,
            "num_layers": 2,
            "num_heads": 4,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
        },
    ),
    "t5_encoder": (
        "t5",
        "T5EncoderModel",
        {"vocab_size": 96, "d_model": 32, "d_kv": 12, "d_ff": 48, "num_layers": 2, "num_heads": 4},
    ),
    "whisper": (
        "whisper",
        "WhisperForConditionalGeneration",
        {
            "vocab_size": 96,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 3,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 40,
            "max_source_positions": 20,
            "max_target_positions": 16,
            "num_mel_bins": 8,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
    ),
    "llava": (
        "llava",
        "LlavaForConditionalGeneration",
        {**_TEXT, "vision_config": {**_VISION, "model_type": "clip_vision_model"}},
    ),
    "gemma3_multimodal": (
        "gemma3",
        "Gemma3ForConditionalGeneration",
        {
            "text_config": {**_SMALL, "model_type": "gemma3_text"},
            "vision_config": {**_VISION, "model_type": "siglip_vision_model"},
            "mm_tokens_per_image": 4,
        },
    ),
    "qwen2_5_vl": (
        "qwen2_5_vl",
        "Qwen2_5_VLForConditionalGeneration",
        {
            "text_config": {**_NO_HEAD_DIM, "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}},
            "vision_config": {
                "depth": 1,
                "hidden_size": 16,
                "intermediate_size": 24,
                "num_heads": 2,
                "out_hidden_size": 32,
            },
        },
    ),
}


def build(case: str, *, device: str) -> Any:
    """Return the tiny model of a case; on the meta device it has names and shapes only."""
    import torch
    import transformers

    model_type, class_name, settings = CASES[case]
    config = transformers.AutoConfig.for_model(model_type, **settings)
    model_class = getattr(transformers, class_name)
    with torch.device(device):
        return model_class(config)


def memory_shapes(model: Any) -> dict[str, list[int]]:
    """Return names and shapes as the module holds them, tied tensors once."""
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    return {name: list(t.shape) for name, t in model.state_dict().items() if name not in tied}


def saved(model: Any) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Return config and names with shapes as `save_pretrained` writes them."""
    from safetensors import safe_open

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = json.loads((Path(folder) / "config.json").read_text())
        shapes: dict[str, list[int]] = {}
        for path in sorted(Path(folder).glob("*.safetensors")):
            with safe_open(path, "np") as file:
                shapes |= {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return config, shapes


def _write(case: str, config: dict[str, Any], shapes: dict[str, list[int]]) -> None:
    for volatile in ("transformers_version", "dtype", "torch_dtype", "_name_or_path"):
        config.pop(volatile, None)
    path = DATA / f"{case}.json"
    path.write_text(
        json.dumps({"config": config, "shapes": shapes}, sort_keys=True, separators=(",", ":")) + "\n"
    )


def main(cases: list[str]) -> None:
    """Record the named cases, or all."""
    DATA.mkdir(exist_ok=True)
    for case in cases or CASES:
        model = build(case, device="cpu")
        config, shapes = saved(model)
        _write(case, config, shapes)
        memory = memory_shapes(model)
        other = DATA / f"{case}-memory.json"
        if memory != shapes:
            _write(f"{case}-memory", config, memory)
        elif other.exists():
            other.unlink()
        print(case, len(shapes), "tensors", "(another layout in memory)" if memory != shapes else "")


if __name__ == "__main__":
    main(sys.argv[1:])
