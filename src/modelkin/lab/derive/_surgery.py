"""Changes of shape: vocabularies, layers, MLP units and residual dimensions added or taken away."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from modelkin.lab._checkpoint import Checkpoint, Floats
from modelkin.lab._parts import layer_of

from ._layout import axes_of, layout_of, mlp_groups, require_rms, taken

__all__ = ["extend_vocabulary", "insert_idle_layer", "prune_mlp_units", "prune_residual", "reorder_layers"]


def extend_vocabulary(checkpoint: Checkpoint, *, n_new: int, rng: np.random.Generator) -> Checkpoint:
    """Return the model with random token rows appended. Preserves the logits of the old tokens.

    New rows have the mean and the spread of the old ones. The tokenizer is left as it is: the new rows
    belong to no token, as where a vocabulary is padded.
    """
    changed: dict[str, Floats] = {}
    for name, array in checkpoint.tensors.items():
        if axes_of(name, array.ndim)[0] == "vocab":
            noise = rng.standard_normal((n_new, *array.shape[1:]), dtype=np.float32)
            changed[name] = np.concatenate([array, array.mean(axis=0) + array.std(axis=0) * noise])
    return checkpoint.with_tensors(changed, vocab_size=int(checkpoint.config["vocab_size"]) + n_new)


def reorder_layers(checkpoint: Checkpoint, layers: Sequence[int]) -> Checkpoint:
    """Return the model with these layers in this order. Changes the function.

    Parameters
    ----------
    checkpoint
        The model.
    layers
        Old numbers; ``[0, 1, 1, 2, 3]`` repeats layer 1, ``[0, 1, 3]`` drops layer 2.
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
    require_rms(checkpoint)  # and with them no biases on what a layer writes
    layers = list(range(layout_of(checkpoint).layers))
    grown = reorder_layers(checkpoint, [*layers[:before], before, *layers[before:]])
    return grown.with_tensors(
        {
            name: np.zeros_like(array)
            for name, array in grown.tensors.items()
            if layer_of(name) == before and re.search(r"(o_proj|down_proj|w2)\.weight$", name)
        }
    )


def prune_mlp_units(checkpoint: Checkpoint, *, n_kept: int) -> Checkpoint:
    """Return the model with the largest units of every MLP, in their old order. Changes the function."""
    changed: dict[str, Floats] = {}
    for group in mlp_groups(checkpoint).values():
        arrays = {name: np.moveaxis(checkpoint.tensors[name], axis, 0) for name, axis in group.items()}
        sizes = np.sum(
            [np.square(array.reshape(len(array), -1)).sum(axis=1) for array in arrays.values()], axis=0
        )
        kept = np.sort(np.argsort(-sizes, kind="stable")[:n_kept])
        changed |= {name: np.take(checkpoint.tensors[name], kept, axis=axis) for name, axis in group.items()}
    key = "n_inner" if "n_inner" in checkpoint.config else "intermediate_size"
    return checkpoint.with_tensors(changed, **{key: n_kept})


def prune_residual(checkpoint: Checkpoint, *, n_kept: int) -> Checkpoint:
    """Return a narrower model, with the dimensions that embeddings use most. Changes the function.

    They stay in their old order. Heads keep their sizes, so attention is as wide inside as it was;
    transformers loads the result if `n_kept` is a multiple of the number of heads.
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
    kept = np.sort(np.argsort(-sizes, kind="stable")[:n_kept])
    changed = taken(checkpoint, {"residual": kept})
    return checkpoint.with_tensors(changed, hidden_size=n_kept, head_dim=layout.head_dim)


def _renumbered(name: str, layer: int) -> str:
    return re.sub(r"\b(layers|layer|h)\.\d+\.", rf"\g<1>.{layer}.", name, count=1)


def _config_of_layers(checkpoint: Checkpoint, layers: Sequence[int]) -> dict[str, object]:
    config = dict(checkpoint.config)
    config["n_layer" if "n_layer" in config else "num_hidden_layers"] = len(layers)
    if isinstance(kinds := config.get("layer_types"), list):
        config["layer_types"] = [kinds[layer] for layer in layers]
    return config
