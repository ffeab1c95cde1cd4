"""Byte-level BPE tokenizers, trained on synthetic text with the `tokenizers` library."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from .extra import lab_module

START, END = "<s>", "</s>"


def train_tokenizer(text: str, *, vocab: int) -> str:
    """Return the content of ``tokenizer.json`` for a byte-level BPE of `vocab` tokens."""
    tokenizers = lab_module("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[START, END],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # By lines, as a single string would be one job for the trainer's word counter.
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer=trainer)
    return _compact(tokenizer)


def extend_tokenizer(tokenizer_json: str, text: str, *, vocab: int) -> str:
    """Return the tokenizer with the most frequent whole words of `text` added, up to `vocab` tokens."""
    tokenizer = _load(tokenizer_json)
    known = tokenizer.get_vocab()
    counts = Counter(re.findall(r"[a-z]{4,}", text))
    words = [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    new = [word for word in words if word not in known and f"Ġ{word}" not in known]
    tokenizer.add_tokens(new[: vocab - len(known)])
    return _compact(tokenizer)


def encode(tokenizer_json: str, text: str) -> list[int]:
    """Return the token numbers of a text; each passage ends with the end token."""
    tokenizer = _load(tokenizer_json)
    end = tokenizer.token_to_id(END)
    tokens: list[int] = []
    for passage in tokenizer.encode_batch(text.split("\n\n")):
        tokens.extend(passage.ids)
        tokens.append(end)
    return tokens


def vocabulary(tokenizer_json: str) -> dict[str, int]:
    """Return token strings and their numbers, including added tokens."""
    return dict(_load(tokenizer_json).get_vocab(with_added_tokens=True))


def shared_rows(old_json: str, new_json: str) -> list[tuple[int, int]]:
    """Return the (old, new) numbers of tokens that both tokenizers have."""
    old, new = vocabulary(old_json), vocabulary(new_json)
    return sorted((old[token], number) for token, number in new.items() if token in old)


def _load(tokenizer_json: str) -> Any:  # noqa: ANN401
    return lab_module("tokenizers").Tokenizer.from_str(tokenizer_json)


def _compact(tokenizer: Any) -> str:  # noqa: ANN401
    """Return the JSON without white space, which is most of the usual file."""
    return json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
