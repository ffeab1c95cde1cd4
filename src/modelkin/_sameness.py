"""Plain sameness of two models: published digests, files, stored bits, values after rounding."""

from __future__ import annotations

from modelkin._model import MAX_TOKENIZER_BYTES, Model
from modelkin.evidence import code_step, equal_after_rounding, share_within
from modelkin.tensors import TensorInfo, TensorSlice, line_elements, sample_blocks

WALK_ELEMENTS = 1 << 20
"""Values compared at once when formats differ: a few megabytes on each side."""
SAMPLED_LINES = 32
"""Neighbouring lines of each quantised tensor that are compared with what the other model holds."""
WITHIN_A_STEP = 0.95
"""Share of weights that have to be within a step of their codes. Rounding leaves none outside, GPTQ on inputs
that hang together strongly one in a hundred."""


def published_digests(model: Model) -> tuple[str, ...] | None:
    """Return the digests of all files with weights, as the source publishes them; None if one has none."""
    files = model.fetcher.source.files()
    digests = [files[name].sha256 if name in files else None for name in model.index.files]
    if not digests or None in digests:
        return None
    return tuple(sorted(digest for digest in digests if digest))


def same_file(candidate: Model, base: Model, name: str) -> bool | None:
    """Say whether both models have the same file: by digest, or by its bytes where they are on disk."""
    mine, theirs = (model.fetcher.source.find(name) for model in (candidate, base))
    if mine is None or theirs is None:
        return None
    if mine.size != theirs.size:
        return False
    if candidate.location.kind == base.location.kind == "hub":
        return mine.etag is not None and mine.etag == theirs.etag
    if candidate.fetcher.source.remote or base.fetcher.source.remote or mine.size > MAX_TOKENIZER_BYTES:
        return None
    limit = MAX_TOKENIZER_BYTES
    return candidate.start_of(name, limit=limit) == base.start_of(name, limit=limit)


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


def same_after_rounding(candidate: Model, base: Model) -> bool:
    """Walk over both models in step and compare values rounded to the coarser format, until one differs."""
    return _same_shapes(candidate, base) and all(
        _same_numbers(candidate, base, info) for info in candidate.index.values()
    )


def same_after_quantising(candidate: Model, base: Model) -> bool:
    """Say whether one model is the other one with weights quantised.

    Weights that are codes in one of them have to lie within one step of their code of what the other one
    holds, in a sample of every tensor: quantisers that make up for their errors go further than half a step.
    All other weights have to be equal after rounding. What was changed by less than a step is not seen.
    """
    if not _same_shapes(candidate, base):
        return False
    steps = {
        name: sum(code_step(one.dtype) or 0.0 for one in (info, base.index[name]))
        for name, info in candidate.index.items()
    }
    return any(steps.values()) and all(
        _within_steps(candidate, base, info, steps[name])
        if steps[name]
        else _same_numbers(candidate, base, info)
        for name, info in candidate.index.items()
    )


def _same_shapes(candidate: Model, base: Model) -> bool:
    mine, theirs = candidate.index, base.index
    return mine.keys() == theirs.keys() and all(mine[name].shape == theirs[name].shape for name in mine)


def _within_steps(candidate: Model, base: Model, info: TensorInfo, steps: float) -> bool:
    width = line_elements(info.shape)
    wanted = sample_blocks(info, n_blocks=1, block_elements=SAMPLED_LINES * width, seed=0)
    left, right = candidate.read([wanted])[0], base.read([wanted])[0]
    return share_within(left.reshape(-1, width), right.reshape(-1, width), steps=steps) >= WITHIN_A_STEP


def _same_numbers(candidate: Model, base: Model, info: TensorInfo) -> bool:
    dtypes = info.dtype, base.index[info.name].dtype
    for start in range(0, info.n_elements, WALK_ELEMENTS):
        block = TensorSlice.blocks(info.name, [(start, min(start + WALK_ELEMENTS, info.n_elements))])
        if not equal_after_rounding(candidate.read([block])[0], base.read([block])[0], dtypes=dtypes):
            return False
    return True
