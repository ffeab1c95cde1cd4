"""A tokenizer as a value: tokens as decoded bytes, whatever file they came from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from modelkin.errors import TokenizerError
from modelkin.message import Message, say
from modelkin.untrusted import JsonRefused, strict_object

MAX_TOKENS = 1_000_000
"""The largest public vocabularies have about 260,000 tokens."""
MAX_ID = 1 << 31
"""Ids below it fit 32 bits with a sign."""
_SPACE = "▁"  # the character that SentencePiece writes for a space
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """What a tokenizer's files say. Nothing in it is executed."""

    file: str
    """The file that it was read from."""
    form: str
    """Of the file: tokenizer.json, sentencepiece, tiktoken, tekken, vocab.json, vocab.txt."""
    kind: str | None
    """Algorithm: BPE, Unigram, WordPiece, WordLevel; None if the file does not say."""
    byte_level: bool
    """Whether tokens are byte strings, so that any text can be written."""
    tokens: Mapping[bytes, int] = field(repr=False)
    """Base vocabulary: what a token stands for -> id."""
    n_tokens: int
    """Entries of the base vocabulary; more than `tokens` if several stand for the same text."""
    ambiguous: frozenset[bytes] = field(default=frozenset(), repr=False)
    """Texts that several tokens stand for; `tokens` has the one with the smallest id."""
    added: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Added and control tokens as written -> id. They may be in the base vocabulary as well."""
    merges: tuple[str, ...] | None = field(default=None, repr=False)
    """Merge rules as written, both parts separated by a space; None if the file does not list them."""
    no_merges: Message | None = None
    """Why there are none."""
    notes: tuple[Message, ...] = ()
    """What was odd."""

    def __len__(self) -> int:
        return self.n_tokens


@dataclass(slots=True)
class TokenTable:
    """Collects the base vocabulary of one file, and refuses anything else."""

    file: str
    byte_level: bool
    """How tokens are written."""
    tokens: dict[bytes, int] = field(default_factory=dict)
    n_tokens: int = 0
    _fallbacks: dict[bytes, int] = field(default_factory=dict)
    _ambiguous: set[bytes] = field(default_factory=set)

    def expect(self, n_tokens: int) -> None:
        """Refuse a vocabulary that is too large before a second copy of it is made."""
        if n_tokens > MAX_TOKENS:
            raise TokenizerError(self.file, say("problem.tokens-count", most=MAX_TOKENS, n_tokens=n_tokens))

    def add_text(self, token: object, number: object) -> None:
        """Add a token as it is written in the file."""
        if not isinstance(token, str):
            raise TokenizerError(self.file, say("problem.token-not-text", kind=type(token).__name__))
        text = token_bytes(token, byte_level=self.byte_level)
        if text is not None and not self.byte_level and is_byte_token(token):
            # Used only for text without its own token, so it yields to a token of the same text.
            self.n_tokens += 1
            self._fallbacks.setdefault(text, self._checked(number))
        else:
            self.add_bytes(b"" if text is None else text, number)

    def add_bytes(self, text: bytes, number: object) -> None:
        """Add a token by what it stands for."""
        checked = self._checked(number)
        self.n_tokens += 1
        if self.n_tokens > MAX_TOKENS:
            raise TokenizerError(self.file, say("problem.tokens-more", most=MAX_TOKENS))
        known = self.tokens.get(text)
        if known is not None:
            self._ambiguous.add(text)
            checked = min(known, checked)
        self.tokens[text] = checked

    def tokenizer(
        self,
        *,
        form: str,
        kind: str | None,
        added: Mapping[str, int] | None = None,
        merges: tuple[str, ...] | None = None,
        no_merges: Message | None = None,
        notes: tuple[Message, ...] = (),
    ) -> Tokenizer:
        """Return what was collected, with what else the file says."""
        for text, number in self._fallbacks.items():
            self.tokens.setdefault(text, number)
        if not self.tokens:
            raise TokenizerError(self.file, say("problem.no-vocabulary"))
        odd = []
        if self._ambiguous:
            odd.append(say("token-texts-shared", n=len(self._ambiguous)))
        n_shared = len(self.tokens) - len(set(self.tokens.values()))
        if n_shared:
            odd.append(say("token-ids-shared", n=n_shared))
        return Tokenizer(
            file=self.file,
            form=form,
            kind=kind,
            byte_level=self.byte_level,
            tokens=self.tokens,
            n_tokens=self.n_tokens,
            ambiguous=frozenset(self._ambiguous),
            added=added or {},
            merges=merges,
            no_merges=no_merges if merges is None else None,
            notes=(*odd, *notes),
        )

    def _checked(self, number: object) -> int:
        if type(number) is not int or not 0 <= number < MAX_ID:
            shown = repr(number)[:40] if isinstance(number, int | float) else type(number).__name__
            raise TokenizerError(self.file, say("problem.token-id", shown=shown))
        return number


def added_tokens(file: str, pairs: Iterable[tuple[object, object]]) -> dict[str, int]:
    """Check added tokens: text and id."""
    found: dict[str, int] = {}
    for content, number in pairs:
        if not isinstance(content, str) or type(number) is not int or not 0 <= number < MAX_ID:
            raise TokenizerError(file, say("problem.added-tokens"))
        found[content] = number
        if len(found) > MAX_TOKENS:
            raise TokenizerError(file, say("problem.added-more", most=MAX_TOKENS))
    return found


def token_bytes(token: str, *, byte_level: bool) -> bytes | None:
    """Return the bytes a token stands for; None for an empty one."""
    if not token:
        return None
    if byte_level:
        try:
            return token.translate(_bytes_of_letters()).encode("latin-1")
        except UnicodeEncodeError:
            pass  # some letter does not stand for a byte
    if is_byte_token(token):
        return bytes([int(token[3:5], 16)])
    return token.replace(_SPACE, " ").encode("utf-8", "surrogatepass")


def is_byte_token(token: str) -> bool:
    """Say whether a token is SentencePiece's notation for one byte: ``<0x0A>``."""
    return _BYTE_TOKEN.fullmatch(token) is not None


@cache
def byte_alphabet() -> dict[str, int]:
    """Return the printable stand-ins that byte-level BPE uses for the 256 bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {
        **{chr(byte): byte for byte in plain},
        **{chr(256 + number): byte for number, byte in enumerate(others)},
    }


@cache
def _bytes_of_letters() -> dict[int, int]:
    """Return the alphabet for `str.translate`; characters not in it stay beyond one byte."""
    alphabet = {ord(letter): byte for letter, byte in byte_alphabet().items()}
    return {**dict.fromkeys(range(256), 0xFFFF), **alphabet}


def load_object(file: str, data: bytes) -> dict[str, object]:
    """Parse a tokenizer's JSON file, which must hold an object."""
    try:
        return strict_object(data)
    except JsonRefused as error:
        raise TokenizerError(file, say("problem.json-object", why=error.reason)) from error
