"""Plain sameness of two models: published digests, files, stored bits, values after rounding."""

from __future__ import annotations

from modelkin._model import MAX_TOKENIZER_BYTES, Model
from modelkin.evidence import equal_after_rounding
from modelkin.tensors import TensorSlice

WALK_ELEMENTS = 1 << 20
"""Values compared at once when formats differ: a few megabytes on each side."""


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
    mine, theirs = candidate.index, base.index
    if mine.keys() != theirs.keys() or any(mine[name].shape != theirs[name].shape for name in mine):
        return False
    for name, info in mine.items():
        dtypes = info.dtype, theirs[name].dtype
        for start in range(0, info.n_elements, WALK_ELEMENTS):
            block = TensorSlice.blocks(name, [(start, min(start + WALK_ELEMENTS, info.n_elements))])
            if not equal_after_rounding(candidate.read([block])[0], base.read([block])[0], dtypes=dtypes):
                return False
    return True
