"""The header of a GGUF file: bytes in, keys and tensors out; hostile ones are refused.

It is read from the beginning of the file without knowing its length: that only follows from walking over it,
and a vocabulary of some megabytes comes before the tensors.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from modelkin.errors import FormatError, HeaderError, UnsupportedFormat
from modelkin.message import Message, say
from modelkin.untrusted import name_problem, quoted

from ._metadata import ARRAY, SCALARS, STRING, Metadata, RawArray, Value
from .types import TYPES, UNREAD, GgmlType

MAGIC = b"GGUF"
MAX_HEADER_BYTES = 256 << 20
"""The longest public headers are about 20 MB."""
MAX_TENSORS = 1 << 18
MAX_KEYS = 1 << 16
MAX_NESTED = 1 << 16
"""Arrays inside arrays, in the whole header; no known key has any."""
MAX_DEPTH = 4
MAX_DIMENSIONS = 8
"""llama.cpp itself stops at 4."""
MAX_TEXT = 16 << 20
"""Chat templates are up to about 100 kB."""
MAX_ALIGNMENT = 1 << 20
KEPT_BYTES = 1 << 16
"""Arrays up to this length are kept whatever they are for; longer ones only for the tokenizer."""
_MAX_KEY = 0xFFFF
_MIN_TENSOR = 32
_MIN_KEY = 13

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_SIZES = {kind: int(form[-1]) if form != "?" else 1 for kind, form in SCALARS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufTensor:
    """One tensor as the header describes it."""

    name: str
    type: GgmlType
    shape: tuple[int, ...]
    """With the longest stride first, as everyone else writes shapes; the file has the reverse order."""
    start: int
    """Offset of the first byte, from the very beginning of the file."""

    @property
    def width(self) -> int:
        """Numbers in one row."""
        return self.shape[-1]

    @property
    def n_rows(self) -> int:
        """Number of rows, over all axes but the last."""
        return math.prod(self.shape[:-1])

    @property
    def stop(self) -> int:
        """Offset just after the last byte."""
        return self.start + self.n_rows * self.type.row_bytes(self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What the beginning of one file says."""

    file: str
    metadata: Metadata
    tensors: tuple[GgufTensor, ...]


# Used for every key and tensor, of which there are thousands: made once.
_KEY, _VALUE_TYPE, _ARRAY_TYPE = say("part.a-key"), say("part.value-type"), say("part.array-type")
_TENSOR_NAME, _N_DIMENSIONS, _DIMENSION = (
    say("part.tensor-name"),
    say("part.n-dimensions"),
    say("part.dimension"),
)
_TYPE, _OFFSET = say("part.a-type"), say("part.offset")


class _Short(Exception):
    """The header continues beyond the bytes at hand."""


class _Cursor:
    """A position in the bytes, and the only ways to move on."""

    def __init__(self, data: bytes, file: str, file_size: int) -> None:
        self.data, self.file, self.file_size = data, file, file_size
        self.position = 0
        self.n_nested = 0

    def refused(self, problem: Message) -> HeaderError:
        return HeaderError(self.file, problem, hint=say("hint.damaged-or-harm"))

    def move(self, length: int, what: Message) -> int:
        """Skip some bytes; return where they begin."""
        start = self.position
        if length > self.file_size - start:
            left = self.file_size - start
            raise self.refused(say("problem.gguf-part-end", what=what, length=length, got=left))
        if length > len(self.data) - start:
            raise _Short
        self.position = start + length
        return start

    def u32(self, what: Message) -> int:
        return int(_U32.unpack_from(self.data, self.move(4, what))[0])

    def u64(self, what: Message) -> int:
        return int(_U64.unpack_from(self.data, self.move(8, what))[0])

    def text(self, what: Message, limit: int) -> str:
        length = self.u64(say("part.length-of", what=what))
        if length > limit:
            raise self.refused(say("problem.gguf-part-most", what=what, most=limit, got=length))
        start = self.move(length, what)
        return self.data[start : start + length].decode("utf-8", "replace")

    def count(self, what: Message, *, limit: int, each: int) -> int:
        """Read how many of something follow: no more than can be in the rest of the file."""
        found = self.u64(say("part.number-of", what=what))
        fitting = (self.file_size - self.position) // each
        if found > min(limit, fitting):
            raise self.refused(say("problem.gguf-count", most=min(limit, fitting), what=what, got=found))
        return found

    def skip_strings(self, count: int) -> None:
        """Skip strings. Each begins where the one before it ends, so they are walked one by one."""
        data, position, read = self.data, self.position, _U64.unpack_from
        try:
            for _ in range(count):
                position += 8 + read(data, position)[0]
            needed = position
        except (struct.error, OverflowError):
            needed = position + 8
        if needed > self.file_size:
            raise self.refused(say("problem.gguf-strings"))
        if needed > len(data):
            raise _Short
        self.position = position


def parse_header(data: bytes, *, file: str, file_size: int) -> GgufHeader | None:
    """Read the header from the first bytes of a file; None if it is longer than `data`.

    Nothing may lie beyond `file_size`. Raises `HeaderError` if the header breaks the rules of the format, and
    `UnsupportedFormat` for an old version, big-endian numbers, or a number type that cannot be read.
    """
    cursor = _Cursor(data, file, file_size)
    try:
        return _header(cursor)
    except _Short:
        if len(data) >= file_size:
            raise cursor.refused(say("problem.header-cut")) from None
        if len(data) >= MAX_HEADER_BYTES:
            raise cursor.refused(say("problem.header-most", most=MAX_HEADER_BYTES)) from None
        return None


def _header(cursor: _Cursor) -> GgufHeader:
    _check_beginning(cursor)
    n_tensors = cursor.count(say("part.tensors"), limit=MAX_TENSORS, each=_MIN_TENSOR)
    n_keys = cursor.count(say("part.keys"), limit=MAX_KEYS, each=_MIN_KEY)
    values: dict[str, Value] = {}
    for _ in range(n_keys):
        key = cursor.text(_KEY, limit=_MAX_KEY)
        if key in values:
            raise cursor.refused(say("problem.key-twice", key=quoted(key)))
        value = _value(cursor, key)
        if name_problem(key) is None:  # other keys mean nothing here or to llama.cpp, which accepts them
            values[key] = value
    alignment = _alignment(cursor, values.get("general.alignment", 32))
    described = [_described(cursor) for _ in range(n_tensors)]
    start = -(-cursor.position // alignment) * alignment
    tensors = tuple(_placed(cursor, item, start, alignment) for item in described)
    _check_apart(cursor, tensors)
    return GgufHeader(file=cursor.file, metadata=Metadata(values), tensors=tensors)


def _check_beginning(cursor: _Cursor) -> None:
    start = cursor.move(4, say("part.magic"))
    magic = cursor.data[start : start + 4]
    if magic != MAGIC:
        raise HeaderError(cursor.file, say("problem.gguf-magic", magic=repr(magic)))
    version = cursor.u32(say("part.version"))
    if version & 0xFFFF == 0:
        raise UnsupportedFormat(
            cursor.file,
            say("problem.gguf-endian"),
            hint=say("hint.endian"),
        )
    if version not in (2, 3):
        raise UnsupportedFormat(
            cursor.file,
            say("problem.gguf-version", version=version),
            hint=say("hint.llamacpp-again") if version == 1 else None,
        )


def _value(cursor: _Cursor, key: str) -> Value:
    kind = cursor.u32(_VALUE_TYPE)
    if kind == STRING:
        return cursor.text(say("part.value-of", key=quoted(key)), limit=MAX_TEXT)
    if kind == ARRAY:
        return _array(cursor, key)
    if kind not in SCALARS:
        raise cursor.refused(say("problem.gguf-value-type", key=quoted(key), got=kind))
    start = cursor.move(_SIZES[kind], say("part.value-of", key=quoted(key)))
    raw = cursor.data[start : cursor.position]
    number = np.frombuffer(raw, SCALARS[kind])[0]
    # The shortest number with this float32: 1e-06, not 9.999999974752427e-07.
    value: Value = float(str(number)) if SCALARS[kind] == "<f4" else number.item()
    return value


def _array(cursor: _Cursor, key: str) -> RawArray:
    kind, count, start = _skip_array(cursor, key, depth=0)
    keep = key.startswith("tokenizer.") or cursor.position - start <= KEPT_BYTES
    data = cursor.data[start : cursor.position] if keep else b""
    return RawArray(kind=kind, count=count, data=data)


def _skip_array(cursor: _Cursor, key: str, *, depth: int) -> tuple[int, int, int]:
    """Skip an array; return the type and number of its values, and where they begin."""
    if depth > MAX_DEPTH:
        raise cursor.refused(say("problem.gguf-nested", key=quoted(key), most=MAX_DEPTH))
    kind = cursor.u32(_ARRAY_TYPE)
    each = 8 if kind == STRING else 12 if kind == ARRAY else _SIZES.get(kind)
    if each is None:
        raise cursor.refused(say("problem.gguf-array-type", key=quoted(key), got=kind))
    count = cursor.count(say("part.values-of-key", key=quoted(key)), limit=MAX_HEADER_BYTES, each=each)
    start = cursor.position
    if kind == STRING:
        cursor.skip_strings(count)
    elif kind == ARRAY:
        cursor.n_nested += count
        if cursor.n_nested > MAX_NESTED:
            raise cursor.refused(say("problem.gguf-arrays", most=MAX_NESTED))
        for _ in range(count):
            _skip_array(cursor, key, depth=depth + 1)
    else:
        cursor.move(count * each, say("part.all-values", key=quoted(key)))
    return kind, count, start


def _alignment(cursor: _Cursor, stated: Value) -> int:
    if type(stated) is int and 0 < stated <= MAX_ALIGNMENT and not stated & (stated - 1):
        return stated
    shown = stated if isinstance(stated, int) else type(stated).__name__
    raise cursor.refused(say("problem.gguf-alignment", most=MAX_ALIGNMENT, got=shown))


def _described(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    name = cursor.text(_TENSOR_NAME, limit=4096)
    if problem := name_problem(name):
        raise cursor.refused(say("problem.tensor-name", name=quoted(name), problem=problem))
    n_dimensions = cursor.u32(_N_DIMENSIONS)
    if n_dimensions > MAX_DIMENSIONS:
        raise cursor.refused(
            say("problem.gguf-dimensions", name=quoted(name), most=MAX_DIMENSIONS, got=n_dimensions)
        )
    dimensions = [cursor.u64(_DIMENSION) for _ in range(n_dimensions)]
    return name, tuple(reversed(dimensions)) or (1,), cursor.u32(_TYPE), cursor.u64(_OFFSET)


def _placed(
    cursor: _Cursor, item: tuple[str, tuple[int, ...], int, int], data_start: int, alignment: int
) -> GgufTensor:
    name, shape, number, offset = item
    kind = TYPES.get(number)
    if kind is None:
        raise _unknown_type(cursor.file, name, number)
    if 0 in shape or math.prod(shape) >= 1 << 60:
        raise cursor.refused(say("problem.tensor-shape", name=quoted(name), shape=_shown(shape)))
    if shape[-1] % kind.block:
        raise cursor.refused(
            say(
                "problem.gguf-blocks", name=quoted(name), block=kind.block, kind=kind.name, got=str(shape[-1])
            )
        )
    if offset % alignment:
        raise cursor.refused(
            say("problem.gguf-offset", name=quoted(name), offset=offset, alignment=alignment)
        )
    tensor = GgufTensor(name=name, type=kind, shape=shape, start=data_start + offset)
    if tensor.stop > cursor.file_size:
        raise HeaderError(
            cursor.file,
            say("problem.gguf-end", name=quoted(name), stop=tensor.stop, file_size=cursor.file_size),
            hint=say("hint.incomplete-file"),
        )
    return tensor


def _unknown_type(file: str, name: str, number: int) -> FormatError:
    what = f"{UNREAD[number]} ({number})" if number in UNREAD else str(number)
    return UnsupportedFormat(
        file,
        say("problem.gguf-type", name=quoted(name), kind=what),
        hint=say("hint.another-type"),
    )


def _check_apart(cursor: _Cursor, tensors: tuple[GgufTensor, ...]) -> None:
    if len({tensor.name for tensor in tensors}) != len(tensors):
        raise cursor.refused(say("problem.same-name"))
    for before, after in pairwise(sorted(tensors, key=lambda tensor: tensor.start)):
        if before.stop > after.start:
            raise cursor.refused(
                say("problem.tensors-overlap", name=quoted(before.name), other=quoted(after.name))
            )


def _shown(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
