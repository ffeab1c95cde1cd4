"""Tokenizers of both models: which rows stand for the same tokens, and what is recorded about the files."""

from __future__ import annotations

from collections.abc import Mapping

from modelkin.describe import Cell, not_compared, tokenizer_record
from modelkin.message import Message, say
from modelkin.model import MAX_TOKENIZER_BYTES, Model
from modelkin.options import Depth
from modelkin.tokenizer import TokenPairs, equal_rows, read_vocabulary, shared_tokens, tokenizer_files

VOCABULARY_BYTES = 2_000_000
"""At most this much of each tokenizer is read: some hundreds of shared tokens are enough."""
UNREAD = say("tokenizer-depth")
_FILE = "tokenizer.json"

Tokens = TokenPairs | Message
"""Rows of shared tokens, or why there are none."""


def pair_tokens(candidate: Model, base: Model) -> Tokens:
    """Pair the rows of embeddings by the text of their tokens, or say why that is not possible."""
    models = candidate, base
    # Some weight files embed a tokenizer, which counts as a file of the model.
    sizes = [model.file_size(_FILE) for model in models]
    vocabularies = [model.architecture.sizes.get("vocab") for model in models]
    if sizes[0] is None or sizes[1] is None:
        if sizes[0] is sizes[1] and vocabularies[0] is not None and vocabularies[0] == vocabularies[1]:
            return equal_rows(vocabularies[0], how=say("no-tokenizer-equal"), assumed=True)
        return say("tokenizer-missing")
    if vocabularies[0] and same_tokenizer(candidate, base):
        smaller = min(size for size in vocabularies if size is not None)
        return equal_rows(smaller, how=say("same-tokenizer"))
    read = [read_vocabulary(model.start_of(_FILE, limit=VOCABULARY_BYTES)) for model in models]
    if read[0] is None or read[1] is None:
        return say("tokenizer-form")
    return shared_tokens(read[0], read[1])


def same_tokenizer(candidate: Model, base: Model) -> bool | None:
    """Say whether both models have the same tokenizer.json: by digest, or by its bytes if on disk."""
    mine, theirs = (model.fetcher.source.find(_FILE) for model in (candidate, base))
    if mine is None or theirs is None:
        return None
    if mine.size != theirs.size:
        return False
    if candidate.location.kind == base.location.kind == "hub":
        return mine.etag is not None and mine.etag == theirs.etag
    if candidate.fetcher.source.remote or base.fetcher.source.remote or mine.size > MAX_TOKENIZER_BYTES:
        return None
    limit = MAX_TOKENIZER_BYTES
    return candidate.start_of(_FILE, limit=limit) == base.start_of(_FILE, limit=limit)


def tokenizer_summary(
    candidate: Model,
    base: Model,
    tokens: Tokens,
    depth: Depth,
    *,
    whole: bool = False,
    unread: Message | None = None,
) -> Mapping[str, Cell]:
    """Record what both tokenizers have in common; `whole` vocabularies are read if bytes allow.

    `unread` says why they may not be read.
    """
    compared = _whole(candidate, base, depth) if whole else not_compared(unread or say("tokenizers-not-yet"))
    return {
        "candidate_has_tokenizer_json": candidate.file_size(_FILE) is not None,
        "base_has_tokenizer_json": base.file_size(_FILE) is not None,
        "same_file": None if unread else same_tokenizer(candidate, base),
        "shared_tokens": len(tokens) if isinstance(tokens, TokenPairs) else None,
        "paired": tokens.how if isinstance(tokens, TokenPairs) else tokens,
        **compared,
    }


def _whole(candidate: Model, base: Model, depth: Depth) -> Mapping[str, Cell]:
    """Compare whole vocabularies if that costs next to nothing, or if much may be read."""
    return tokenizer_record(candidate, base, limit=_limit(candidate, base, depth))


def _limit(candidate: Model, base: Model, depth: Depth) -> int:
    far = candidate.fetcher.source.remote or base.fetcher.source.remote
    cheap = far and depth == "standard"
    # Half, because the beginning may already have been read for the rows of tokens.
    return VOCABULARY_BYTES // 2 if cheap else MAX_TOKENIZER_BYTES


def pairing_bytes(candidate: Model, base: Model) -> tuple[int, int]:
    """Return what `pair_tokens` reads of both models at most."""
    mine, theirs = (model.file_size(_FILE) for model in (candidate, base))
    if not mine or not theirs:
        return 0, 0
    # Local files of equal size are compared byte by byte.
    near = mine == theirs and not (candidate.fetcher.source.remote or base.fetcher.source.remote)
    compared = mine if near and mine <= MAX_TOKENIZER_BYTES else 0
    return compared + min(mine, VOCABULARY_BYTES), compared + min(theirs, VOCABULARY_BYTES)


def summary_bytes(candidate: Model, base: Model, depth: Depth) -> tuple[int, int]:
    """Return what `tokenizer_summary` reads of both models at most, beyond what pairing tokens has read."""
    limit = _limit(candidate, base, depth)

    def most(model: Model) -> int:
        sizes = {name: model.file_size(name) or 0 for name in tokenizer_files(model.file_names())}
        whole = sum(size for size in sizes.values() if size <= limit) if depth != "quick" else 0
        # Files on disk are compared byte by byte.
        compared = 0 if model.fetcher.source.remote else min(model.file_size(_FILE) or 0, MAX_TOKENIZER_BYTES)
        return whole + compared

    return most(candidate), most(base)
