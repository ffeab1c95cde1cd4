"""Embedding rows of shared tokens: how alike they are, compared with chance and with each model alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role
from modelkin.errors import NotFound, TokenizerError, UsageError
from modelkin.message import Message, Value, say, told
from modelkin.model import Model, ModelLike, open_models
from modelkin.tensors import TensorSlice
from modelkin.tokenizer import CLASSES, Tokenizer, shown, token_class

from .tokenizers import load_tokenizer

if TYPE_CHECKING:
    from modelkin.options import FetchOptions
    from modelkin.progress import Progress

EMBEDDINGS_SCHEMA = "modelkin.embeddings/1"
TOKEN_FILTERS = ("all", "ASCII words", "English-like", *CLASSES)
"""Which tokens to take: all, letters a-z only (three or more), mostly ASCII, or one script."""
ROLES = {"embedding": Role.EMBEDDING, "head": Role.OUTPUT_HEAD}
_FEWEST = 8
"""Rows below which a spread over rows says nothing."""
_LISTED = 10
"""Tokens that are listed at either end."""
_LIMITS = tuple(say(code) for code in ("rows-copy", "rows-no-coordinates", "rows-pairings", "rows-cone"))
_PERMUTATIONS = 999
"""Reorderings: the smallest share that can be seen is 1 in 1,000."""

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCosine:
    """One token."""

    token: str
    candidate_id: int
    base_id: int
    cosine: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStats:
    """Cosines of matched rows."""

    n: int
    mean: float
    std: float
    """Population standard deviation."""
    low: float
    median: float
    high: float
    above_0_9: int
    above_0_5: int
    beyond_3_sd: int
    """Rows with a cosine beyond 3 / sqrt(width), either way: 0.3 % of independent isotropic rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """What the mean cosine would be if one thing were reordered: exact mean and spread."""

    expected: float
    sd: float
    z: float | None
    """(measured minus expected) / sd; None if sd is 0."""
    low: float | None = None
    """2.5 % point of drawn orders; None if none were drawn."""
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowView:
    """The rows seen in one way: as stored, or with the mean row of each model subtracted."""

    all: RowStats
    same_id: RowStats | None
    """Tokens that have the same id in both vocabularies; None if there are none."""
    other_id: RowStats | None
    permuted_tokens: Null
    """Rows of one model paired with other tokens' rows of the other model."""
    permuted_dimensions: Null
    """Dimensions of one model reordered, in the same way for all tokens."""
    within_candidate: float
    """Mean cosine of two different tokens of one model: not a null, only its cone."""
    within_base: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingComparison:
    """Rows of shared tokens in two models."""

    status: str
    """ok or skipped."""
    reason: Message | None
    role: str
    tokens: str
    """Which tokens were taken, one of `TOKEN_FILTERS`."""
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
    separately trained models agree too, since words mean the same to both."""
    nearest: tuple[TokenCosine, ...] = ()
    farthest: tuple[TokenCosine, ...] = ()
    limits: tuple[Message, ...] = _LIMITS


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
        Which tokens, one of `TOKEN_FILTERS`.
    n_tokens
        Most tokens to take.
    seed
        Chooses the tokens and the drawn orders.
    progress
        Told about long reads.
    """
    if role not in ROLES:
        raise UsageError("role", say("problem.one-of", known=", ".join(ROLES), got=repr(role)))
    if tokens not in TOKEN_FILTERS:
        raise UsageError("tokens", say("problem.one-of", known=", ".join(TOKEN_FILTERS), got=repr(tokens)))
    if n_tokens < _FEWEST:
        raise UsageError("n_tokens", say("problem.at-least", least=_FEWEST, got=n_tokens))
    with open_models([candidate, base], options, progress=progress) as (mine, theirs):
        try:
            return compare_rows(
                shared_rows(mine, theirs, role=role, tokens=tokens, n_tokens=n_tokens, seed=seed)
            )
        except RowsNotComparable as skip:
            reason = skip.reason
    return EmbeddingComparison(status="skipped", reason=reason, role=role, tokens=tokens, seed=seed)


class RowsNotComparable(Exception):
    """Why nothing can be compared."""

    def __init__(self, code: str, **values: Value) -> None:
        self.reason = say(code, **values)
        super().__init__(str(self.reason))


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
    """Read the rows of tokens that both models have, matched by text; `RowsNotComparable` without any."""
    found = choose_rows(candidate, base, role=role, tokens=tokens, n_tokens=n_tokens, seed=seed)
    left, right = (_read(model, rows) for model, rows in zip((candidate, base), found.slices, strict=True))
    usable = np.flatnonzero(lengths(left) * lengths(right) > 0.0)
    if len(usable) < _FEWEST:
        raise RowsNotComparable("rows-zero")
    return SharedRows(
        role=role,
        tokens=tokens,
        seed=seed,
        texts=tuple(found.texts[i] for i in usable),
        ids=tuple(found.ids[i] for i in usable),
        candidate=left[usable],
        base=right[usable],
        shared=found.shared,
        matching=found.matching,
        zero_rows=len(found.texts) - len(usable),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRows:
    """Tokens that both models have, and where their rows are: none is read yet."""

    slices: tuple[TensorSlice, TensorSlice]
    texts: tuple[bytes, ...]
    ids: tuple[tuple[int, int], ...]
    shared: int
    matching: int


def choose_rows(
    candidate: Model, base: Model, *, role: str, tokens: str, n_tokens: int, seed: int
) -> ChosenRows:
    """Choose the rows that `shared_rows` reads. Both tokenizers are read, no row is."""
    names = [_table(model, role) for model in (candidate, base)]
    infos = [model.index[name] for model, name in zip((candidate, base), names, strict=True)]
    widths = [info.shape[1] for info in infos]
    if widths[0] != widths[1]:
        raise RowsNotComparable("rows-widths", n=widths[0], m=widths[1])
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
        raise RowsNotComparable("rows-few", n=len(chosen))
    return ChosenRows(
        slices=(
            TensorSlice.scattered(names[0], [one for one, _ in ids]),
            TensorSlice.scattered(names[1], [other for _, other in ids]),
        ),
        texts=tuple(chosen),
        ids=tuple(ids),
        shared=len(shared),
        matching=len(matching),
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
        raise RowsNotComparable("rows-no-table", model=model.location.ref)
    if entry.transposed or len(model.index[entry.tensor].shape) != 2:
        raise RowsNotComparable("rows-table-form", model=model.location.ref)
    return entry.tensor


def _tokenizer(model: Model) -> Tokenizer:
    try:
        return load_tokenizer(model)
    except (NotFound, TokenizerError) as error:
        raise RowsNotComparable("rows-no-tokens", problem=told(error)) from error


def _wanted(tokens: str) -> Callable[[bytes], bool]:
    if tokens == "all":
        return lambda text: True
    if tokens == "ASCII words":
        return lambda text: len(word := text.strip(b" ")) >= 3 and word.isalpha() and word.isascii()
    if tokens == "English-like":
        # Four of five bytes: an accent or a mark of the tokenizer does not make a word foreign.
        return lambda text: len(text) >= 2 and sum(byte < 128 for byte in text) > 0.8 * len(text)
    return lambda text: token_class(text) == tokens


def _sampled(texts: list[bytes], n_tokens: int, seed: int) -> list[bytes]:
    """Choose tokens by a digest of seed and text: independent of order, smaller choices within larger."""
    salt = f"modelkin-tokens-1|{seed}|".encode()
    return sorted(texts, key=lambda text: (blake2b(salt + text, digest_size=8).digest(), text))[:n_tokens]


def _read(model: Model, rows: TensorSlice) -> Rows:
    (values,) = model.read([rows])
    found = np.asarray(values, dtype=np.float64)
    if not np.isfinite(found).all():
        raise RowsNotComparable("rows-not-finite", model=model.location.ref)
    return found


# -- cosines, and what they would be under other pairings ----------------------------------------------


def row_stats(cosines: Rows, *, width: int) -> RowStats:
    """Sum up cosines of matched rows."""
    return RowStats(
        n=len(cosines),
        mean=float(cosines.mean()),
        std=float(cosines.std()),
        low=float(cosines.min()),
        median=float(np.median(cosines)),
        high=float(cosines.max()),
        above_0_9=int((cosines > 0.9).sum()),  # the level that the field is named by
        above_0_5=int((cosines > 0.5).sum()),
        # Cosines of independent directions have a standard deviation of 1 / sqrt(width).
        beyond_3_sd=int((np.abs(cosines) > 3.0 / np.sqrt(width)).sum()),
    )


def row_view(left: Rows, right: Rows, *, same: npt.NDArray[np.bool_], seed: int) -> RowView:
    """Compare matched rows; `same` marks tokens that have one id in both models."""
    found, width = cosines(left, right), left.shape[1]
    first, second = _units(left), _units(right)
    return RowView(
        all=row_stats(found, width=width),
        same_id=row_stats(found[same], width=width) if same.any() else None,
        other_id=row_stats(found[~same], width=width) if not same.all() else None,
        permuted_tokens=_permuted_tokens(first, second, seed),
        permuted_dimensions=_permuted_dimensions(first, second),
        within_candidate=_within(first),
        within_base=_within(second),
    )


def _permuted_tokens(first: Rows, second: Rows, seed: int) -> Null:
    """All pairings of rows equally likely: the mean and variance of a sum over a permutation are exact."""
    table = first @ second.T
    n = len(table)
    drawn = np.random.default_rng(seed)
    places = np.arange(n)
    means = np.array([table[places, drawn.permutation(n)].mean() for _ in range(_PERMUTATIONS)])
    centred = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    sd = float(np.sqrt((centred**2).sum() / (n - 1))) / n
    low, high = np.quantile(means, (0.025, 0.975))
    return _null(float(np.trace(table)) / n, float(table.mean()), sd, low=float(low), high=float(high))


def _permuted_dimensions(first: Rows, second: Rows) -> Null:
    """All orders of dimensions equally likely; by Gram matrices, so that no width-by-width table is made."""
    n, width = first.shape
    measured = float((first * second).sum()) / n
    expected = float(first.sum(axis=1) @ second.sum(axis=1)) / (n * width)
    one, other = (rows - rows.mean(axis=1, keepdims=True) for rows in (first, second))
    squares = float(((one @ one.T) * (other @ other.T)).sum()) / n**2
    sd = float(np.sqrt(max(squares, 0.0) / (width - 1))) if width > 1 else 0.0
    return _null(measured, expected, sd)


def _null(
    measured: float, expected: float, sd: float, *, low: float | None = None, high: float | None = None
) -> Null:
    # If all orders give the same value up to rounding, there is nothing to stand out from.
    z = (measured - expected) / sd if sd > 1e-12 else None
    return Null(expected=expected, sd=sd, z=z, low=low, high=high)


def _within(units: Rows) -> float:
    """Return the mean cosine of two different rows."""
    n, total = len(units), units.sum(axis=0)
    return float((total @ total - (units * units).sum()) / (n * (n - 1)))


def geometry(left: Rows, right: Rows) -> float | None:
    """Correlate the two tables of cosines between tokens; None if one of them is constant."""
    above = np.triu_indices(len(left), k=1)
    tables = [(_units(rows) @ _units(rows).T)[above] for rows in (left, right)]
    first, second = (values - values.mean() for values in tables)
    scale = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / scale if scale > 0.0 else None


def cosines(left: Rows, right: Rows) -> Rows:
    """Return the cosine of each row with the same row of the other table; 0 if one is all zeros."""
    return np.asarray((_units(left) * _units(right)).sum(axis=1), dtype=np.float64)


def _units(rows: Rows) -> Rows:
    norms = lengths(rows)[:, None]
    return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0.0)


def lengths(rows: Rows) -> Rows:
    """Return the Euclidean length of each row."""
    return np.asarray(np.sqrt((rows * rows).sum(axis=1)), dtype=np.float64)
