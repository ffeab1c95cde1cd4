"""Small adapters in the layout of PEFT, made with numpy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.support import LlamaShape, llama_files

from modelkin.formats.safetensors import safetensors_bytes

SHAPE = LlamaShape()
Floats = NDArray[np.float32]
Q = "model.layers.0.self_attn.q_proj"
UP = "model.layers.1.mlp.up_proj"
TARGETS = (Q, UP)


def config_bytes(**changes: Any) -> bytes:
    """Return an ``adapter_config.json``; None removes a field."""
    fields: dict[str, Any] = {
        "peft_type": "LORA",
        "base_model_name_or_path": "org/base",
        "r": 4,
        "lora_alpha": 8,
        "target_modules": ["q_proj", "up_proj"],
    }
    fields |= changes
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


def shapes() -> dict[str, tuple[int, ...]]:
    """Return the shapes of the base's tensors."""
    return dict(SHAPE.tensors())


def factors(targets: tuple[str, ...] = TARGETS, *, rank: int = 4, seed: int = 0) -> dict[str, Floats]:
    """Return A and B for some modules of the tiny base, under PEFT's names."""
    rng = np.random.default_rng(seed)
    made: dict[str, Floats] = {}
    for module in targets:
        outputs, inputs = shapes()[f"{module}.weight"]
        made[f"base_model.model.{module}.lora_A.weight"] = _normal(rng, rank, inputs)
        made[f"base_model.model.{module}.lora_B.weight"] = _normal(rng, outputs, rank)
    return made


def update(tensors: Mapping[str, Floats], module: str, scale: float = 2.0) -> Floats:
    """Return what an adapter adds to a module's weight."""
    prefix = f"base_model.model.{module}"
    b, a = tensors[f"{prefix}.lora_B.weight"], tensors[f"{prefix}.lora_A.weight"]
    return np.asarray(scale * (b @ a), np.float32)


def adapter_files(tensors: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, bytes]:
    """Return the files of an adapter for the tiny base."""
    return {
        "adapter_config.json": config_bytes(**changes),
        "adapter_model.safetensors": safetensors_bytes(factors() if tensors is None else tensors),
    }


def base_files(**options: Any) -> dict[str, Any]:
    """Return the files of the tiny base."""
    return dict(llama_files(SHAPE, **options))


def write(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def _normal(rng: np.random.Generator, *shape: int) -> Floats:
    return rng.standard_normal(shape).astype(np.float32)
