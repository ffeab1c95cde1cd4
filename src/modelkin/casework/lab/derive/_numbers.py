"""Changes of single numbers: casts, rounding to few levels, pruning, noise. Outputs change a little."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from modelkin.casework.lab.checkpoint import Checkpoint, Floats, part_of
from modelkin.tensors import decode, encode


def cast(checkpoint: Checkpoint, dtype: str) -> Checkpoint:
    """Return the model with all numbers rounded to a format, ``BF16``, ``F16`` or one of eight bits."""
    return checkpoint.with_tensors(
        {
            name: decode(encode(array, dtype), dtype, array.size).reshape(array.shape).astype(np.float32)
            for name, array in checkpoint.tensors.items()
        }
    )


def round_to_int8(checkpoint: Checkpoint) -> Checkpoint:
    """Return the model with each row of the layers' matrices on 255 symmetric levels (values, not codes)."""

    def rounded(array: Floats) -> Floats:
        step = np.abs(array).max(axis=1, keepdims=True) / 127
        step[step == 0] = 1
        return np.asarray(np.round(array / step) * step, dtype=np.float32)

    return _on_matrices(checkpoint, rounded)


def round_to_int4(checkpoint: Checkpoint, *, group: int = 32) -> Checkpoint:
    """Return the model with each group of numbers of the layers' matrices on 16 levels (values, not codes).

    `group` neighbours in a row share their levels, from the least to the largest; the last group of a row may
    be shorter.
    """

    def rounded(array: Floats) -> Floats:
        blocks = []
        for start in range(0, array.shape[1], group):
            block = array[:, start : start + group]
            low = block.min(axis=1, keepdims=True)
            step = (block.max(axis=1, keepdims=True) - low) / 15
            step[step == 0] = 1
            blocks.append(np.round((block - low) / step) * step + low)
        return np.asarray(np.concatenate(blocks, axis=1), dtype=np.float32)

    return _on_matrices(checkpoint, rounded)


def prune_by_magnitude(checkpoint: Checkpoint, *, fraction: float = 0.5) -> Checkpoint:
    """Return the model with the smallest numbers of each matrix of the layers set to zero."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be in [0, 1], got {fraction}")

    def pruned(array: Floats) -> Floats:
        return np.where(np.abs(array) < np.quantile(np.abs(array), fraction), np.float32(0), array)

    return _on_matrices(checkpoint, pruned)


def add_noise(checkpoint: Checkpoint, *, size: float, rng: np.random.Generator) -> Checkpoint:
    """Return the model with Gaussian noise on every tensor.

    `size` is relative to the standard deviation of the tensor; norm gains get it relative to their own
    spread, which is far smaller than the gains.
    """
    return checkpoint.with_tensors(
        {
            name: array + np.float32(size * array.std()) * rng.standard_normal(array.shape, dtype=np.float32)
            for name, array in checkpoint.tensors.items()
        }
    )


def _on_matrices(checkpoint: Checkpoint, change: Callable[[Floats], Floats]) -> Checkpoint:
    """Apply a change to the matrices of attention and MLP, as quantisers and pruners do."""
    return checkpoint.with_tensors(
        {
            name: change(array)
            for name, array in checkpoint.tensors.items()
            if array.ndim == 2 and part_of(name) in ("attention", "mlp")
        }
    )
