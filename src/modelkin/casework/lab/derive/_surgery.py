"""Changes of shape: layers, heads, MLP units, residual dimensions and experts added or removed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkin.casework.lab.checkpoint import Checkpoint, Floats, layer_of

from .layout import axes_of, layout_of, mlp_groups, places, require_rms, taken


def reorder_layers(checkpoint: Checkpoint, layers: Sequence[int]) -> Checkpoint:
    """Return the model with these layers in this order. Changes the function.

    ``[0, 1, 1, 2, 3]`` repeats layer 1, ``[0, 1, 3]`` drops layer 2.
    """
    n_layers = layout_of(checkpoint).layers
    for layer in layers:
        if not 0 <= layer < n_layers:
            raise ValueError(f"layers must be in [0, {n_layers}), got {layer}")
    tensors = {name: array for name, array in checkpoint.tensors.items() if layer_of(name) is None}
    for new, old in enumerate(layers):
        tensors |= {
            _renumbered(name, new): array
            for name, array in checkpoint.tensors.items()
            if layer_of(name) == old
        }
    return Checkpoint(
        config=_config_of_layers(checkpoint, layers), tensors=tensors, tokenizer=checkpoint.tokenizer
    )


def insert_idle_layer(checkpoint: Checkpoint, *, before: int) -> Checkpoint:
    """Return the model with a copy of a layer put before it that writes nothing. Preserves the function."""
    require_rms(checkpoint)  # such models have no biases on what a layer writes
    layers = list(range(layout_of(checkpoint).layers))
    grown = reorder_layers(checkpoint, [*layers[:before], before, *layers[before:]])
    return grown.with_tensors(
        {
            name: np.zeros_like(array)
            for name, array in grown.tensors.items()
            if layer_of(name) == before and re.search(r"(o_proj|down_proj|w2)\.weight$", name)
        }
    )


def prune_mlp_units(
    checkpoint: Checkpoint, *, n_kept: int, rng: np.random.Generator | None = None
) -> Checkpoint:
    """Return the model with the `n_kept` largest units of every MLP. Changes the function.

    With an `rng`, they are reordered.
    """
    changed: dict[str, Floats] = {}
    for group in mlp_groups(checkpoint).values():
        arrays = {name: np.moveaxis(checkpoint.tensors[name], axis, 0) for name, axis in group.items()}
        sizes = np.sum(
            [np.square(array.reshape(len(array), -1)).sum(axis=1) for array in arrays.values()], axis=0
        )
        kept = _largest(sizes, n_kept, rng)
        changed |= {name: np.take(checkpoint.tensors[name], kept, axis=axis) for name, axis in group.items()}
    key = "n_inner" if "n_inner" in checkpoint.config else "intermediate_size"
    return checkpoint.with_tensors(changed, **{key: n_kept})


def prune_residual(
    checkpoint: Checkpoint, *, n_kept: int, rng: np.random.Generator | None = None
) -> Checkpoint:
    """Return a narrower model, with the dimensions that embeddings use most. Changes the function.

    With RMS norms only. Heads keep their sizes, so attention is as wide inside as it was; transformers loads
    the result if `n_kept` is a multiple of the number of heads. With an `rng`, dimensions are reordered.
    """
    layout = layout_of(checkpoint)
    if layout.norm == "layer-norm":
        raise ValueError(
            f"{checkpoint.family} cannot be narrower alone: its heads are as wide as the model allows"
        )
    sizes = np.zeros(layout.hidden)
    for name, array in checkpoint.tensors.items():
        if axes_of(name, array.ndim) == ("vocab", "residual"):
            sizes += np.square(array).sum(axis=0)
    changed = taken(checkpoint, {"residual": _largest(sizes, n_kept, rng)})
    return checkpoint.with_tensors(changed, hidden_size=n_kept, head_dim=layout.head_dim)


def prune_heads(checkpoint: Checkpoint, *, per_group: int) -> Checkpoint:
    """Return the model with fewer query heads in every KV group, in their old order. Changes the function.

    The `per_group` with the largest outputs stay. With RMS norms only, and heads that need not add up to the
    width.
    """
    layout = require_rms(checkpoint)
    if not 1 <= per_group <= layout.heads_per_kv:
        raise ValueError(f"per_group must be from 1 to {layout.heads_per_kv}, got {per_group}")
    changed: dict[str, Floats] = {}
    for layer in range(layout.layers):
        output = checkpoint.tensors[f"model.layers.{layer}.self_attn.o_proj.weight"]
        blocks = output.reshape(layout.hidden, layout.kv_heads, layout.heads_per_kv, layout.head_dim)
        sizes = np.square(blocks).sum(axis=(0, 3))
        heads = [
            group * layout.heads_per_kv + _largest(of_group, per_group, None)
            for group, of_group in enumerate(sizes)
        ]
        changed |= taken(checkpoint, {"query": places(np.concatenate(heads), layout.head_dim)}, layer=layer)
    n_heads = layout.kv_heads * per_group
    return checkpoint.with_tensors(changed, num_attention_heads=n_heads, head_dim=layout.head_dim)


def _largest(sizes: NDArray[Any], n_kept: int, rng: np.random.Generator | None) -> NDArray[np.intp]:
    """Return the places of the largest, in their old order or in a random one."""
    kept = np.sort(np.argsort(-sizes, kind="stable")[:n_kept])
    return kept if rng is None else rng.permutation(kept)


def _renumbered(name: str, layer: int) -> str:
    return re.sub(r"\b(layers|layer|h)\.\d+\.", rf"\g<1>.{layer}.", name, count=1)


def _config_of_layers(checkpoint: Checkpoint, layers: Sequence[int]) -> dict[str, object]:
    config = dict(checkpoint.config)
    config["n_layer" if "n_layer" in config else "num_hidden_layers"] = len(layers)
    if isinstance(kinds := config.get("layer_types"), list):
        config["layer_types"] = [kinds[layer] for layer in layers]
    return config


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
