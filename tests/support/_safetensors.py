"""Whole models in safetensors. Hostile files are made where they are tested."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from modelkin.formats.safetensors import RawTensor, StoredTensor, safetensors_bytes

INDEX_NAME = "model.safetensors.index.json"


def write_safetensors(
    path: Path, tensors: Mapping[str, StoredTensor], *, metadata: Mapping[str, str] | None = None
) -> Path:
    """Write a file and return its path."""
    path.write_bytes(safetensors_bytes(tensors, metadata=metadata))
    return path


def sharded(tensors: Mapping[str, StoredTensor], n_shards: int) -> dict[str, bytes]:
    """Return the files of a model in shards of about equal size, with their index.

    Tensors are dealt out in the order given. There are fewer shards than asked for when single tensors are
    larger than a shard.
    """
    sizes = {name: _n_bytes(tensor) for name, tensor in tensors.items()}
    groups = split_by_size(sizes, n_shards)
    files = {
        shard_name(number, len(groups)): safetensors_bytes({name: tensors[name] for name in names})
        for number, names in enumerate(groups, start=1)
    }
    return {**files, INDEX_NAME: index_bytes(groups, sum(sizes.values()))}


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


def _n_bytes(tensor: StoredTensor) -> int:
    return len(tensor.data) if isinstance(tensor, RawTensor) else tensor.nbytes
