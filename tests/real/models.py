"""Published models in other formats than safetensors, held in memory under the names of transformers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.real.published import MINILM, PARAPHRASE, WHISPER_EN, files_of, folder_of, from_npm
from tests.real.whisper_files import read_ctranslate2, read_ggml

import modelkin as mk
from modelkin.testing import safetensors_bytes

Array = NDArray[Any]


def minilm_onnx() -> str:
    """all-MiniLM-L6-v2 once more: the same weights as the package `MINILM`, from ONNX."""
    return str(from_npm("all-MiniLM-L6-v2/model.onnx").parent)


def gte_small() -> str:
    """gte-small: 12 layers, fine-tuned from MiniLM-L12."""
    return str(from_npm("gte-small/model.onnx").parent)


@cache
def paraphrase_l3() -> mk.MemorySource:
    """paraphrase-MiniLM-L3-v2: 3 layers of MiniLM-L12, fine-tuned.

    The package has weights only. Its tokenizer is BERT's uncased one, as all-MiniLM-L6-v2 has it.
    """
    (weights,) = files_of(PARAPHRASE, ".onnx")
    files = {
        "model.onnx": weights.read_bytes(),
        "tokenizer.json": (folder_of(MINILM) / "tokenizer.json").read_bytes(),
    }
    return mk.MemorySource(files, name="paraphrase-MiniLM-L3-v2")


@cache
def whisper_tiny() -> mk.MemorySource:
    """Whisper tiny, the multilingual one."""
    file = read_ggml(from_npm("whisper-tiny/ggml.bin").read_bytes())
    tensors = {openai_name(name): _without_trailing_one(array) for name, array in file.tensors.items()}
    config = _whisper_config(tensors, heads=file.sizes["text_heads"])
    return _model("whisper-tiny", tensors, config, byte_level_tokenizer(file.tokens))


@cache
def whisper_tiny_en() -> mk.MemorySource:
    """Whisper tiny.en: the same architecture, trained on English alone, from another initialisation."""
    (weights,) = files_of(WHISPER_EN, ".bin")
    stored = read_ctranslate2(weights.read_bytes())
    tensors = dict(ctranslate2_tensors(stored))
    config = _whisper_config(tensors, heads=int(stored["decoder/num_heads"]))
    return _model("whisper-tiny.en", tensors, config, (weights.parent / "tokenizer.json").read_bytes())


def _model(
    name: str, tensors: Mapping[str, Array], config: Mapping[str, object] | bytes, tokenizer: bytes
) -> mk.MemorySource:
    files = {
        "model.safetensors": safetensors_bytes(tensors),
        "config.json": config if isinstance(config, bytes) else json.dumps(config).encode(),
        "tokenizer.json": tokenizer,
    }
    return mk.MemorySource(files, name=name)


# -- Whisper -------------------------------------------------------------------------------------------

_OPENAI_WORDS = {
    "blocks": "layers",
    "positional_embedding": "embed_positions.weight",
    "token_embedding": "embed_tokens",
    "attn": "self_attn",
    "cross_attn": "encoder_attn",
    "attn_ln": "self_attn_layer_norm",
    "cross_attn_ln": "encoder_attn_layer_norm",
    "mlp_ln": "final_layer_norm",
    "ln": "layer_norm",
    "ln_post": "layer_norm",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "out": "out_proj",
}


def openai_name(name: str) -> str:
    """Translate a name of the original Whisper, which ggml keeps."""
    name = name.replace("mlp.0.", "fc1.").replace("mlp.2.", "fc2.")
    return "model." + ".".join(_OPENAI_WORDS.get(word, word) for word in name.split("."))


_CT2_PARTS = {
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
    "ffn/layer_norm": ("final_layer_norm",),
    "layer_norm": ("layer_norm",),
    "conv1": ("conv1",),
    "conv2": ("conv2",),
    "embeddings": ("embed_tokens",),
    "position_encodings": ("embed_positions",),
}
_CT2_KINDS = {"gamma": "weight", "beta": "bias", "encodings": "weight", "weight": "weight", "bias": "bias"}
_CT2_NAME = re.compile(r"(encoder|decoder)/(?:layer_(\d+)/)?(.+)/(\w+)")


def ctranslate2_tensors(stored: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Translate names, and take apart the projections that CTranslate2 joins."""
    for name, array in stored.items():
        if not array.ndim:
            continue  # a setting
        found = _CT2_NAME.fullmatch(name)
        assert found is not None, f"{name} is not understood"
        stack, layer, part, kind = found.groups()
        prefix = f"model.{stack}." if layer is None else f"model.{stack}.layers.{layer}."
        owners = _CT2_PARTS[part]
        for owner, piece in zip(owners, np.split(array, len(owners)), strict=True):
            if owner.endswith("k_proj") and kind == "bias":
                assert not piece.any(), "Whisper's keys have no bias"
                continue
            yield f"{prefix}{owner}.{_CT2_KINDS[kind]}", piece


def _without_trailing_one(array: Array) -> Array:
    """Ggml keeps the bias of a convolution as one column."""
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _whisper_config(tensors: Mapping[str, Array], *, heads: int) -> dict[str, object]:
    vocab_size, width = tensors["model.decoder.embed_tokens.weight"].shape
    config: dict[str, object] = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "d_model": width,
        "num_mel_bins": tensors["model.encoder.conv1.weight"].shape[1],
        "max_source_positions": len(tensors["model.encoder.embed_positions.weight"]),
        "max_target_positions": len(tensors["model.decoder.embed_positions.weight"]),
        "vocab_size": vocab_size,
    }
    for stack in ("encoder", "decoder"):
        config[f"{stack}_layers"] = _count_layers(tensors, rf"model\.{stack}\.layers\.(\d+)\.")
        config[f"{stack}_attention_heads"] = heads
        config[f"{stack}_ffn_dim"] = len(tensors[f"model.{stack}.layers.0.fc1.bias"])
    return config


def _count_layers(names: Iterable[str], pattern: str) -> int:
    return len({found[1] for name in names if (found := re.match(pattern, name))})


def byte_level_tokenizer(tokens: Iterable[bytes]) -> bytes:
    """Write tokens that are given as bytes in the form of a ``tokenizer.json``; rows are their order."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in plain}
    letters |= {byte: chr(256 + n) for n, byte in enumerate(b for b in range(256) if b not in letters)}
    vocab = {
        "".join(letters[byte] for byte in token): row
        for row, token in enumerate(tokens)
        if token  # the last is the end of text, which has none
    }
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    return json.dumps({"pre_tokenizer": {"type": "ByteLevel"}, "model": model}, ensure_ascii=False).encode()
