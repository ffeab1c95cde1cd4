"""Which row of one embedding faces which row of the other: tokens matched by their text."""

from __future__ import annotations

from dataclasses import dataclass, field

from ._beginning import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPairs:
    """Rows that stand for the same token in two models."""

    candidate: tuple[int, ...] = field(repr=False)
    base: tuple[int, ...] = field(repr=False)
    how: str
    """In words: by text, or by number because both tokenizers are the same file."""

    def __len__(self) -> int:
        return len(self.candidate)


def shared_tokens(candidate: Vocabulary, base: Vocabulary) -> TokenPairs:
    """Pair the tokens whose text both vocabularies have, in the order of the base's rows."""
    both = sorted(candidate.rows.keys() & base.rows.keys(), key=lambda text: base.rows[text])
    return TokenPairs(
        candidate=tuple(candidate.rows[text] for text in both),
        base=tuple(base.rows[text] for text in both),
        how="tokens of equal text",
    )


def equal_rows(n_rows: int, *, how: str) -> TokenPairs:
    """Pair rows of equal number."""
    numbers = tuple(range(n_rows))
    return TokenPairs(candidate=numbers, base=numbers, how=how)
