"""The weights of Whisper in the files of whisper.cpp (ggml) and CTranslate2: names and numbers as stored."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class _Cursor:
    """Little-endian values, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def at_end(self) -> bool:
        return self.position == len(self.data)

    def integers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))

    def integer(self, form: str) -> int:
        (value,) = self.integers(form)
        return value

    def take(self, n_bytes: int) -> bytes:
        taken = self.data[self.position : self.position + n_bytes]
        assert len(taken) == n_bytes, "the file ends too early"
        self.position += n_bytes
        return taken


# -- ggml ----------------------------------------------------------------------------------------------

_GGML_MAGIC = 0x67676D6C
_GGML_DTYPES: dict[int, np.dtype[Any]] = {0: np.dtype("<f4"), 1: np.dtype("<f2")}
_GGML_SIZES = (
    *("vocab", "audio_positions", "audio_width", "audio_heads", "audio_layers"),
    *("text_positions", "text_width", "text_heads", "text_layers", "mel_bins", "format"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ggml:
    """A model of whisper.cpp."""

    sizes: dict[str, int]
    tokens: tuple[bytes, ...]
    """The text of each row, without the special tokens at the end."""
    tensors: dict[str, Array]


def read_ggml(data: bytes) -> Ggml:
    """Read a model of whisper.cpp, before GGUF: header, mel filters, tokens, tensors."""
    cursor = _Cursor(data)
    magic, *sizes = cursor.integers("12i")
    assert magic == _GGML_MAGIC, "not a ggml file"
    n_mel, n_fft = cursor.integers("2i")
    cursor.take(4 * n_mel * n_fft)
    tokens = tuple(cursor.take(cursor.integer("I")) for _ in range(cursor.integer("I")))
    tensors: dict[str, Array] = {}
    while not cursor.at_end:
        n_axes, name_length, dtype = cursor.integers("3i")
        shape = cursor.integers(f"{n_axes}i")[::-1]
        name = cursor.take(name_length).decode()
        tensors[name] = _array(cursor, shape, _GGML_DTYPES[dtype])
    return Ggml(sizes=dict(zip(_GGML_SIZES, sizes, strict=True)), tokens=tokens, tensors=tensors)


# -- CTranslate2 ---------------------------------------------------------------------------------------

_CT2_VERSION = 6
_CT2_DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype("i1"), 2: np.dtype("<i2"), 4: np.dtype("<f2")}


def read_ctranslate2(data: bytes) -> dict[str, Array]:
    """Read ``model.bin`` of CTranslate2. Scalars are settings; they come as arrays without axes."""
    cursor = _Cursor(data)
    assert cursor.integer("I") == _CT2_VERSION, "another version of the format"
    assert _ct2_text(cursor) == "WhisperSpec"
    cursor.integer("I")  # revision of the specification
    tensors: dict[str, Array] = {}
    for _ in range(cursor.integer("I")):
        name = _ct2_text(cursor)
        shape = cursor.integers(f"{cursor.integer('B')}I")
        dtype, n_bytes = _CT2_DTYPES[cursor.integer("B")], cursor.integer("I")
        tensors[name] = _array(cursor, shape, dtype)
        assert tensors[name].nbytes == n_bytes, f"{name}: {n_bytes} bytes do not fit {shape}"
    for _ in range(cursor.integer("I")):
        alias, name = _ct2_text(cursor), _ct2_text(cursor)
        assert (alias, name) == ("decoder/projection/weight", "decoder/embeddings/weight")
    assert cursor.at_end
    return tensors


def _ct2_text(cursor: _Cursor) -> str:
    return cursor.take(cursor.integer("H")).removesuffix(b"\0").decode()


def _array(cursor: _Cursor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return np.frombuffer(cursor.take(n_bytes), dtype).reshape(shape)
