"""GGUF files for tests, written with `gguf.GGUFWriter`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tests.places import ZOO

import modelkin as mk

from .gguf_conversions import CONVERSIONS, Array, Config, converted_keys, converted_tensors


def arrays_of(path: str | Path) -> dict[str, Array]:
    """Read all tensors of a model."""
    model = mk.open_model(str(path))
    return {name: np.asarray(model.tensor(name)) for name in model.index}


def converted(
    path: Path,
    arrays: Mapping[str, Array],
    config: Config,
    *,
    quant: str = "F32",
    tokenizer: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model as llama.cpp's converter does, then quantise its matrices."""
    arch = gguf.MODEL_ARCH_NAMES[CONVERSIONS[config["model_type"]].arch]
    keys = converted_keys(config)
    if tokenizer is not None:
        keys |= tokenizer_keys(tokenizer)
    return written(path, arch, keys, converted_tensors(arrays, config), quant=quant)


def converted_zoo(folder: Path, name: str, quant: str) -> Path:
    """Convert a model of the zoo."""
    source = ZOO / name
    config = json.loads((source / "config.json").read_text())
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    path = folder / f"{name}.{quant}.gguf"
    return converted(path, arrays_of(source), config, quant=quant, tokenizer=tokenizer)


def tokenizer_keys(document: Mapping[str, Any]) -> dict[str, object]:
    """Return the keys that hold a byte-level ``tokenizer.json``."""
    vocab = dict(document["model"]["vocab"])
    added = {item["content"]: item["id"] for item in document.get("added_tokens", [])}
    tokens = sorted({**vocab, **added}.items(), key=lambda item: item[1])
    merges = document["model"].get("merges", [])
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [token for token, _ in tokens],
        "tokenizer.ggml.token_type": [3 if token in added else 1 for token, _ in tokens],
        "tokenizer.ggml.merges": [item if isinstance(item, str) else " ".join(item) for item in merges],
    }


def written(
    path: Path, arch: str, keys: Mapping[str, object], tensors: Mapping[str, Array], *, quant: str = "F32"
) -> Path:
    """Write a file with these keys and tensors as they are; matrices of whole blocks are quantised."""
    writer = gguf.GGUFWriter(path, arch)
    for key, value in keys.items():
        _add_key(writer, key, value)
    for name, values in tensors.items():
        add_tensor(writer, name, values, quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tensor(writer: gguf.GGUFWriter, name: str, values: Array, quant: str) -> None:
    """Add a tensor: vectors in float32, matrices in the given type where whole blocks fit."""
    kind = gguf.GGMLQuantizationType[quant]
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    if values.ndim == 1 or values.shape[-1] % block:
        kind = gguf.GGMLQuantizationType.F32
    coded = gguf.quants.quantize(np.ascontiguousarray(values, np.float32), kind)
    writer.add_tensor(name, coded, raw_dtype=None if kind.name in ("F32", "F16") else kind)


def _add_key(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif value:
        assert isinstance(value, Sequence)
        writer.add_array(key, list(value))
