"""A tokenizer in a few lines: kind, class, number of tokens. Nothing is executed, nothing is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.message import Message, say
from modelkin.untrusted import JsonRefused, strict_json

from .reading import guessed_kind

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "tekken.json",
    "qwen.tiktoken",
    "tiktoken.model",
)
"""Names under which tokenizers are published."""
_TEXT_LIMIT = 80
"""Characters of a name in a config: public ones are shorter, and its author is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSummary:
    """What the tokenizer's own files say."""

    files: tuple[str, ...]
    """Tokenizer files that the model has."""
    kind: str | None = None
    """Algorithm of ``tokenizer.json``: BPE, Unigram, WordPiece, WordLevel."""
    class_name: str | None = None
    """Class that ``tokenizer_config.json`` names."""
    vocab_size: int | None = None
    """Tokens of the base vocabulary."""
    added_tokens: int | None = None
    """Tokens added to it, special ones included."""
    merges: int | None = None
    """Merge rules of a BPE tokenizer."""
    skipped: tuple[Message, ...] = ()
    """What was not examined, each with its reason."""


def summarise_tokenizer(
    contents: Mapping[str, bytes], *, files: tuple[str, ...], skipped: tuple[Message, ...] = ()
) -> TokenizerSummary:
    """Describe a tokenizer by the contents of those of its files that were read.

    `skipped` are the files that were not read, each with the reason.
    """
    notes = list(skipped)
    tokenizer = _object("tokenizer.json", contents, notes)
    settings = _object("tokenizer_config.json", contents, notes, as_python_writes=True)
    algorithm = tokenizer.get("model")
    algorithm = algorithm if isinstance(algorithm, dict) else {}
    vocab, merges, added = algorithm.get("vocab"), algorithm.get("merges"), tokenizer.get("added_tokens")
    vocab_size = len(vocab) if isinstance(vocab, dict | list) else None
    if vocab_size is None and "vocab.txt" in contents:
        vocab_size = len(contents["vocab.txt"].splitlines())
    if added is None:
        added = settings.get("added_tokens_decoder")
    return TokenizerSummary(
        files=files,
        kind=_text(algorithm.get("type")) or guessed_kind(algorithm),
        class_name=_text(settings.get("tokenizer_class")),
        vocab_size=vocab_size,
        added_tokens=len(added) if isinstance(added, dict | list) else None,
        merges=len(merges) if isinstance(merges, list) else None,
        skipped=tuple(notes),
    )


def _object(
    name: str, contents: Mapping[str, bytes], notes: list[Message], *, as_python_writes: bool = False
) -> dict[str, object]:
    if name not in contents:
        return {}
    try:
        document = strict_json(contents[name], as_python_writes=as_python_writes)
    except JsonRefused:
        notes.append(say("file-not-json", file=name))
        return {}
    if not isinstance(document, dict):
        notes.append(say("file-no-object", file=name))
        return {}
    return document


def _text(value: object) -> str | None:
    return value[:_TEXT_LIMIT] if isinstance(value, str) and value.isprintable() else None
