"""Valid safetensors files from numpy arrays. Hostile ones are made by hand in the tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
# The library writes wide elements first, so that every tensor is aligned; ties go by name.
_WIDTHS = {"C64": 8, "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4}
_WIDTHS |= {"BF16": 2, "F16": 2, "I16": 2, "U16": 2}


@dataclass(frozen=True, slots=True)
class RawTensor:
    """A tensor as it lies in a file, for dtypes that numpy does not have."""

    dtype: str
    """Name of the format: ``F4``, ``F8_E4M3`` and so on. It is not checked."""
    shape: tuple[int, ...]
    data: bytes


StoredTensor = NDArray[Any] | RawTensor


def safetensors_bytes(
    tensors: Mapping[str, StoredTensor], *, metadata: Mapping[str, str] | None = None
) -> bytes:
    """Return a whole file, in the order in which the safetensors library writes.

    Tensors are arrays of numpy or ml_dtypes, or `RawTensor` for everything else. ``__metadata__`` is
    ``{"format": "pt"}`` by default.
    """
    raw = {name: raw_tensor(tensor) for name, tensor in tensors.items()}
    layout = {name: (tensor.dtype, tensor.shape, len(tensor.data)) for name, tensor in raw.items()}
    head, order = safetensors_head(layout, metadata=metadata)
    return head + b"".join(raw[name].data for name in order)


def safetensors_head(
    layout: Mapping[str, tuple[str, tuple[int, ...], int]], *, metadata: Mapping[str, str] | None = None
) -> tuple[bytes, list[str]]:
    """Return everything before the data, and the names in the order of their data.

    `layout` has dtype name, shape and number of bytes of each tensor.
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


def raw_tensor(tensor: StoredTensor) -> RawTensor:
    """Return an array as it is stored."""
    if isinstance(tensor, RawTensor):
        return tensor
    name = _DTYPE_NAMES.get(tensor.dtype.name)
    if name is None:
        raise ValueError(f"tensors must have a dtype of {sorted(_DTYPE_NAMES)}, got {tensor.dtype.name}")
    if tensor.dtype.byteorder == ">":
        tensor = tensor.astype(tensor.dtype.newbyteorder("<"))
    return RawTensor(name, tensor.shape, np.ascontiguousarray(tensor).tobytes())
