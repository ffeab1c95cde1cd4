"""Factors that one matrix takes and the next gives back: none of them changes the function."""

from __future__ import annotations

import re

import numpy as np

from modelkin.casework.lab.checkpoint import Checkpoint, Floats, layer_of

from ._symmetries import readers_of, untied
from .layout import layout_of, mlp_groups, require_rms

_UP = r"(?:up_proj|\.w3)\.weight$"
_DOWN = r"(?:down_proj|\.w2)\.weight$"
_WRITERS = rf"embed_tokens\.weight$|o_proj\.weight$|{_DOWN}"
_VALUES = r"(?:v_proj|self\.value)\.(?:weight|bias)$"
_OUTPUT = r"(?:o_proj|attention\.output\.dense)\.weight$"


def scale_residual(checkpoint: Checkpoint, *, factor: float) -> Checkpoint:
    """Multiply everything that writes to the residual stream by a number. Preserves the function.

    With RMS norms only: they divide by the size of what they read. The small number that they add to it is
    scaled too, or the outputs would change a little. Tied embeddings are untied, because the output matrix
    reads a norm. The factor is above zero: norms would pass a sign on to what reads them.
    """
    if factor <= 0:
        raise ValueError(f"factor must be above zero, got {factor}")
    require_rms(checkpoint)
    model = untied(checkpoint)
    epsilon = float(model.config["rms_norm_eps"]) * factor**2
    changed = {
        name: array * np.float32(factor) for name, array in model.tensors.items() if re.search(_WRITERS, name)
    }
    return model.with_tensors(changed, rms_norm_eps=epsilon)


def insert_gains(checkpoint: Checkpoint, *, rng: np.random.Generator, spread: float = 0.2) -> Checkpoint:
    """Multiply the gains of every norm by random numbers and divide its readers. Preserves the function.

    With RMS norms only. After `rotate_residual`, whose gains are all one, the model has gains again that look
    trained, and they are unrelated to the old ones. Tied embeddings are untied. `spread` is the standard
    deviation of the logarithm of the factors.
    """
    layout = require_rms(checkpoint)
    model = untied(checkpoint)
    one = np.float32(1 if layout.norm == "one-plus-gain" else 0)
    changed: dict[str, Floats] = {}
    for name, stored in model.tensors.items():
        if "norm" not in name:
            continue
        factors = _lognormal(rng, spread, layout.hidden)
        changed[name] = (stored + one) * factors - one
        for reader in readers_of(name, model):
            changed[reader] = changed.get(reader, model.tensors[reader]) / factors
    return model.with_tensors(changed)


def scale_mlp_units(checkpoint: Checkpoint, *, rng: np.random.Generator, spread: float = 0.7) -> Checkpoint:
    """Scale each up row by a random number of either sign, and its down column back. Preserves the function.

    With gated MLPs only. `spread` is the standard deviation of the logarithm of the sizes.
    """
    require_rms(checkpoint)  # among our families, those with RMS norms have gated MLPs
    changed: dict[str, Floats] = {}
    for group in mlp_groups(checkpoint).values():
        up, down = _up_and_down(group)
        n_units = checkpoint.tensors[up].shape[0]
        factors = np.exp(spread * rng.standard_normal(n_units)) * rng.choice([-1.0, 1.0], size=n_units)
        changed[up] = np.asarray(checkpoint.tensors[up] * factors[:, None], dtype=np.float32)
        changed[down] = np.asarray(checkpoint.tensors[down] / factors, dtype=np.float32)
    return checkpoint.with_tensors(changed)


def flip_mlp_signs(checkpoint: Checkpoint) -> Checkpoint:
    """Flip the sign of every up and every down matrix of gated MLPs. Preserves the function."""
    require_rms(checkpoint)
    names = [name for group in mlp_groups(checkpoint).values() for name in _up_and_down(group)]
    return checkpoint.with_tensors({name: -checkpoint.tensors[name] for name in names})


def scale_heads(checkpoint: Checkpoint, *, rng: np.random.Generator, spread: float = 0.7) -> Checkpoint:
    """Scale the values of each KV head by a number of either sign, the output back. Preserves the function.

    `spread` is the standard deviation of the logarithm of the sizes.
    """
    layout = layout_of(checkpoint)
    changed: dict[str, Floats] = {}
    for layer in range(layout.layers):
        signs = rng.choice(np.array([-1, 1], dtype=np.float32), size=layout.kv_heads)
        factors = _lognormal(rng, spread, layout.kv_heads) * signs
        values = np.repeat(factors, layout.head_dim)
        outputs = np.repeat(factors, layout.head_dim * layout.heads_per_kv)
        # In GPT-2 queries, keys and values lie side by side along the last axis.
        fused = np.concatenate([np.ones(2 * layout.hidden, dtype=np.float32), values[: layout.hidden]])
        for name, array in checkpoint.tensors.items():
            if layer_of(name) != layer:
                continue
            if re.search(_VALUES, name):
                changed[name] = (array.T * values).T
            elif re.search(_OUTPUT, name):
                changed[name] = array / outputs
            elif re.search(r"attn\.c_attn\.", name):
                changed[name] = array * fused
            elif name.endswith("attn.c_proj.weight"):
                changed[name] = array / outputs[:, None]
    return checkpoint.with_tensors(changed)


def _up_and_down(group: dict[str, int]) -> tuple[str, str]:
    (up,) = (name for name in group if re.search(_UP, name))
    (down,) = (name for name in group if re.search(_DOWN, name))
    return up, down


def _lognormal(rng: np.random.Generator, spread: float, n: int) -> Floats:
    return np.asarray(np.exp(spread * rng.standard_normal(n)), dtype=np.float32)
