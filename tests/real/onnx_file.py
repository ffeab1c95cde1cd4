"""The weights in an ONNX file, with the names they have in the graph: enough of protobuf for that, no more.

Only what PyTorch's exporter writes for a BERT is understood; anything else is an error, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 7: np.dtype("<i8")}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALISER = 1, 5
_NODE_INPUT, _NODE_NAME, _NODE_OPERATOR = 1, 3, 4
_TENSOR_DIMS, _TENSOR_DTYPE, _TENSOR_NAME, _TENSOR_RAW = 1, 2, 8, 9

Field = tuple[int, int | memoryview]


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of the graph."""

    name: str
    operator: str
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """What an ONNX file holds: tensors by name, and the operators that use them."""

    tensors: dict[str, Array]
    nodes: tuple[Node, ...]


def read_onnx(data: bytes) -> Graph:
    """Read a whole ONNX file. Tensors are views of `data`."""
    (graph,) = (_message(value) for number, value in _fields(memoryview(data)) if number == _MODEL_GRAPH)
    tensors: dict[str, Array] = {}
    nodes: list[Node] = []
    for number, value in _fields(graph):
        if number == _GRAPH_INITIALISER:
            name, tensor = _tensor(_message(value))
            assert name not in tensors, f"two tensors are called {name}"
            tensors[name] = tensor
        elif number == _GRAPH_NODE:
            nodes.append(_node(_message(value)))
    return Graph(tensors, tuple(nodes))


def _tensor(message: memoryview) -> tuple[str, Array]:
    shape: list[int] = []
    dtype, name = 0, ""
    raw: memoryview | None = None
    for number, value in _fields(message):
        if number == _TENSOR_DIMS:
            shape += [value] if isinstance(value, int) else _packed(value)
        elif number == _TENSOR_DTYPE:
            assert isinstance(value, int)
            dtype = value
        elif number == _TENSOR_NAME:
            name = _text(value)
        elif number == _TENSOR_RAW:
            raw = _message(value)
        else:
            raise ValueError(f"field {number} of a tensor is not understood")
    assert raw is not None, f"{name}: no raw data"
    return name, np.frombuffer(raw, _DTYPES[dtype]).reshape(shape)


def _node(message: memoryview) -> Node:
    name = operator = ""
    inputs = []
    for number, value in _fields(message):
        if number == _NODE_INPUT:
            inputs.append(_text(value))
        elif number == _NODE_NAME:
            name = _text(value)
        elif number == _NODE_OPERATOR:
            operator = _text(value)
    return Node(name, operator, tuple(inputs))


def _fields(message: memoryview) -> Iterator[Field]:
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if wire == _BYTES:
            length, position = _varint(message, position)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire} is not understood")
        end = position + length
        assert end <= len(message), "a field ends after its message"
        yield number, message[position:end]
        position = end


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def _packed(message: memoryview) -> list[int]:
    values, position = [], 0
    while position < len(message):
        value, position = _varint(message, position)
        values.append(value)
    return values


def _message(value: int | memoryview) -> memoryview:
    assert isinstance(value, memoryview)
    return value


def _text(value: int | memoryview) -> str:
    return str(_message(value), "utf-8")
