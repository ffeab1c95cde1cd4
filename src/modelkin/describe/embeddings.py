"""Embedding rows of shared tokens: how alike they are, beside what chance and each model alone give."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from modelkin.architecture import Role
from modelkin.describe.row_cosines import Rows, RowView, cosines, geometry, lengths, row_view
from modelkin.describe.tokenizers import load_tokenizer
from modelkin.errors import NotFound, TokenizerError, UsageError
from modelkin.model import Model, open_model
from modelkin.source import Source
from modelkin.tensors import TensorSlice
from modelkin.tokenizer import CLASSES, Tokenizer, shown, token_class

if TYPE_CHECKING:
    from modelkin.options import FetchOptions
    from modelkin.progress import Progress

SCHEMA = "modelkin.embeddings/1"
FILTERS = ("all", "ASCII words", "English-like", *CLASSES)
"""Which tokens to take: all, letters a-z only (three or more), mostly ASCII, or one class of writing."""
ROLES = {"embedding": Role.EMBEDDING, "head": Role.OUTPUT_HEAD}
_FEWEST = 8
_LISTED = 10
_LIMITS = (
    "A cosine near 1 for every token is a shared or barely changed table.",
    "A mean near 0 says that the rows share no coordinates. Coordinates are a free choice of each training: "
    "separately trained models show it, and so does a copy whose residual dimensions were turned.",
    "z over token pairings says whether a row is nearer to its own token than to others. It is no p-value of "
    "a common origin: frequent tokens differ from rare ones in every model, and such a direction can agree a "
    "little by chance. The test that decides is embedding-rows, over the order of dimensions.",
    "Cosines between random tokens of one model say how narrow its cone is, and nothing about two models.",
)

ModelLike = str | Source | Model


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCosine:
    """One token."""

    token: str
    candidate_id: int
    base_id: int
    cosine: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingComparison:
    """Rows of shared tokens in two models."""

    status: str
    """ok or skipped."""
    reason: str | None
    role: str
    tokens: str
    """Which tokens were taken, one of `FILTERS`."""
    seed: int
    width: int | None = None
    shared: int | None = None
    """Tokens of equal text with a row in both."""
    matching: int | None = None
    """Of those, how many pass the filter."""
    used: int | None = None
    zero_rows: int | None = None
    """Sampled tokens left out, because a row is all zeros."""
    raw: RowView | None = None
    centred: RowView | None = None
    geometry: float | None = None
    """Correlation of the two tables of cosines between tokens (centred). A rotation does not change it;
    models that were trained separately agree too, since words mean the same to both."""
    nearest: tuple[TokenCosine, ...] = ()
    farthest: tuple[TokenCosine, ...] = ()
    limits: tuple[str, ...] = _LIMITS


def compare_embeddings(
    candidate: ModelLike,
    base: ModelLike,
    options: FetchOptions | None = None,
    *,
    role: str = "embedding",
    tokens: str = "all",
    n_tokens: int = 512,
    seed: int = 0,
    progress: Progress | None = None,
) -> EmbeddingComparison:
    """Compare the rows of tokens that both models have, matched by text.

    Parameters
    ----------
    candidate, base
        Model references, sources, or opened models.
    options
        How to fetch. Only the sampled rows and both tokenizers are read.
    role
        ``embedding`` or ``head``.
    tokens
        Which tokens, one of `FILTERS`.
    n_tokens
        Most tokens to take.
    seed
        Chooses the tokens and the drawn orders.
    progress
        Told about long reads.
    """
    if role not in ROLES:
        raise UsageError("role", f"expected one of {', '.join(ROLES)}, got {role!r}")
    if tokens not in FILTERS:
        raise UsageError("tokens", f"expected one of {', '.join(FILTERS)}, got {tokens!r}")
    if n_tokens < _FEWEST:
        raise UsageError("n_tokens", f"expected at least {_FEWEST}, got {n_tokens}")
    with ExitStack() as stack:
        models = [
            model
            if isinstance(model, Model)
            else stack.enter_context(open_model(model, options, progress=progress))
            for model in (candidate, base)
        ]
        try:
            return compare_rows(
                shared_rows(models[0], models[1], role=role, tokens=tokens, n_tokens=n_tokens, seed=seed)
            )
        except RowsNotComparable as skip:
            reason = str(skip)
    return EmbeddingComparison(status="skipped", reason=reason, role=role, tokens=tokens, seed=seed)


class RowsNotComparable(Exception):
    """Why nothing can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRows:
    """Rows of shared tokens as they were read, in the order of the base's ids. None of them is all zeros."""

    role: str
    tokens: str
    seed: int
    texts: tuple[bytes, ...]
    ids: tuple[tuple[int, int], ...]
    """Candidate's id and base's id of each token."""
    candidate: Rows = field(repr=False)
    base: Rows = field(repr=False)
    shared: int
    matching: int
    zero_rows: int


def shared_rows(
    candidate: Model, base: Model, *, role: str, tokens: str, n_tokens: int, seed: int
) -> SharedRows:
    """Read the rows of tokens that both models have, matched by text.

    Raises
    ------
    RowsNotComparable
        There are none that could be compared.
    """
    names = [_table(model, role) for model in (candidate, base)]
    infos = [model.index[name] for model, name in zip((candidate, base), names, strict=True)]
    widths = [info.shape[1] for info in infos]
    if widths[0] != widths[1]:
        raise RowsNotComparable(f"rows have {widths[0]} and {widths[1]} numbers")
    mine, theirs = (_tokenizer(model) for model in (candidate, base))
    shared = [
        text
        for text in mine.tokens.keys() & theirs.tokens.keys()
        if text not in mine.ambiguous
        and text not in theirs.ambiguous
        and mine.tokens[text] < infos[0].n_rows
        and theirs.tokens[text] < infos[1].n_rows
    ]
    matching = [text for text in shared if _wanted(tokens)(text)]
    chosen = sorted(_sampled(matching, n_tokens, seed), key=lambda text: theirs.tokens[text])
    ids = [(mine.tokens[text], theirs.tokens[text]) for text in chosen]
    if len(chosen) < _FEWEST:
        raise RowsNotComparable(f"only {len(chosen)} tokens of this kind are in both vocabularies")
    left = _read(candidate, names[0], [one for one, _ in ids])
    right = _read(base, names[1], [other for _, other in ids])
    usable = np.flatnonzero(lengths(left) * lengths(right) > 0.0)
    if len(usable) < _FEWEST:
        raise RowsNotComparable("nearly all rows are zeros")
    return SharedRows(
        role=role,
        tokens=tokens,
        seed=seed,
        texts=tuple(chosen[i] for i in usable),
        ids=tuple(ids[i] for i in usable),
        candidate=left[usable],
        base=right[usable],
        shared=len(shared),
        matching=len(matching),
        zero_rows=len(chosen) - len(usable),
    )


def compare_rows(rows: SharedRows) -> EmbeddingComparison:
    """Compare rows that were read."""
    left, right = rows.candidate, rows.base
    same = np.array([one == other for one, other in rows.ids])
    centred_left, centred_right = left - left.mean(axis=0), right - right.mean(axis=0)
    listed = sorted(token_cosines(rows), key=lambda item: item.cosine)
    return EmbeddingComparison(
        status="ok",
        reason=None,
        role=rows.role,
        tokens=rows.tokens,
        seed=rows.seed,
        width=left.shape[1],
        shared=rows.shared,
        matching=rows.matching,
        used=len(rows.texts),
        zero_rows=rows.zero_rows,
        raw=row_view(left, right, same=same, seed=rows.seed),
        centred=row_view(centred_left, centred_right, same=same, seed=rows.seed),
        geometry=geometry(centred_left, centred_right),
        nearest=tuple(reversed(listed[-_LISTED:])),
        farthest=tuple(listed[:_LISTED]),
    )


def token_cosines(rows: SharedRows) -> tuple[TokenCosine, ...]:
    """Return every token with its cosine, in the order of the rows."""
    found = cosines(rows.candidate, rows.base)
    return tuple(
        TokenCosine(token=shown(text), candidate_id=one, base_id=other, cosine=float(found[i]))
        for i, (text, (one, other)) in enumerate(zip(rows.texts, rows.ids, strict=True))
    )


# -- which rows ----------------------------------------------------------------------------------------


def _table(model: Model, role: str) -> str:
    entry = model.architecture.find(ROLES[role])
    if entry is None:
        raise RowsNotComparable(f"{model.location.ref} has no such table that is known (tied, or not stored)")
    if entry.transposed or len(model.index[entry.tensor].shape) != 2:
        raise RowsNotComparable(f"{model.location.ref} stores the table in another form")
    return entry.tensor


def _tokenizer(model: Model) -> Tokenizer:
    try:
        return load_tokenizer(model)
    except (NotFound, TokenizerError) as error:
        raise RowsNotComparable(f"tokens cannot be matched by text: {error}") from error


def _wanted(tokens: str) -> Callable[[bytes], bool]:
    if tokens == "all":
        return lambda text: True
    if tokens == "ASCII words":
        return lambda text: len(word := text.strip(b" ")) >= 3 and word.isalpha() and word.isascii()
    if tokens == "English-like":
        return lambda text: len(text) >= 2 and sum(byte < 128 for byte in text) > 0.8 * len(text)
    return lambda text: token_class(text) == tokens


def _sampled(texts: list[bytes], n_tokens: int, seed: int) -> list[bytes]:
    """Choose tokens by a digest of seed and text: the same ones whatever the order, fewer within more."""
    salt = f"modelkin-tokens-1|{seed}|".encode()
    return sorted(texts, key=lambda text: (blake2b(salt + text, digest_size=8).digest(), text))[:n_tokens]


def _read(model: Model, name: str, rows: list[int]) -> Rows:
    (values,) = model.read([TensorSlice.scattered(name, rows)])
    found = np.asarray(values, dtype=np.float64)
    if not np.isfinite(found).all():
        raise RowsNotComparable(f"{model.location.ref} has rows that are not finite")
    return found
