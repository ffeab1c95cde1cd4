"""Rows of two embeddings that stand for the same token: all of them, by the whole vocabularies."""

from __future__ import annotations

from dataclasses import dataclass, field

from modelkin.architecture import Role
from modelkin.comparison.tokens import same_tokenizer
from modelkin.message import Message, say
from modelkin.model import MAX_TOKENIZER_BYTES, Model
from modelkin.tokenizer import equal_rows, read_vocabulary, shared_tokens

FEWEST_TOKENS = 16
"""With fewer common tokens, no published method says anything."""
_FILE = "tokenizer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPairs:
    """Rows of the same tokens, in the order of the base's rows."""

    names: tuple[str, str]
    """The tensors of both embeddings."""
    candidate: tuple[int, ...] = field(repr=False)
    base: tuple[int, ...] = field(repr=False)
    n_bytes: tuple[int, int]
    """Of the tokenizer files, as far as they were read."""

    def __len__(self) -> int:
        return len(self.candidate)

    def sides(self) -> tuple[tuple[str, tuple[int, ...]], tuple[str, tuple[int, ...]]]:
        """Return tensor and rows of candidate and base."""
        return (self.names[0], self.candidate), (self.names[1], self.base)

    def last(self, n: int) -> RowPairs:
        """Return the last n pairs."""
        return self._chosen(range(max(0, len(self) - n), len(self)))

    def spread(self, n: int) -> RowPairs:
        """Return n pairs at even distances."""
        count = min(n, len(self))
        return self._chosen([place * len(self) // count for place in range(count)])

    def _chosen(self, places: range | list[int]) -> RowPairs:
        return RowPairs(
            names=self.names,
            candidate=tuple(self.candidate[place] for place in places),
            base=tuple(self.base[place] for place in places),
            n_bytes=self.n_bytes,
        )


def pair_rows(candidate: Model, base: Model) -> RowPairs | Message:
    """Pair the rows of both embeddings by the text of their tokens, or say why that is not possible."""
    models = candidate, base
    entries = [model.architecture.find(Role.EMBEDDING) for model in models]
    if entries[0] is None or entries[1] is None:
        return say("reference-no-embedding")
    names = entries[0].tensor, entries[1].tensor
    sizes = [model.index[name].shape[0] for model, name in zip(models, names, strict=True)]
    files = [model.file_size(_FILE) for model in models]
    n_bytes = (0, 0)
    if files[0] is None or files[1] is None:
        if files[0] is not files[1] or sizes[0] != sizes[1]:
            return say("tokenizer-missing")
        # Neither says what its rows stand for; equal row numbers are taken as the same tokens.
        pairs = equal_rows(sizes[0], how=say("no-tokenizer-equal"))
    elif same_tokenizer(candidate, base):
        pairs = equal_rows(min(sizes), how=say("same-tokenizer"))
    else:
        read = [read_vocabulary(model.start_of(_FILE, limit=MAX_TOKENIZER_BYTES)) for model in models]
        if read[0] is None or read[1] is None:
            return say("tokenizer-form")
        n_bytes = files[0], files[1]
        pairs = shared_tokens(read[0], read[1])
    kept = [
        (mine, theirs)
        for mine, theirs in zip(pairs.candidate, pairs.base, strict=True)
        if mine < sizes[0] and theirs < sizes[1]
    ]
    if len(kept) < FEWEST_TOKENS:
        return say("reference-few-tokens", n=len(kept), m=FEWEST_TOKENS)
    return RowPairs(
        names=names,
        candidate=tuple(mine for mine, _ in kept),
        base=tuple(theirs for _, theirs in kept),
        n_bytes=n_bytes,
    )
