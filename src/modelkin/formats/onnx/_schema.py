"""How the fields of ONNX's messages are written: field -> wire types that protobuf accepts for it.

Protobuf skips a field with another wire type as if it were not there. A reader that accepts it anyway, or
mistakes another field for it, sees other weights than a program that runs the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from .wire import BYTES, FIXED32, FIXED64, VARINT

Kinds: TypeAlias = Mapping[int, tuple[int, ...]]

_BYTES, _NUMBER = (BYTES,), (VARINT,)
_NUMBERS, _FLOATS, _DOUBLES = (VARINT, BYTES), (FIXED32, BYTES), (FIXED64, BYTES)


def _fields(*texts: int, **others: tuple[tuple[int, ...], tuple[int, ...]]) -> Kinds:
    listed = {number: _BYTES for number in texts}
    return listed | {number: wires for numbers, wires in others.values() for number in numbers}


MODEL: Final = _fields(2, 3, 4, 6, 7, 8, 14, 20, 25, 26, numbers=((1, 5), _NUMBER))
GRAPH: Final = _fields(1, 2, 5, 10, 11, 12, 13, 14, 15, 16)
FUNCTION: Final = _fields(1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
NODE: Final = _fields(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
ATTRIBUTE: Final = _fields(
    *(1, 4, 5, 6, 9, 10, 11, 13, 14, 15, 21, 22, 23),
    number=((3, 20), _NUMBER),
    numbers=((8,), _NUMBERS),
    floats=((7,), _FLOATS),
    float=((2,), (FIXED32,)),
)
TENSOR: Final = _fields(
    *(3, 6, 8, 9, 12, 13, 16),
    number=((2, 14), _NUMBER),
    numbers=((1, 5, 7, 11), _NUMBERS),
    floats=((4,), _FLOATS),
    doubles=((10,), _DOUBLES),
)
SPARSE_TENSOR: Final = _fields(1, 2, numbers=((3,), _NUMBERS))
VALUE: Final = _fields(1, 2, 3, 4)
ENTRY: Final = _fields(1, 2)
