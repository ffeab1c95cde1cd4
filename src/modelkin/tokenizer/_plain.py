"""The oldest files: ``vocab.txt`` of BERT, ``vocab.json`` and ``merges.txt`` of GPT-2."""

from __future__ import annotations

from modelkin.errors import TokenizerError

from ._hf import word_start
from ._json_file import load_object
from ._value import Tokenizer, TokenTable

_PREFIX = "##"


def read_vocab_txt(file: str, data: bytes) -> Tokenizer:
    """Read a list of tokens, one on each line; the number of the line is the id.

    Raises
    ------
    TokenizerError
        It is not UTF-8, or empty.
    """
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise TokenizerError(file, "expected text in UTF-8, got other bytes") from error
    if lines and not lines[-1]:
        lines.pop()
    pieces = any(line.startswith(_PREFIX) and len(line) > len(_PREFIX) for line in lines)
    table = TokenTable(file, byte_level=False)
    for number, line in enumerate(lines):
        token = line.removesuffix("\r")
        table.add_text(word_start(token, _PREFIX) if pieces else token, number)
    tokens, ambiguous, notes = table.finished()
    kind = "WordPiece" if pieces else None
    return Tokenizer(
        file=file,
        form="vocab.txt",
        kind=kind,
        byte_level=False,
        tokens=tokens,
        n_tokens=table.n_tokens,
        ambiguous=ambiguous,
        no_merges="a list of words has no merges",
        notes=notes,
    )


def read_vocab_json(file: str, data: bytes, merges: bytes | None) -> Tokenizer:
    """Read a vocabulary and, in a file of its own, the merges.

    Raises
    ------
    TokenizerError
        One of them is malformed.
    """
    vocab = load_object(file, data)
    # Written with the stand-ins for bytes, a vocabulary has one for the space.
    byte_level = any("Ġ" in token for token in vocab)
    table = TokenTable(file, byte_level)
    for token, number in vocab.items():
        table.add_text(token, number)
    tokens, ambiguous, notes = table.finished()
    return Tokenizer(
        file=file,
        form="vocab.json",
        kind="BPE" if merges is not None else None,
        byte_level=byte_level,
        tokens=tokens,
        n_tokens=table.n_tokens,
        ambiguous=ambiguous,
        merges=_merges(merges) if merges is not None else None,
        no_merges=None if merges is not None else "there is no merges.txt",
        notes=notes,
    )


def _merges(data: bytes) -> tuple[str, ...]:
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise TokenizerError("merges.txt", "expected text in UTF-8, got other bytes") from error
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    found = tuple(line.removesuffix("\r") for line in lines if line.strip())
    if any(line.count(" ") != 1 for line in found):
        raise TokenizerError("merges.txt", "expected two tokens on each line, got something else")
    return found
