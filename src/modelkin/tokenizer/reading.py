"""From the files of a model to its tokenizer: which file is read, and as what."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping

from modelkin.errors import TokenizerError
from modelkin.message import say

from ._sentencepiece import read_sentencepiece
from ._value import Tokenizer, TokenTable, added_tokens, load_object

MAX_BYTES = 64 * 1024 * 1024
"""The largest public tokenizer file is 34 MB."""
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
"""Files that hold the whole vocabulary, the most informative first."""
_RANKED = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d{1,10}\r?(\n|\Z)")
_PROTOBUF_PIECE = b"\n"  # key of field 1, a message: how every SentencePiece model begins
_KINDS = ("BPE", "Unigram", "WordPiece", "WordLevel")
_MAX_MERGES = 8_000_000
"""Far more merges than tokens of any vocabulary that is read."""
_MAX_NESTING = 8
"""Steps inside steps; deeper ones would only cost time."""
_PREFIX = "##"
_RANKS_ONLY = say("no-merges-ranks")


def tokenizer_files(names: Iterable[str]) -> tuple[str, ...]:
    """Choose which of a model's files to read; none if there is no vocabulary among them."""
    present = set(names)
    found = next((files for files in _FILES if present.issuperset(files)), None)
    if found is not None:
        return found
    return tuple(sorted(name for name in present if name.endswith(".tiktoken") and "/" not in name)[:1])


def read_tokenizer(contents: Mapping[str, bytes]) -> Tokenizer:
    """Read a tokenizer: one file by its name, or ``vocab.json`` with its ``merges.txt``.

    Its bytes decide what it is: a ``tokenizer.model`` may be SentencePiece or tiktoken. Raises
    `TokenizerError` if it is malformed, hostile, too large, or of no known form.
    """
    files = dict(contents)
    merges = files.pop("merges.txt", None)
    if len(files) != 1:
        raise TokenizerError("tokenizer", say("problem.one-file", n=len(files)))
    ((file, data),) = files.items()
    if len(data) > MAX_BYTES:
        raise TokenizerError(file, say("problem.at-most-bytes", most=MAX_BYTES, got=len(data)))
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
        say("problem.no-tokenizer-file"),
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


# -- tokenizer.json of the `tokenizers` library ---------------------------------------------------------


def read_tokenizer_json(file: str, data: bytes) -> Tokenizer:
    """Read a whole ``tokenizer.json``, which must hold a vocabulary of a known form."""
    document = load_object(file, data)
    model = document.get("model")
    if not isinstance(model, dict):
        raise TokenizerError(file, say("problem.no-model-object"))
    stated = model.get("type")
    kind = guessed_kind(model) if stated is None else stated if stated in _KINDS else None
    byte_level = any(_names_byte_level(document.get(part)) for part in ("pre_tokenizer", "decoder"))
    table = TokenTable(file, byte_level)
    prefix = model.get("continuing_subword_prefix")
    stated_prefix = prefix if isinstance(prefix, str) and prefix else _PREFIX
    _fill(table, model, prefix=stated_prefix if kind == "WordPiece" else None)
    return table.tokenizer(
        form="tokenizer.json",
        kind=kind,
        added=_special(file, document.get("added_tokens"), what="added", text="content", number="id"),
        merges=_json_merges(file, model),
        no_merges=say("no-merges-of-kind", kind=kind) if kind else say("no-merges-kind-unknown"),
    )


def guessed_kind(model: Mapping[str, object]) -> str | None:
    """Name the algorithm of old files, which omit the type: each has a characteristic field."""
    if "merges" in model:
        return "BPE"
    if "continuing_subword_prefix" in model:
        return "WordPiece"
    return "Unigram" if isinstance(model.get("vocab"), list) else None


def word_start(token: str, prefix: str) -> str:
    """Write a WordPiece token like those of other kinds: the start of a word begins with a space."""
    if token.startswith(prefix) and len(token) > len(prefix):
        return token[len(prefix) :]
    special = token.startswith("[") and token.endswith("]") and len(token) > 2
    return token if special else f" {token}"


def _fill(table: TokenTable, model: Mapping[str, object], *, prefix: str | None) -> None:
    vocab = model.get("vocab")
    if isinstance(vocab, dict | list):
        table.expect(len(vocab))
    if isinstance(vocab, dict):
        for token, number in vocab.items():
            table.add_text(word_start(token, prefix) if prefix else token, number)
    elif isinstance(vocab, list):
        for number, entry in enumerate(vocab):
            if not isinstance(entry, list) or len(entry) != 2:
                raise TokenizerError(table.file, say("problem.unigram-pairs"))
            table.add_text(entry[0], number)
    else:
        raise TokenizerError(table.file, say("problem.no-vocabulary"))


def _json_merges(file: str, model: Mapping[str, object]) -> tuple[str, ...] | None:
    """Return the merges in the old notation: a string, with a space between the parts."""
    merges = model.get("merges")
    if merges is None:
        return None
    if not isinstance(merges, list) or len(merges) > _MAX_MERGES:
        raise TokenizerError(file, say("problem.merges", most=_MAX_MERGES))
    return tuple(_merge(file, merge) for merge in merges)


def _merge(file: str, merge: object) -> str:
    if isinstance(merge, str):
        return merge
    if isinstance(merge, list) and len(merge) == 2 and all(isinstance(part, str) for part in merge):
        return f"{merge[0]} {merge[1]}"
    raise TokenizerError(file, say("problem.merge-kind", kind=type(merge).__name__))


def _special(file: str, listed: object, *, what: str, text: str, number: str) -> dict[str, int]:
    """Read a list of added or special tokens, with text and number under these keys."""
    if listed is None:
        return {}
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise TokenizerError(file, say("problem.tokens-list", what=what))
    return added_tokens(file, ((entry.get(text), entry.get(number)) for entry in listed))


def _names_byte_level(part: object, depth: int = 0) -> bool:
    """Say whether a step, or one nested in it, writes bytes as characters."""
    if depth > _MAX_NESTING:
        return False
    if isinstance(part, list):
        return any(_names_byte_level(item, depth + 1) for item in part)
    if not isinstance(part, dict):
        return False
    inner = (part.get("pretokenizers"), part.get("decoders"))
    return part.get("type") == "ByteLevel" or any(_names_byte_level(item, depth + 1) for item in inner)


# -- vocab.txt of BERT, vocab.json and merges.txt of GPT-2 ----------------------------------------------


def read_vocab_txt(file: str, data: bytes) -> Tokenizer:
    """Read a list of tokens in UTF-8, one per line; the line number is the id."""
    lines = _lines(file, data)
    if lines and not lines[-1]:
        lines.pop()
    pieces = any(line.startswith(_PREFIX) and len(line) > len(_PREFIX) for line in lines)
    table = TokenTable(file, byte_level=False)
    for number, line in enumerate(lines):
        token = line.removesuffix("\r")
        table.add_text(word_start(token, _PREFIX) if pieces else token, number)
    return table.tokenizer(
        form="vocab.txt", kind="WordPiece" if pieces else None, no_merges=say("no-merges-words")
    )


def read_vocab_json(file: str, data: bytes, merges: bytes | None) -> Tokenizer:
    """Read a vocabulary and, in a file of its own, the merges."""
    vocab = load_object(file, data)
    # Written with the stand-ins for bytes, a vocabulary has one for the space.
    byte_level = any("Ġ" in token for token in vocab)
    table = TokenTable(file, byte_level)
    table.expect(len(vocab))
    for token, number in vocab.items():
        table.add_text(token, number)
    return table.tokenizer(
        form="vocab.json",
        kind="BPE" if merges is not None else None,
        merges=_merges(merges) if merges is not None else None,
        no_merges=say("no-merges-file"),
    )


def _lines(file: str, data: bytes) -> list[str]:
    try:
        return data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise TokenizerError(file, say("problem.not-utf8")) from error


def _merges(data: bytes) -> tuple[str, ...]:
    lines = _lines("merges.txt", data)
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    found = tuple(line.removesuffix("\r") for line in lines if line.strip())
    if any(line.count(" ") != 1 for line in found):
        raise TokenizerError("merges.txt", say("problem.merge-lines"))
    return found


# -- ranked bytes: tiktoken's files, and Mistral's tekken.json -------------------------------------------


def read_tiktoken(file: str, data: bytes) -> Tokenizer:
    """Read a file of tiktoken: on each line a token in base64, a space, its rank."""
    table = TokenTable(file, byte_level=True)
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        token, _, rank = line.partition(b" ")
        if not rank.isdigit() or len(rank) > 10:
            raise TokenizerError(file, say("problem.rank-line", number=number))
        table.add_bytes(_decoded(file, token), int(rank))
    return table.tokenizer(
        form="tiktoken", kind="BPE", no_merges=_RANKS_ONLY, notes=(say("special-tokens-elsewhere"),)
    )


def read_tekken(file: str, data: bytes) -> Tokenizer:
    """Read a ``tekken.json``. Special tokens come first, so an id is a rank plus their number."""
    document = load_object(file, data)
    config, vocab = document.get("config"), document.get("vocab")
    if not isinstance(config, dict) or not isinstance(vocab, list):
        raise TokenizerError(file, say("problem.tekken"))
    size = _count(file, config, "default_vocab_size")
    n_special = _count(file, config, "default_num_special_tokens")
    if size < n_special:
        raise TokenizerError(file, say("problem.tekken-size", n_special=n_special, size=size))
    table = TokenTable(file, byte_level=True)
    for entry in vocab:
        rank, token = (entry.get("rank"), entry.get("token_bytes")) if isinstance(entry, dict) else (0, 0)
        if type(rank) is not int or not isinstance(token, str):
            raise TokenizerError(file, say("problem.tekken-tokens"))
        if rank < size - n_special:  # the rest of the file is there for larger vocabularies
            table.add_bytes(_decoded(file, token.encode("utf-8", "surrogatepass")), rank + n_special)
    special = document.get("special_tokens")
    return table.tokenizer(
        form="tekken",
        kind="BPE",
        added=_special(file, special, what="special", text="token_str", number="rank"),
        no_merges=_RANKS_ONLY,
    )


def _count(file: str, config: dict[str, object], name: str) -> int:
    value = config.get(name)
    if type(value) is not int or value < 0:
        raise TokenizerError(file, say("problem.whole-number", name=repr(name), kind=type(value).__name__))
    return value


def _decoded(file: str, token: bytes) -> bytes:
    try:
        return base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError) as error:
        raise TokenizerError(file, say("problem.not-base64")) from error
