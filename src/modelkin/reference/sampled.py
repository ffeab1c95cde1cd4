"""Cosine of sampled parameters, after the third fingerprint of modelDNA (2026).

32 blocks of 16,384 numbers of every matrix, at seeded places that are the same in both models. The
score is the mean over roles of the mean cosine over layers. modelDNA weighs it with three other
fingerprints by a fitted rule, which is not repeated here.
"""

from __future__ import annotations

from typing import final

import numpy as np

from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.tensors import TensorSlice, sample_blocks

from ._interface import RawScore, ReferenceMethod, ReferencePair, Wanted
from .reading import SideReader
from .same_parts import SamePart, same_parts

N_BLOCKS, BLOCK_ELEMENTS = 32, 16_384
"""As many as modelDNA takes from a tensor."""


@final
class SampledCosine(ReferenceMethod):
    """Mean cosine of sampled blocks, by role."""

    def wanted(self, pair: ReferencePair) -> Wanted | Message:
        """Ask for the blocks of every matrix that both have in one shape."""
        parts = same_parts(*pair.models, matrices_only=True)
        if isinstance(parts, Message):
            return parts
        mine, theirs = (
            [_sample(model, part, side, pair.seed) for part in parts]
            for side, model in enumerate(pair.models)
        )
        return mine, theirs

    def measure(self, pair: ReferencePair, readers: tuple[SideReader, SideReader]) -> RawScore | Message:
        """Read part by part, in bounded memory."""
        parts = same_parts(*pair.models, matrices_only=True)
        if isinstance(parts, Message):
            return parts
        by_role: dict[str, list[float]] = {}
        for part in parts:
            first, second = (
                np.nan_to_num(
                    np.asarray(
                        reader.read([_sample(reader.model, part, side, pair.seed)])[0], dtype=np.float64
                    )
                ).ravel()
                for side, reader in enumerate(readers)
            )
            size = float(np.linalg.norm(first) * np.linalg.norm(second))
            if size > 0.0:
                by_role.setdefault(part.role, []).append(float(first @ second) / size)
        if not by_role:
            return say("reference-all-zero")
        means = {role: float(np.mean(values)) for role, values in by_role.items()}
        return RawScore(score=float(np.mean(list(means.values()))), details=means)


def _sample(model: Model, part: SamePart, side: int, seed: int) -> TensorSlice:
    return sample_blocks(
        model.index[part.names[side]],
        n_blocks=N_BLOCKS,
        block_elements=BLOCK_ELEMENTS,
        seed=seed,
        key=part.names[1],
    )
