"""``tokenizer.json`` of the `tokenizers` library: BPE, WordPiece, WordLevel, Unigram."""

from __future__ import annotations

from collections.abc import Mapping

from modelkin.errors import TokenizerError

from ._json_file import load_object
from ._value import Tokenizer, TokenTable, added_tokens

_KINDS = ("BPE", "Unigram", "WordPiece", "WordLevel")
_MAX_MERGES = 8_000_000
_MAX_NESTING = 8


def read_tokenizer_json(file: str, data: bytes) -> Tokenizer:
    """Read a whole ``tokenizer.json``.

    Raises
    ------
    TokenizerError
        It is malformed, or holds no vocabulary of a known form.
    """
    document = load_object(file, data)
    model = document.get("model")
    if not isinstance(model, dict):
        raise TokenizerError(file, "expected an object 'model', got none")
    stated = model.get("type")
    kind = guessed_kind(model) if stated is None else stated if stated in _KINDS else None
    byte_level = any(_names_byte_level(document.get(part)) for part in ("pre_tokenizer", "decoder"))
    table = TokenTable(file, byte_level)
    _fill(table, model, prefix=_word_prefix(model) if kind == "WordPiece" else None)
    tokens, ambiguous, notes = table.finished()
    merges = _merges(file, model)
    return Tokenizer(
        file=file,
        form="tokenizer.json",
        kind=kind,
        byte_level=byte_level,
        tokens=tokens,
        n_tokens=table.n_tokens,
        ambiguous=ambiguous,
        added=_added(file, document.get("added_tokens")),
        merges=merges,
        no_merges=None if merges is not None else f"a {kind or 'tokenizer of this kind'} has no merges",
        notes=notes,
    )


def guessed_kind(model: Mapping[str, object]) -> str | None:
    """Name the algorithm of old files, which leave the type out: each has a field of its own."""
    if "merges" in model:
        return "BPE"
    if "continuing_subword_prefix" in model:
        return "WordPiece"
    return "Unigram" if isinstance(model.get("vocab"), list) else None


def word_start(token: str, prefix: str) -> str:
    """Write a WordPiece token like those of other kinds: a word begins with a space, its rest does not."""
    if token.startswith(prefix) and len(token) > len(prefix):
        return token[len(prefix) :]
    special = token.startswith("[") and token.endswith("]") and len(token) > 2
    return token if special else f" {token}"


def _fill(table: TokenTable, model: Mapping[str, object], *, prefix: str | None) -> None:
    vocab = model.get("vocab")
    if isinstance(vocab, dict):
        for token, number in vocab.items():
            table.add_text(word_start(token, prefix) if prefix else token, number)
    elif isinstance(vocab, list):
        for number, entry in enumerate(vocab):
            if not isinstance(entry, list) or len(entry) != 2:
                raise TokenizerError(table.file, "expected pairs of token and score, got something else")
            table.add_text(entry[0], number)
    else:
        raise TokenizerError(table.file, "expected a vocabulary, got none")


def _word_prefix(model: Mapping[str, object]) -> str:
    prefix = model.get("continuing_subword_prefix")
    return prefix if isinstance(prefix, str) and prefix else "##"


def _merges(file: str, model: Mapping[str, object]) -> tuple[str, ...] | None:
    """Return the merges in the old way of writing: a string, with a space between the parts."""
    merges = model.get("merges")
    if merges is None:
        return None
    if not isinstance(merges, list) or len(merges) > _MAX_MERGES:
        raise TokenizerError(file, f"expected a list of at most {_MAX_MERGES:,} merges, got something else")
    return tuple(_merge(file, merge) for merge in merges)


def _merge(file: str, merge: object) -> str:
    if isinstance(merge, str):
        return merge
    if isinstance(merge, list) and len(merge) == 2 and all(isinstance(part, str) for part in merge):
        return f"{merge[0]} {merge[1]}"
    raise TokenizerError(file, f"expected a merge of two tokens, got {type(merge).__name__}")


def _added(file: str, listed: object) -> dict[str, int]:
    if listed is None:
        return {}
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise TokenizerError(file, "expected a list of added tokens, got something else")
    return added_tokens(file, ((entry.get("content"), entry.get("id")) for entry in listed))


def _names_byte_level(part: object, depth: int = 0) -> bool:
    """Say whether a step, or one of the steps in it, writes bytes as characters."""
    if depth > _MAX_NESTING:
        return False
    if isinstance(part, list):
        return any(_names_byte_level(item, depth + 1) for item in part)
    if not isinstance(part, dict):
        return False
    inner = (part.get("pretokenizers"), part.get("decoders"))
    return part.get("type") == "ByteLevel" or any(_names_byte_level(item, depth + 1) for item in inner)
