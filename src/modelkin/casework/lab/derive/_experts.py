"""From a dense model to one with experts."""

from __future__ import annotations

import re

import numpy as np

from modelkin.casework.lab.checkpoint import Checkpoint, Floats, layer_of

from .layout import layout_of

__all__ = ["upcycle"]

_PLACES = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}
_DENSE_ONLY = ("attention_bias", "mlp_bias", "pretraining_tp")


def upcycle(
    checkpoint: Checkpoint, *, n_experts: int, rng: np.random.Generator, noise: float = 0.0, n_used: int = 2
) -> Checkpoint:
    """Return a Mixtral whose experts are copies of a Llama's MLPs. Without noise the function is preserved.

    The shares of the experts that a token is routed to add up to one, so equal experts give what the dense
    MLP gave, whatever the router says. Its rows are random, as there is nothing to take them from. The Llama
    has no biases; `noise` on every expert is relative to the standard deviation of the matrix.
    """
    if checkpoint.family != "llama" or any("bias" in name for name in checkpoint.tensors):
        raise ValueError(f"checkpoint must be a llama without biases, got {checkpoint.family}")
    layout = layout_of(checkpoint)
    tensors: dict[str, Floats] = {}
    for name, array in checkpoint.tensors.items():
        if not (found := re.search(r"\.mlp\.(\w+)\.weight$", name)):
            tensors[name] = array
            continue
        stem = f"{name[: found.start()]}.block_sparse_moe"
        for expert in range(n_experts):
            drawn = rng.standard_normal(array.shape, dtype=np.float32) if noise else np.float32(0)
            place = f"{stem}.experts.{expert}.{_PLACES[found[1]]}.weight"
            tensors[place] = array + np.float32(noise) * array.std() * drawn
    for layer in sorted({layer_of(name) for name in tensors} - {None}, key=str):
        router = 0.02 * rng.standard_normal((n_experts, layout.hidden), dtype=np.float32)
        tensors[f"model.layers.{layer}.block_sparse_moe.gate.weight"] = np.asarray(router, dtype=np.float32)
    config = {key: value for key, value in checkpoint.config.items() if key not in _DENSE_ONLY}
    config |= {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "head_dim": layout.head_dim,
        "num_local_experts": n_experts,
        "num_experts_per_tok": n_used,
        "output_router_logits": False,
        "router_aux_loss_coef": 0.001,
        "router_jitter_noise": 0.0,
        "sliding_window": None,
    }
    return Checkpoint(config=config, tensors=tensors, tokenizer=checkpoint.tokenizer)
