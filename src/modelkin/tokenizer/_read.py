"""From the files of a model to its tokenizer: which file is read, and as what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from modelkin.errors import TokenizerError

from ._hf import read_tokenizer_json
from ._json_file import load_object
from ._plain import read_vocab_json, read_vocab_txt
from ._ranks import read_tekken, read_tiktoken
from ._sentencepiece import read_sentencepiece
from ._value import Tokenizer

MAX_BYTES = 64 * 1024 * 1024
"""The largest public tokenizer file has 34 MB."""
_FILES = (
    ("tokenizer.json",),
    ("tokenizer.model",),
    ("spiece.model",),
    ("sentencepiece.bpe.model",),
    ("tekken.json",),
    ("tiktoken.model",),
    ("qwen.tiktoken",),
    ("vocab.json", "merges.txt"),
    ("vocab.json",),
    ("vocab.txt",),
)
"""Files that say the whole vocabulary, the most telling first."""
_RANKED = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d{1,10}\r?(\n|\Z)")
_PROTOBUF_PIECE = b"\n"  # key of field 1, a message: how every SentencePiece model begins


def tokenizer_files(names: Iterable[str]) -> tuple[str, ...]:
    """Choose the files to read of those that a model has; none when there is no vocabulary among them."""
    present = set(names)
    found = next((files for files in _FILES if present.issuperset(files)), None)
    if found is not None:
        return found
    return tuple(sorted(name for name in present if name.endswith(".tiktoken") and "/" not in name)[:1])


def read_tokenizer(contents: Mapping[str, bytes]) -> Tokenizer:
    """Read a tokenizer.

    Parameters
    ----------
    contents
        One file by its name, or ``vocab.json`` with its ``merges.txt``. What it is, its bytes say: a
        ``tokenizer.model`` may be SentencePiece or tiktoken.

    Raises
    ------
    TokenizerError
        It is malformed, hostile, too large, or of no known form.
    """
    files = dict(contents)
    merges = files.pop("merges.txt", None)
    if len(files) != 1:
        raise TokenizerError("tokenizer", f"expected one file, got {len(files)}")
    ((file, data),) = files.items()
    if len(data) > MAX_BYTES:
        raise TokenizerError(file, f"expected at most {MAX_BYTES:,} bytes, got {len(data):,}")
    if data.lstrip(b" \t\r\n").startswith(b"{"):
        return _read_json(file, data, merges)
    if data.startswith(_PROTOBUF_PIECE) and not file.endswith(".txt"):
        return read_sentencepiece(file, data)
    if _RANKED.match(data):
        return read_tiktoken(file, data)
    if file.endswith(".txt"):
        return read_vocab_txt(file, data)
    raise TokenizerError(
        file,
        "expected tokenizer.json, SentencePiece, tiktoken, tekken.json, vocab.json or vocab.txt, "
        "got something else",
    )


def _read_json(file: str, data: bytes, merges: bytes | None) -> Tokenizer:
    name = file.rsplit("/", 1)[-1]
    if name == "vocab.json":
        return read_vocab_json(file, data, merges)
    if name.startswith("tekken") or (name != "tokenizer.json" and _is_tekken(file, data)):
        return read_tekken(file, data)
    return read_tokenizer_json(file, data)


def _is_tekken(file: str, data: bytes) -> bool:
    document = load_object(file, data)
    return isinstance(document.get("vocab"), list) and "config" in document
