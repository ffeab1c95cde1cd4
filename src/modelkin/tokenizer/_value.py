"""A tokenizer as a value: tokens as decoded bytes, whatever file they came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from modelkin.errors import TokenizerError

from ._text import is_byte_token, token_bytes

MAX_TOKENS = 4_000_000
"""The largest public vocabularies have some 260 000 tokens."""
MAX_ID = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """What a tokenizer's files say. Nothing in it is executed."""

    file: str
    """The file that it was read from."""
    form: str
    """Of the file: tokenizer.json, sentencepiece, tiktoken, tekken, vocab.json, vocab.txt."""
    kind: str | None
    """Algorithm: BPE, Unigram, WordPiece, WordLevel; None when the file does not say."""
    byte_level: bool
    """Tokens are strings of bytes, so that any text can be written."""
    tokens: Mapping[bytes, int] = field(repr=False)
    """Base vocabulary: what a token stands for -> id."""
    n_tokens: int
    """Entries of the base vocabulary; more than `tokens` when several stand for the same text."""
    ambiguous: frozenset[bytes] = field(default=frozenset(), repr=False)
    """Texts that several tokens stand for; `tokens` has the one with the smallest id."""
    added: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Added and control tokens as written -> id. They may be in the base vocabulary as well."""
    merges: tuple[str, ...] | None = field(default=None, repr=False)
    """Merge rules as written, both parts with a space between; None when the file has no list of them."""
    no_merges: str | None = None
    """Why there are none."""
    notes: tuple[str, ...] = ()
    """What was odd, one sentence each."""

    def __len__(self) -> int:
        return self.n_tokens


@dataclass(slots=True)
class TokenTable:
    """Collects the base vocabulary of one file, and refuses what is none.

    Parameters
    ----------
    file
        For messages.
    byte_level
        How tokens are written.
    """

    file: str
    byte_level: bool
    tokens: dict[bytes, int] = field(default_factory=dict)
    n_tokens: int = 0
    _fallbacks: dict[bytes, int] = field(default_factory=dict)
    _ambiguous: set[bytes] = field(default_factory=set)

    def add_text(self, token: object, number: object) -> None:
        """Add a token as it is written in the file."""
        if not isinstance(token, str):
            raise TokenizerError(self.file, f"expected a token as text, got {type(token).__name__}")
        text = token_bytes(token, byte_level=self.byte_level)
        if text is not None and not self.byte_level and is_byte_token(token):
            # Used only for text without a token of its own, so it gives way to a token of the same text.
            self.n_tokens += 1
            self._fallbacks.setdefault(text, self._checked(number))
        else:
            self.add_bytes(b"" if text is None else text, number)

    def add_bytes(self, text: bytes, number: object) -> None:
        """Add a token by what it stands for."""
        checked = self._checked(number)
        self.n_tokens += 1
        if self.n_tokens > MAX_TOKENS:
            raise TokenizerError(self.file, f"expected at most {MAX_TOKENS:,} tokens, got more")
        known = self.tokens.get(text)
        if known is not None:
            self._ambiguous.add(text)
            checked = min(known, checked)
        self.tokens[text] = checked

    def finished(self) -> tuple[dict[bytes, int], frozenset[bytes], tuple[str, ...]]:
        """Return tokens, ambiguous texts and notes."""
        for text, number in self._fallbacks.items():
            self.tokens.setdefault(text, number)
        if not self.tokens:
            raise TokenizerError(self.file, "expected a vocabulary, got none")
        notes = []
        if self._ambiguous:
            notes.append(f"{len(self._ambiguous)} texts have several tokens; the smallest id is taken")
        n_shared = len(self.tokens) - len(set(self.tokens.values()))
        if n_shared:
            notes.append(f"{n_shared} tokens have an id that another token has as well")
        return self.tokens, frozenset(self._ambiguous), tuple(notes)

    def _checked(self, number: object) -> int:
        if type(number) is not int or not 0 <= number < MAX_ID:
            shown = repr(number)[:40] if isinstance(number, int | float) else type(number).__name__
            raise TokenizerError(self.file, f"expected a token's id from 0 to 2**31, got {shown}")
        return number


def added_tokens(file: str, pairs: Iterable[tuple[object, object]]) -> dict[str, int]:
    """Check added tokens: text and id."""
    found: dict[str, int] = {}
    for content, number in pairs:
        if not isinstance(content, str) or type(number) is not int or not 0 <= number < MAX_ID:
            raise TokenizerError(file, "expected added tokens with text and id, got something else")
        found[content] = number
        if len(found) > MAX_TOKENS:
            raise TokenizerError(file, f"expected at most {MAX_TOKENS:,} added tokens, got more")
    return found
