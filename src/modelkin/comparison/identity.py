"""Plain sameness of two models: published digests, stored bits, values after rounding."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np

from modelkin.comparison.methods import EqualityCount, code_step, equal_after_rounding, share_within
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.verdict import Conclusion, Identity, Verdict
from modelkin.message import say
from modelkin.model import Model
from modelkin.tensors import TensorInfo, TensorSlice, line_elements, sample_blocks

CopyKind: TypeAlias = Literal["copy", "precision-copy", "quantised-copy"]
_COARSER: Final[tuple[CopyKind, ...]] = ("copy", "precision-copy", "quantised-copy")
NEARLY_ALL = 0.95
"""Share of all weights that a copy has to have."""
ONE_SCALE = ("INT8", "UINT8")
"""Codes that can have one scale for a whole tensor."""
WALK_ELEMENTS = 1 << 20
"""Values compared at once when formats differ: a few megabytes on each side."""
SAMPLED_LINES = 32
"""Neighbouring lines of each quantised tensor that are compared with what the other model holds."""
WITHIN_A_STEP = 0.95
"""Share of weights that have to be within a step of their codes. Rounding leaves none outside, GPTQ on inputs
that hang together strongly one in a hundred."""


def published_identity(pair: ModelPair) -> Identity | None:
    """Compare the digests that sources publish, before a byte of a tensor is read."""
    mine, theirs = (published_digests(model) for model in pair.models)
    if mine and mine == theirs:
        return Identity(all_files_equal=True, how=say("published-digest"))
    return None


def full_identity(pair: ModelPair, equality: EqualityCount) -> Identity | None:
    """Compare every value, where no sample differs and reading all is cheap or was asked for."""
    if equality.n_equal < equality.n_compared or not _may_walk(pair):
        return None
    if not same_layout(*pair.models) or not same_bits(*pair.models):
        return None
    return Identity(all_files_equal=True, how=say("every-value"))


def copy_of_relative(pair: ModelPair, verdict: Verdict) -> CopyKind | None:
    """Walk over relatives that may be copies: nothing else is worth the bytes."""
    if not verdict.related or verdict.conclusion is Conclusion.IDENTICAL or not _may_walk(pair):
        return None
    return kind_of_copy(*pair.models)


def _may_walk(pair: ModelPair) -> bool:
    """Say whether both models may be read from beginning to end, which costs nothing where they lie here.

    Twice at most: for equal bits, and then for what rounding and codes explain.
    """
    if pair.options.depth != "full" and any(model.fetcher.source.remote for model in pair.models):
        return False
    budget = pair.options.fetch.byte_budget
    return budget is None or all(
        model.fetcher.source.budget.spent + 2 * model.index.n_bytes <= budget for model in pair.models
    )


def published_digests(model: Model) -> tuple[str, ...] | None:
    """Return the digests of all files with weights, as the source publishes them; None if one has none."""
    files = model.fetcher.source.files()
    digests = [files[name].sha256 if name in files else None for name in model.index.files]
    if not digests or None in digests:
        return None
    return tuple(sorted(digest for digest in digests if digest))


def same_layout(candidate: Model, base: Model) -> bool:
    """Say whether both models have the same tensors in the same formats and shapes."""
    mine, theirs = candidate.index, base.index
    return mine.keys() == theirs.keys() and all(
        (info.shape, info.dtype) == (theirs[name].shape, theirs[name].dtype) for name, info in mine.items()
    )


def same_bits(candidate: Model, base: Model) -> bool:
    """Walk over both models in step and compare stored bits, in bounded memory, until one differs."""
    for name, info in candidate.index.items():
        if (info.storage is None) != (base.index[name].storage is None):
            return False  # equal numbers can still be found after rounding
        mine, theirs = candidate.raw_chunks([name]), base.raw_chunks([name])
        for left, right in zip(mine, theirs, strict=True):
            if not (left.values == right.values).all():
                return False
    return True


def kind_of_copy(candidate: Model, base: Model) -> CopyKind | None:
    """Say in which way one model holds the weights of the other: as they are, rounded, or quantised.

    Every value of the tensors that both have is compared, in bounded memory, until one differs by more than
    its format explains. These tensors have to be nearly all of both models: exporters leave out poolers and
    tables of positions. Weights that are codes in one of them have to lie within one step of their code of
    what the other one holds, in a sample of every tensor: quantisers that make up for their errors go
    further than half a step. What was changed by less than a step is not seen.
    """
    kinds: set[CopyKind] = set()
    for name in common_tensors(candidate, base):
        kind = _kind_of_tensor(candidate, base, candidate.index[name])
        if kind is None:
            return None
        kinds.add(kind)
    return max(kinds, key=_COARSER.index, default=None)


def common_tensors(candidate: Model, base: Model) -> tuple[str, ...]:
    """Return the tensors that both models have, if they are nearly all of both; otherwise none."""
    mine, theirs = candidate.index, base.index
    names = tuple(name for name, info in mine.items() if name in theirs and theirs[name].shape == info.shape)
    count = sum(mine[name].n_elements for name in names)
    return names if count >= NEARLY_ALL * max(mine.n_parameters, theirs.n_parameters) else ()


def _kind_of_tensor(candidate: Model, base: Model, info: TensorInfo) -> CopyKind | None:
    other = base.index[info.name]
    kind: CopyKind = "copy" if info.dtype == other.dtype else "precision-copy"
    for start in range(0, info.n_elements, WALK_ELEMENTS):
        block = TensorSlice.blocks(info.name, [(start, min(start + WALK_ELEMENTS, info.n_elements))])
        left, right = candidate.read([block])[0], base.read([block])[0]
        if np.array_equal(left, right, equal_nan=left.dtype.kind == "f"):
            continue
        if not equal_after_rounding(left, right, dtypes=(info.dtype, other.dtype)):
            break
        kind = "precision-copy"
    else:
        return kind
    steps = sum(code_step(one.dtype) or 0.0 for one in (info, other))
    return "quantised-copy" if steps and _within_steps(candidate, base, info, steps) else None


def _within_steps(candidate: Model, base: Model, info: TensorInfo, steps: float) -> bool:
    width = line_elements(info.shape)
    wanted = sample_blocks(info, n_blocks=1, block_elements=SAMPLED_LINES * width, seed=0)
    left, right = candidate.read([wanted])[0], base.read([wanted])[0]
    # Such codes may have one scale for all lines, which the largest number of all has set.
    coded = [model for model in (candidate, base) if model.index[info.name].dtype in ONE_SCALE]
    largest = max((_largest(model, info.name) for model in coded), default=None)
    share = share_within(left.reshape(-1, width), right.reshape(-1, width), steps=steps, largest=largest)
    return share >= WITHIN_A_STEP


def _largest(model: Model, name: str) -> float:
    return max(float(np.abs(chunk.values).max(initial=0.0)) for chunk in model.chunks([name]))
