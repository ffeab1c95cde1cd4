"""The beginning of a long ``tokenizer.json``: enough to match some hundred tokens without the whole file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ._text import token_bytes

_STRING = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_NUMBER = re.compile(rb"\s*+:\s*+(\d{1,9})(?!\d)")
_QUOTE_OR_END = re.compile(rb'["}]')
_CONTROL = re.compile(rb"[\x00-\x1f]")
_VOCAB_BEGINS = re.compile(rb'"vocab"\s*:\s*\{')


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens of one model: text in bytes -> row of the embedding."""

    rows: Mapping[bytes, int] = field(repr=False)
    complete: bool = True
    """False when only the beginning of a long file was read."""

    def __len__(self) -> int:
        return len(self.rows)


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
        text = token_bytes(_unescaped(string[1]), byte_level=byte_level)
        if text is not None:
            if text in rows:
                ambiguous.add(text)
            rows[text] = int(number[1])
    for text in ambiguous:
        del rows[text]  # two tokens with one text: neither says which row is meant
    return Vocabulary(rows, complete=complete) if rows else None


def _unescaped(raw: bytes) -> str:
    if _CONTROL.search(raw) is not None:
        return ""  # no JSON
    try:
        text = raw.decode("utf-8", "surrogatepass")
        return text if "\\" not in text else str(json.loads(f'"{text}"'))
    except ValueError:
        return ""
