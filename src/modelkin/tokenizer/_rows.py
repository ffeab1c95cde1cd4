"""Rows of an embedding by the text of their tokens: enough of a ``tokenizer.json`` to match some hundreds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from modelkin.message import Message, say

from ._value import token_bytes

_STRING = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_NUMBER = re.compile(rb"\s*+:\s*+(\d{1,9})(?!\d)")
_QUOTE_OR_END = re.compile(rb'["}]')
_CONTROL = re.compile(rb"[\x00-\x1f]")
_VOCAB_BEGINS = re.compile(rb'"vocab"\s*:\s*\{')


def read_vocabulary(data: bytes) -> Mapping[bytes, int] | None:
    """Read the vocabulary of a ``tokenizer.json``, or of its beginning: text -> row of the embedding.

    A long file is not worth downloading for some hundreds of shared tokens: only entries that are complete in
    the given bytes are used. None if they contain no vocabulary of a known form.
    """
    begin = _VOCAB_BEGINS.search(data)
    if begin is None:
        return None
    byte_level = b'"ByteLevel"' in data[: begin.start()]
    rows: dict[bytes, int] = {}
    ambiguous: set[bytes] = set()
    position = begin.end()
    # One pass that never looks back: the file may be hostile, and a search that starts over at
    # every quote takes hours on a file made for it.
    while (mark := _QUOTE_OR_END.search(data, position)) is not None and mark[0] != b"}":
        string = _STRING.match(data, mark.start())
        if string is None:
            break  # the file ends inside a string
        position = string.end()
        number = _NUMBER.match(data, position)
        if number is None:
            continue
        position = number.end()
        text = token_bytes(_unescaped(string[1]), byte_level=byte_level)
        if text is not None:
            if text in rows:
                ambiguous.add(text)
            rows[text] = int(number[1])
    for text in ambiguous:
        del rows[text]  # two tokens with one text: unclear which row is meant
    return rows or None


def _unescaped(raw: bytes) -> str:
    if _CONTROL.search(raw) is not None:
        return ""  # no JSON
    try:
        text = raw.decode("utf-8", "surrogatepass")
        return text if "\\" not in text else str(json.loads(f'"{text}"'))
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPairs:
    """Rows that stand for the same token in two models."""

    candidate: tuple[int, ...] = field(repr=False)
    base: tuple[int, ...] = field(repr=False)
    how: Message
    """By text, or by number because both tokenizers are the same file."""
    assumed: bool = False
    """Whether rows of equal number were paired without any tokenizer that says so."""

    def __len__(self) -> int:
        return len(self.candidate)


def shared_tokens(candidate: Mapping[bytes, int], base: Mapping[bytes, int]) -> TokenPairs:
    """Pair the tokens whose text both vocabularies have, in the order of the base's rows."""
    both = sorted(candidate.keys() & base.keys(), key=lambda text: base[text])
    return TokenPairs(
        candidate=tuple(candidate[text] for text in both),
        base=tuple(base[text] for text in both),
        how=say("equal-text"),
    )


def equal_rows(n_rows: int, *, how: Message, assumed: bool = False) -> TokenPairs:
    """Pair rows of equal number."""
    numbers = tuple(range(n_rows))
    return TokenPairs(candidate=numbers, base=numbers, how=how, assumed=assumed)
