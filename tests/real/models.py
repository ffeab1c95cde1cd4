"""Published models that several tests read."""

from __future__ import annotations

from functools import cache

from tests.real.formats import published

import modelkin as mk


def minilm_onnx() -> str:
    """all-MiniLM-L6-v2 once more: the same weights as the package of safetensors, from ONNX."""
    return str(published("minilm_onnx"))


def gte_small() -> str:
    """gte-small: 12 layers, fine-tuned from MiniLM-L12."""
    return str(published("gte"))


@cache
def paraphrase_l3() -> mk.MemorySource:
    """paraphrase-MiniLM-L3-v2: 3 layers of MiniLM-L12, fine-tuned.

    The package has weights only. Its tokenizer is BERT's uncased one, as all-MiniLM-L6-v2 has it.
    """
    files = {
        "model.onnx": published("para_l3").read_bytes(),
        "tokenizer.json": (published("minilm") / "tokenizer.json").read_bytes(),
    }
    return mk.MemorySource(files, name="paraphrase-MiniLM-L3-v2")


def whisper_tiny() -> str:
    """Whisper tiny, the multilingual one: a file of whisper.cpp."""
    return str(published("whisper_ggml"))


def whisper_tiny_en() -> str:
    """Whisper tiny.en: the same architecture, trained on English alone, from another initialisation."""
    return str(published("whisper_en_ct2"))
