"""Which row of one embedding faces which row of the other: tokens matched by their text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

_STRING = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_NUMBER = re.compile(rb"\s*+:\s*+(\d{1,9})(?!\d)")
_QUOTE_OR_END = re.compile(rb'["}]')
_VOCAB_BEGINS = re.compile(rb'"vocab"\s*:\s*\{')
_SPACE = "▁"  # the sign with which SentencePiece writes a space
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens of one model: text in bytes -> row of the embedding."""

    rows: Mapping[bytes, int] = field(repr=False)
    complete: bool = True
    """False when only the beginning of a long file was read."""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPairs:
    """Rows that stand for the same token in two models."""

    candidate: tuple[int, ...] = field(repr=False)
    base: tuple[int, ...] = field(repr=False)
    how: str
    """In words: by text, or by number because both tokenizers are the same file."""

    def __len__(self) -> int:
        return len(self.candidate)


def read_vocabulary(data: bytes) -> Vocabulary | None:
    """Read the vocabulary of a ``tokenizer.json``, or of its beginning.

    A long file is not worth downloading for some hundred shared tokens: the entries that are whole in the
    given bytes are used. None when there is no vocabulary of a known form in them.
    """
    begin = _VOCAB_BEGINS.search(data)
    if begin is None:
        return None
    byte_level = b'"ByteLevel"' in data[: begin.start()]
    rows: dict[bytes, int] = {}
    ambiguous: set[bytes] = set()
    position, complete = begin.end(), False
    # One pass that never looks back: the file comes from a stranger, and a search that begins anew at every
    # quote takes hours on a file made for it.
    while (mark := _QUOTE_OR_END.search(data, position)) is not None:
        if mark[0] == b"}":
            complete = True
            break
        string = _STRING.match(data, mark.start())
        if string is None:
            break  # the file ends inside a string
        position = string.end()
        number = _NUMBER.match(data, position)
        if number is None:
            continue
        position = number.end()
        text = _token_bytes(_unescaped(string[1]), byte_level=byte_level)
        if text is not None:
            if text in rows:
                ambiguous.add(text)
            rows[text] = int(number[1])
    for text in ambiguous:
        del rows[text]  # two tokens with one text: neither says which row is meant
    return Vocabulary(rows, complete=complete) if rows else None


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


def _unescaped(raw: bytes) -> str:
    try:
        text = json.loads(b'"' + raw + b'"')
    except ValueError:
        return ""
    return text if isinstance(text, str) else ""


def _token_bytes(token: str, *, byte_level: bool) -> bytes | None:
    """Return the bytes a token stands for, so that tokenizers of different kinds can be compared."""
    if not token:
        return None
    if byte_level:
        alphabet = _byte_alphabet()
        if all(character in alphabet for character in token):
            return bytes(alphabet[character] for character in token)
    if match := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(match[1], 16)])
    return token.replace(_SPACE, " ").encode("utf-8", "surrogatepass")


@cache
def _byte_alphabet() -> dict[str, int]:
    """Return the printable stand-ins that byte-level BPE uses for the 256 bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {
        **{chr(byte): byte for byte in plain},
        **{chr(256 + number): byte for number, byte in enumerate(others)},
    }
