"""Changes of shape: layers, heads, MLP units and residual dimensions added or removed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkin.casework.lab.checkpoint import Checkpoint, Floats, layer_of

from .layout import axes_of, layout_of, mlp_groups, places, require_rms, taken

__all__ = ["insert_idle_layer", "prune_heads", "prune_mlp_units", "prune_residual", "reorder_layers"]


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
