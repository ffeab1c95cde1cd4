"""Checkpoints whose matrices are stored as factors, as compression by singular values leaves them."""

from __future__ import annotations

import numpy as np

from modelkin.casework.lab.checkpoint import Checkpoint, Part, layer_of, part_of

WORDS = (".A .B", ".0 .1", ".BLinear .ALinear", "_v _u", "_b _a")
"""What the right and the left factor are called; ``_v`` stands before ``_proj``, as SVD-LLM has it."""


def factored(
    model: Checkpoint, part: float, *, words: str = ".A .B", of: tuple[Part, ...] = ("attention", "mlp")
) -> Checkpoint:
    """Store each matrix of the layers as two factors, with part of its rank."""
    tensors = {}
    for name, value in model.tensors.items():
        if layer_of(name) is None or value.ndim != 2 or part_of(name) not in of:
            tensors[name] = value
            continue
        left, sizes, right = np.linalg.svd(value.astype(np.float64), full_matrices=False)
        rank = max(1, round(part * len(sizes)))
        roots = np.sqrt(sizes[:rank])
        factors = [roots[:, None] * right[:rank], left[:, :rank] * roots]
        for word, factor in zip(words.split(), factors, strict=True):
            tensors[_named(name, word)] = factor.astype(np.float32)
    return Checkpoint(config=model.config, tensors=tensors, tokenizer=model.tokenizer)


def _named(name: str, word: str) -> str:
    stem = name.removesuffix(".weight")
    if word.startswith("_") and stem.endswith("_proj"):
        return f"{stem.removesuffix('_proj')}{word}_proj.weight"
    return f"{stem}{word}.weight"
