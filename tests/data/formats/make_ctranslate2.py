"""Make the files of CTranslate2 next to this script: its own converter on tiny random models.

Needs torch, transformers and ctranslate2 (made with 4.8.4): ``python make_ctranslate2.py``.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import torch
import transformers as tf
from ctranslate2.converters.transformers import _MODEL_LOADERS
from safetensors.torch import save_file

HERE = Path(__file__).parent
SIZES = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
MODELS = {
    "whisper": lambda: tf.WhisperForConditionalGeneration(
        tf.WhisperConfig(
            vocab_size=40,
            d_model=8,
            num_mel_bins=4,
            max_source_positions=12,
            max_target_positions=10,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=12,
            decoder_ffn_dim=12,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
        )
    ),
    "llama": lambda: tf.LlamaForCausalLM(
        tf.LlamaConfig(**SIZES, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False)
    ),
    "gpt2": lambda: tf.GPT2LMHeadModel(
        tf.GPT2Config(vocab_size=40, n_positions=8, n_embd=8, n_layer=1, n_head=2)
    ),
}
KINDS = {
    "whisper": ("float32", "float16", "bfloat16", "int8"),
    "llama": ("float32", "int8", "int16"),
    "gpt2": ("float32",),
}


def main() -> None:
    """Write every model in every kind, and the original beside."""
    torch.manual_seed(0)
    for name, make in MODELS.items():
        model = make().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.05 * torch.randn_like(parameter)
        tied = {"proj_out.weight", "lm_head.weight"} if name != "llama" else set()
        tensors = {key: value.contiguous() for key, value in model.state_dict().items() if key not in tied}
        if name != "gpt2":
            save_file(tensors, HERE / f"ctranslate2-{name}.safetensors")
        for kind in KINDS[name]:
            with torch.no_grad():
                # The converter takes the model apart.
                spec = _MODEL_LOADERS[type(model.config).__name__].get_model_spec(deepcopy(model))
            spec.register_vocabulary([f"t{n}" for n in range(40)])
            spec.validate()
            spec.optimize(quantization=kind)
            spec._serialize(HERE / f"ctranslate2-{name}-{kind}.bin")


main()
