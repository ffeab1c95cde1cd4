"""Changes of the weights that preserve the function, up to rounding: a test must see through them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modelkin.casework.lab.checkpoint import Checkpoint, Floats, layer_of

from .layout import (
    Layout,
    expert_of,
    layout_of,
    linear_on,
    mlp_groups,
    places,
    require_rms,
    rotary_layout,
    taken,
)

# Which matrices read the output of which norm.
_READERS = {
    "input_layernorm.weight": r"self_attn\.[qkv]_proj\.weight$",
    "post_attention_layernorm.weight": r"(?:(?:gate|up)_proj|\.w1|\.w3|moe\.gate)\.weight$",
}


def permute_mlp_units(checkpoint: Checkpoint, *, rng: np.random.Generator) -> Checkpoint:
    """Reorder the hidden units of every MLP, and of every expert. Preserves the function."""
    changed: dict[str, Floats] = {}
    for group in mlp_groups(checkpoint).values():
        name, axis = next(iter(group.items()))
        order = rng.permutation(checkpoint.tensors[name].shape[axis])
        changed |= {name: np.take(checkpoint.tensors[name], order, axis=axis) for name, axis in group.items()}
    return checkpoint.with_tensors(changed)


def permute_heads(checkpoint: Checkpoint, *, rng: np.random.Generator) -> Checkpoint:
    """Reorder the KV groups of every layer, and the query heads within each. Preserves the function."""
    layout = layout_of(checkpoint)
    changed: dict[str, Floats] = {}
    for layer in range(layout.layers):
        groups = rng.permutation(layout.kv_heads)
        inside = np.stack([rng.permutation(layout.heads_per_kv) for _ in groups])
        heads = (groups[:, None] * layout.heads_per_kv + inside).ravel()
        query, key = places(heads, layout.head_dim), places(groups, layout.head_dim)
        # In GPT-2 queries, keys and values lie side by side, each with all heads.
        fused = np.concatenate([query + part * layout.hidden for part in range(3)])
        changed |= taken(checkpoint, {"query": query, "key": key, "value": key, "qkv": fused}, layer=layer)
    return checkpoint.with_tensors(changed)


def permute_experts(checkpoint: Checkpoint, *, rng: np.random.Generator) -> Checkpoint:
    """Reorder the experts of every layer together with the router's rows. Preserves the function."""
    layout = layout_of(checkpoint)
    n_experts = int(checkpoint.config["num_local_experts"])
    changed: dict[str, Floats] = {}
    for layer in range(layout.layers):
        order = rng.permutation(n_experts)
        changed |= taken(checkpoint, {"experts": order}, layer=layer)
        for name in checkpoint.tensors:
            expert = expert_of(name)
            if layer_of(name) == layer and expert is not None:
                source = name.replace(f".experts.{expert}.", f".experts.{order[expert]}.")
                changed[name] = checkpoint.tensors[source]
    return checkpoint.with_tensors(changed)


def permute_residual(checkpoint: Checkpoint, *, rng: np.random.Generator) -> Checkpoint:
    """Reorder the dimensions of the residual stream in every tensor. Preserves the function."""
    return checkpoint.with_tensors(
        taken(checkpoint, {"residual": rng.permutation(layout_of(checkpoint).hidden)})
    )


def flip_residual_signs(checkpoint: Checkpoint, *, rng: np.random.Generator) -> Checkpoint:
    """Flip the sign of about half of the residual dimensions. Preserves the function with RMS norms only."""
    signs = rng.choice(np.array([-1, 1], dtype=np.float32), size=require_rms(checkpoint).hidden)
    return checkpoint.with_tensors(linear_on(checkpoint, "residual", lambda array: array * signs))


def rotate_residual(checkpoint: Checkpoint, *, rng: np.random.Generator) -> Checkpoint:
    """Fold the gains, then rotate the residual stream by a random orthogonal matrix. Preserves the function.

    With RMS norms only: a layer norm subtracts the mean over dimensions, which a rotation changes. Tied
    embeddings are untied, because the output matrix absorbs the gains of the last norm.
    """
    folded = fold_gains(checkpoint)
    rotation = _random_orthogonal(require_rms(folded).hidden, rng)
    return folded.with_tensors(
        linear_on(folded, "residual", lambda array: np.asarray(array @ rotation, dtype=np.float32))
    )


def fold_gains(checkpoint: Checkpoint) -> Checkpoint:
    """Multiply the gains of every norm into its readers and set them to one. Preserves the function."""
    layout = require_rms(checkpoint)
    model = untied(checkpoint)
    changed: dict[str, Floats] = {}
    for name, stored in model.tensors.items():
        if "norm" not in name:
            continue
        gain = stored + 1 if layout.norm == "one-plus-gain" else stored
        for reader in readers_of(name, model):
            changed[reader] = changed.get(reader, model.tensors[reader]) * gain
        changed[name] = np.zeros_like(stored) if layout.norm == "one-plus-gain" else np.ones_like(stored)
    return model.with_tensors(changed)


def turn_rope_pairs(checkpoint: Checkpoint, *, rng: np.random.Generator, spread: float = 0.7) -> Checkpoint:
    """Scale each RoPE pair of the queries, the keys back, and rotate both alike. Preserves the function.

    A pair is dimensions i and i + half of a head; all query heads of a KV group get the same factors. Queries
    and keys must have no norms. `spread` is the standard deviation of the logarithm of the factors.
    """
    layout = rotary_layout(checkpoint)
    changed: dict[str, Floats] = {}
    for layer in range(layout.layers):
        shape = (layout.kv_heads, layout.head_dim // 2)
        turn = np.exp(1j * rng.uniform(0, 2 * np.pi, size=shape))
        size = np.exp(spread * rng.standard_normal(shape))
        for name, array in checkpoint.tensors.items():
            if layer_of(name) == layer and (found := re.search(r"self_attn\.([qk])_proj\.", name)):
                factors = turn * size if found[1] == "q" else turn / size
                heads_per_kv = layout.heads_per_kv if found[1] == "q" else 1
                changed[name] = _turned(array, np.repeat(factors, heads_per_kv, axis=0))
    return checkpoint.with_tensors(changed)


def mix_values(checkpoint: Checkpoint, *, rng: np.random.Generator) -> Checkpoint:
    """Multiply the values of each KV head by a random matrix and the output projection by its inverse.

    Preserves the function. The matrices are orthogonal times factors between a half and two, so that
    rounding stays small.
    """
    layout = rotary_layout(checkpoint)
    changed: dict[str, Floats] = {}
    for layer in range(layout.layers):
        mixers = [
            _random_orthogonal(layout.head_dim, rng) * rng.uniform(0.5, 2, size=layout.head_dim)
            for _ in range(layout.kv_heads)
        ]
        for name, array in checkpoint.tensors.items():
            if layer_of(name) != layer:
                continue
            if "self_attn.v_proj." in name:
                heads = array.reshape(layout.kv_heads, layout.head_dim, -1)
                mixed = [mixer @ head for mixer, head in zip(mixers, heads, strict=True)]
                changed[name] = np.asarray(mixed, dtype=np.float32).reshape(array.shape)
            elif "self_attn.o_proj.weight" in name:
                changed[name] = _unmixed(array, mixers, layout)
    return checkpoint.with_tensors(changed)


def _unmixed(output: Floats, mixers: list[NDArray[Any]], layout: Layout) -> Floats:
    """Return the output projection that undoes a mixing of values, one block of columns per query head."""
    blocks = output.reshape(len(output), layout.heads, layout.head_dim)
    inverses = [np.linalg.inv(mixers[head // layout.heads_per_kv]) for head in range(layout.heads)]
    undone = [blocks[:, head] @ inverse for head, inverse in enumerate(inverses)]
    return np.asarray(np.stack(undone, axis=1), dtype=np.float32).reshape(output.shape)


def _turned(array: Floats, factors: NDArray[np.complex128]) -> Floats:
    """Multiply the pairs of each head, taken as complex numbers; `factors` is heads by pairs."""
    halves = array.reshape(len(factors), 2, factors.shape[1], -1)
    turned = (halves[:, 0] + 1j * halves[:, 1]) * factors[:, :, None]
    return np.asarray(np.stack([turned.real, turned.imag], axis=1), dtype=np.float32).reshape(array.shape)


def _random_orthogonal(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a uniformly distributed random orthogonal matrix."""
    q, r = np.linalg.qr(rng.standard_normal((n, n)))
    # Without the signs the distribution would depend on LAPACK's conventions.
    return np.asarray(q * np.sign(np.diag(r)), dtype=np.float64)


def untied(checkpoint: Checkpoint) -> Checkpoint:
    """Return the model with a separate output matrix."""
    if "lm_head.weight" in checkpoint.tensors:
        return checkpoint
    head = checkpoint.tensors["model.embed_tokens.weight"]
    return checkpoint.with_tensors({"lm_head.weight": head}, tie_word_embeddings=False)


def readers_of(norm: str, checkpoint: Checkpoint) -> list[str]:
    """Return the matrices that read the output of a norm."""
    if norm == "model.norm.weight":
        return ["lm_head.weight"]
    layer, _, last = norm.rpartition("layers.")[2].partition(".")
    return [
        name
        for name in checkpoint.tensors
        if layer_of(name) == int(layer) and re.search(_READERS[last], name)
    ]
