"""The tokenizer inside a GGUF file, written as ``tokenizer.json`` and ``tokenizer_config.json``.

Made only on demand: a vocabulary of 130,000 tokens takes some tenths of a second, and a comparison of weights
may not need it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, final

import numpy as np

from ._metadata import STRING, Metadata, RawArray

_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
MAX_TOKENS, MAX_MERGES, MAX_BYTES = 4_000_000, 8_000_000, 64 << 20
"""The largest public vocabularies have about 260,000 tokens in 3 MB."""
_WORD_START = "▁"
_KINDS = ("gpt2", "llama", "bert", "t5")
_SPECIAL = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "sep_token": "seperator_token_id",  # spelt like this in files
    "pad_token": "padding_token_id",
    "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}


@final
class TokenizerFiles(Mapping[str, bytes]):
    """Both files, made from the keys of the model's file when they are first read."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        tokens = metadata.array("tokenizer.ggml.tokens")
        known = metadata.text("tokenizer.ggml.model") in _KINDS
        self._there = known and tokens is not None and _is_list(tokens, MAX_TOKENS)

    def __getitem__(self, name: str) -> bytes:
        if self._there and name == "tokenizer.json":
            return self._tokenizer
        if self._there and name == "tokenizer_config.json":
            return self._settings
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(("tokenizer.json", "tokenizer_config.json") if self._there else ())

    def __len__(self) -> int:
        return 2 if self._there else 0

    @cached_property
    def _tokens(self) -> list[str]:
        found = self._metadata.array("tokenizer.ggml.tokens")
        return [] if found is None else list(found.strings())

    @cached_property
    def _types(self) -> list[int]:
        return self._for_each("tokenizer.ggml.token_type", np.int64, _NORMAL)

    @property
    def _scores(self) -> list[float]:
        return self._for_each("tokenizer.ggml.scores", np.float32, 0.0)

    def _for_each(self, key: str, kind: type[np.generic], otherwise: float) -> list[Any]:
        """Return one number per token; the same for all if the file does not have that many."""
        found = self._metadata.array(key)
        numbers = None if found is None else found.numbers()
        if numbers is None or numbers.size != len(self._tokens):
            return [otherwise] * len(self._tokens)
        finite: list[Any] = np.nan_to_num(numbers).astype(kind).tolist()
        return finite

    @cached_property
    def _tokenizer(self) -> bytes:
        kind = self._metadata.text("tokenizer.ggml.model")
        added = [
            {"id": number, "content": token, "special": self._types[number] == _CONTROL}
            for number, token in enumerate(self._tokens)
            if self._types[number] in (_CONTROL, _USER_DEFINED)
        ]
        byte_level = {"type": "ByteLevel", "add_prefix_space": False} if kind == "gpt2" else None
        document = {
            "version": "1.0",
            "added_tokens": added,
            "pre_tokenizer": byte_level,
            "decoder": byte_level,
            "model": self._model(kind),
        }
        return json.dumps(document).encode()

    def _model(self, kind: str | None) -> dict[str, object]:
        if kind == "t5":
            pairs = zip(self._tokens, self._scores, strict=True)
            return {"type": "Unigram", "vocab": [list(pair) for pair in pairs]}
        if kind == "bert":
            vocab = {_word_piece(token): number for number, token in self._numbered()}
            return {"type": "WordPiece", "continuing_subword_prefix": "##", "vocab": vocab}
        model: dict[str, object] = {"type": "BPE", "byte_fallback": kind == "llama"}
        numbered = self._numbered(without_last_added=kind == "gpt2")
        model["vocab"] = {token: number for number, token in numbered}
        merges = self._metadata.array("tokenizer.ggml.merges")
        if merges is not None and _is_list(merges, MAX_MERGES):
            model["merges"] = list(merges.strings())
        return model

    def _numbered(self, *, without_last_added: bool = False) -> Iterator[tuple[int, str]]:
        """Yield tokens with their numbers, without padding of the table.

        Byte-level vocabularies keep tokens added after training separate.
        """
        last = len(self._tokens)
        if without_last_added:
            apart = (_CONTROL, _USER_DEFINED, _UNUSED)
            while last and self._types[last - 1] in apart:
                last -= 1
        for number, token in enumerate(self._tokens[: last or None]):
            if self._types[number] != _UNUSED or token != f"[PAD{number}]":
                yield number, token

    @cached_property
    def _settings(self) -> bytes:
        settings: dict[str, object] = {}
        for field, key in _SPECIAL.items():
            number = self._metadata.whole(f"tokenizer.ggml.{key}")
            if number is not None and 0 <= number < len(self._tokens):
                settings[field] = self._tokens[number]
        for field in ("add_bos_token", "add_eos_token"):
            if (value := self._metadata.number(f"tokenizer.ggml.{field}")) is not None:
                settings[field] = bool(value)
        if (template := self._metadata.text("tokenizer.chat_template")) is not None:
            settings["chat_template"] = template
        return json.dumps(settings).encode()


def _is_list(values: RawArray, limit: int) -> bool:
    """Say whether an array holds strings, and no more than a tokenizer can have."""
    return values.kind == STRING and 0 < values.count <= limit and len(values.data) <= MAX_BYTES


def _word_piece(token: str) -> str:
    """Write a token as WordPiece does: the file marks the beginnings of words, not their continuations."""
    if token.startswith("[") and token.endswith("]"):
        return token
    return token[1:] if token.startswith(_WORD_START) else f"##{token}"
