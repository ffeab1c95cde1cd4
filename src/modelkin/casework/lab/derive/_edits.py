"""Edits of weights that people publish: merged adapters, removed directions, two zeros in every four."""

from __future__ import annotations

import numpy as np

from modelkin.casework.lab.checkpoint import Checkpoint, Floats, part_of

from .layout import axes_of, layout_of


def merge_low_rank(
    checkpoint: Checkpoint, *, rank: int, size: float, rng: np.random.Generator, only: str = ""
) -> Checkpoint:
    """Return the model with a random adapter merged into the matrices of attention and MLP.

    `size` is that of the change relative to the matrix. Only matrices whose name contains `only` change.
    """

    def changed(array: Floats) -> Floats:
        inner = rng.standard_normal((rank, array.shape[1]), dtype=np.float32)
        change = rng.standard_normal((array.shape[0], rank), dtype=np.float32) @ inner
        factor = np.float32(size * np.linalg.norm(array) / np.linalg.norm(change))
        return np.asarray(array + factor * change, np.float32)

    return checkpoint.with_tensors(
        {name: changed(array) for name, array in _matrices(checkpoint) if only in name}
    )


def remove_direction(checkpoint: Checkpoint, *, rng: np.random.Generator) -> Checkpoint:
    """Return the model whose attention and MLPs no longer write along one random direction."""
    width = layout_of(checkpoint).hidden
    direction = rng.standard_normal(width).astype(np.float32)
    direction /= np.linalg.norm(direction)
    changed: dict[str, Floats] = {}
    for name, array in _matrices(checkpoint):
        axes = axes_of(name, array.ndim)
        if axes[0] == "residual" and axes[1] in ("query", "mlp") and "c_fc" not in name:
            changed[name] = np.asarray(array - np.outer(direction, direction @ array), np.float32)
        elif name.endswith("c_proj.weight"):  # stored input first
            changed[name] = np.asarray(array - np.outer(array @ direction, direction), np.float32)
    return checkpoint.with_tensors(changed)


def prune_two_of_four(checkpoint: Checkpoint) -> Checkpoint:
    """Return the model with the two smaller of every four neighbours in a line set to zero."""

    def pruned(array: Floats) -> Floats:
        fours = array.reshape(len(array), -1, 4)
        order = np.argsort(np.abs(fours), axis=2)
        kept = fours.copy()
        np.put_along_axis(kept, order[:, :, :2], np.float32(0), axis=2)
        return kept.reshape(array.shape)

    return checkpoint.with_tensors({name: pruned(array) for name, array in _matrices(checkpoint)})


def scale_inputs(checkpoint: Checkpoint, *, spread: float, rng: np.random.Generator) -> Checkpoint:
    """Return the model with inputs of projections scaled against the gains before them, as AWQ does.

    Only for Llamas and the like: the function of the model stays the same.
    """
    changed: dict[str, Floats] = {}
    for norm, readers in (
        ("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
        ("post_attention_layernorm", ("mlp.gate_proj", "mlp.up_proj")),
    ):
        for name in [name for name in checkpoint.tensors if name.endswith(f".{norm}.weight")]:
            gain = checkpoint.tensors[name]
            scale = np.exp(spread * rng.standard_normal(len(gain))).astype(np.float32)
            changed[name] = gain / scale
            prefix = name.removesuffix(f"{norm}.weight")
            for reader in readers:
                matrix = f"{prefix}{reader}.weight"
                if matrix in checkpoint.tensors:
                    changed[matrix] = checkpoint.tensors[matrix] * scale
    return checkpoint.with_tensors(changed)


def _matrices(checkpoint: Checkpoint) -> list[tuple[str, Floats]]:
    """Return the matrices of attention and MLP, without routers."""
    return [
        (name, array)
        for name, array in checkpoint.tensors.items()
        if array.ndim == 2 and part_of(name) in ("attention", "mlp") and ".gate.weight" not in name
    ]
