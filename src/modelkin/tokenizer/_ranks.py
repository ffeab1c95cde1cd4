"""Ranked bytes: tiktoken's files, and Mistral's ``tekken.json``."""

from __future__ import annotations

import base64
import binascii

from modelkin.errors import TokenizerError

from ._json_file import load_object
from ._value import Tokenizer, TokenTable, added_tokens

_NO_MERGES = "a file of ranked tokens has no list of merges"


def read_tiktoken(file: str, data: bytes) -> Tokenizer:
    """Read a file of tiktoken: on each line a token in base64, a space, its rank.

    Raises
    ------
    TokenizerError
        A line is something else.
    """
    table = TokenTable(file, byte_level=True)
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        token, _, rank = line.partition(b" ")
        if not rank.isdigit() or len(rank) > 10:
            raise TokenizerError(file, f"expected a token and its rank in line {number}, got something else")
        table.add_bytes(_decoded(file, token), int(rank))
    tokens, ambiguous, notes = table.finished()
    return Tokenizer(
        file=file,
        form="tiktoken",
        kind="BPE",
        byte_level=True,
        tokens=tokens,
        n_tokens=table.n_tokens,
        ambiguous=ambiguous,
        no_merges=_NO_MERGES,
        notes=(*notes, "special tokens are not in this file"),
    )


def read_tekken(file: str, data: bytes) -> Tokenizer:
    """Read a ``tekken.json``. Special tokens come first, so that an id is a rank and their number.

    Raises
    ------
    TokenizerError
        It is malformed.
    """
    document = load_object(file, data)
    config, vocab = document.get("config"), document.get("vocab")
    if not isinstance(config, dict) or not isinstance(vocab, list):
        raise TokenizerError(file, "expected 'config' and a list 'vocab', got something else")
    size = _count(file, config, "default_vocab_size")
    n_special = _count(file, config, "default_num_special_tokens")
    if size < n_special:
        raise TokenizerError(file, f"expected a vocabulary beyond {n_special} special tokens, got {size}")
    table = TokenTable(file, byte_level=True)
    for entry in vocab:
        rank, token = (entry.get("rank"), entry.get("token_bytes")) if isinstance(entry, dict) else (0, 0)
        if type(rank) is not int or not isinstance(token, str):
            raise TokenizerError(file, "expected tokens with rank and token_bytes, got something else")
        if rank < size - n_special:  # the rest of the file is there for larger vocabularies
            table.add_bytes(_decoded(file, token.encode("utf-8", "surrogatepass")), rank + n_special)
    tokens, ambiguous, notes = table.finished()
    return Tokenizer(
        file=file,
        form="tekken",
        kind="BPE",
        byte_level=True,
        tokens=tokens,
        n_tokens=table.n_tokens,
        ambiguous=ambiguous,
        added=_special(file, document.get("special_tokens")),
        no_merges=_NO_MERGES,
        notes=notes,
    )


def _special(file: str, listed: object) -> dict[str, int]:
    if listed is None:
        return {}
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise TokenizerError(file, "expected a list of special tokens, got something else")
    return added_tokens(file, ((entry.get("token_str"), entry.get("rank")) for entry in listed))


def _count(file: str, config: dict[str, object], name: str) -> int:
    value = config.get(name)
    if type(value) is not int or value < 0:
        raise TokenizerError(file, f"expected a whole number {name!r}, got {type(value).__name__}")
    return value


def _decoded(file: str, token: bytes) -> bytes:
    try:
        return base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError) as error:
        raise TokenizerError(file, "expected tokens in base64, got something else") from error
