"""Valid safetensors files from numpy arrays. Hostile ones are made by hand where they are tested."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

INDEX_NAME = "model.safetensors.index.json"

_DTYPE_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
}
# The library writes wide elements first, so that every tensor is aligned; names decide among equals.
_WIDTHS = {"C64": 8, "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4}
_WIDTHS |= {"BF16": 2, "F16": 2, "I16": 2, "U16": 2}


@dataclass(frozen=True, slots=True)
class RawTensor:
    """A tensor as it lies in a file, for dtypes that numpy does not have."""

    dtype: str
    """Name of the format: ``F4``, ``F8_E4M3`` and so on. It is not checked."""
    shape: tuple[int, ...]
    data: bytes


Tensor = NDArray[Any] | RawTensor


def safetensors_bytes(tensors: Mapping[str, Tensor], *, metadata: Mapping[str, str] | None = None) -> bytes:
    """Return a whole file, in the order in which the safetensors library writes.

    Parameters
    ----------
    tensors
        Arrays of numpy or ml_dtypes, or `RawTensor` for everything else.
    metadata
        The strings under ``__metadata__``; ``{"format": "pt"}`` when None.
    """
    raw = {name: _raw(tensor) for name, tensor in tensors.items()}
    layout = {name: (tensor.dtype, tensor.shape, len(tensor.data)) for name, tensor in raw.items()}
    head, order = safetensors_head(layout, metadata=metadata)
    return head + b"".join(raw[name].data for name in order)


def safetensors_head(
    layout: Mapping[str, tuple[str, tuple[int, ...], int]], *, metadata: Mapping[str, str] | None = None
) -> tuple[bytes, list[str]]:
    """Return everything before the data, and the names in the order of their data.

    Parameters
    ----------
    layout
        Dtype name, shape and number of bytes of each tensor.
    metadata
        As in `safetensors_bytes`.
    """
    order = sorted(layout, key=lambda name: (-_WIDTHS.get(layout[name][0], 1), name))
    header: dict[str, Any] = {"__metadata__": dict({"format": "pt"} if metadata is None else metadata)}
    end = 0
    for name in order:
        dtype, shape, size = layout[name]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, order


def write_safetensors(
    path: Path, tensors: Mapping[str, Tensor], *, metadata: Mapping[str, str] | None = None
) -> Path:
    """Write a file and return its path."""
    path.write_bytes(safetensors_bytes(tensors, metadata=metadata))
    return path


def sharded(tensors: Mapping[str, Tensor], n_shards: int) -> dict[str, bytes]:
    """Return the files of a model in shards of about equal size, with their index.

    Tensors are dealt out in the order given. There are fewer shards than asked for when single tensors are
    larger than a shard.
    """
    raw = {name: _raw(tensor) for name, tensor in tensors.items()}
    groups = split_by_size({name: len(tensor.data) for name, tensor in raw.items()}, n_shards)
    files = {
        shard_name(number, len(groups)): safetensors_bytes({name: raw[name] for name in names})
        for number, names in enumerate(groups, start=1)
    }
    total = sum(len(tensor.data) for tensor in raw.values())
    return {**files, INDEX_NAME: index_bytes(groups, total)}


def split_by_size(sizes: Mapping[str, int], n_shards: int) -> list[list[str]]:
    """Cut a list of tensors where its running size passes each n-th part of the whole."""
    if n_shards < 1:
        raise ValueError(f"n_shards must be at least 1, got {n_shards}")
    share = max(1, math.ceil(sum(sizes.values()) / n_shards))
    groups: dict[int, list[str]] = {}
    before = 0
    for name, size in sizes.items():
        groups.setdefault(before // share, []).append(name)
        before += size
    return list(groups.values())


def shard_name(number: int, n_shards: int) -> str:
    """Return the usual name of a shard; `number` begins at 1."""
    return f"model-{number:05d}-of-{n_shards:05d}.safetensors"


def index_bytes(groups: list[list[str]], total_size: int) -> bytes:
    """Return the index file of shards whose tensors are given."""
    weight_map = {
        name: shard_name(number, len(groups))
        for number, names in enumerate(groups, start=1)
        for name in names
    }
    index = {"metadata": {"total_size": total_size}, "weight_map": dict(sorted(weight_map.items()))}
    return json.dumps(index, indent=2).encode()


def _raw(tensor: Tensor) -> RawTensor:
    if isinstance(tensor, RawTensor):
        return tensor
    name = _DTYPE_NAMES.get(tensor.dtype.name)
    if name is None:
        raise ValueError(f"tensors must have a dtype of {sorted(_DTYPE_NAMES)}, got {tensor.dtype.name}")
    if tensor.dtype.byteorder == ">":
        tensor = tensor.astype(tensor.dtype.newbyteorder("<"))
    return RawTensor(name, tensor.shape, np.ascontiguousarray(tensor).tobytes())
