"""Weights in the files of whisper.cpp, before GGUF: sizes, mel filters, tokens, then tensor after tensor."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final, final

from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.message import Message, say
from modelkin.source import FileInfo
from modelkin.tensors import TensorIndex, TensorInfo
from modelkin.untrusted import quoted

from ._forward import MAX_TENSORS, Forward
from .gguf import TYPES, BlockRows, GgmlType, PickedRows, Straight
from .interface import Request, Weights
from .whisper_names import whisper_config, whisper_name

MAGIC: Final = b"lmgg"
"""The number 0x67676d6c, "ggml", as it is in the file."""

_SIZES: Final = (
    *("n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer"),
    *("n_text_ctx", "n_text_state", "n_text_head", "n_text_layer", "n_mels", "ftype"),
)
_READ: Final = frozenset({0, 1, 30, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14})
"""F32, F16, BF16, and what whisper.cpp quantises to: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, and Q2_K to Q6_K."""
_MAX_FILTERS: Final = 1 << 24
_MAX_TOKENS: Final = 1 << 20
_MAX_TOKEN_BYTES: Final = 4096
_TOKENS_AT_ONCE: Final = 1 << 20
_TOKEN_BYTES: Final = 11
"""Of an average token, including the length before it."""
_BLOCKS_VERSION: Final = 2
"""Version of the layout of quantised blocks. Earlier ones lasted only weeks in 2023."""


@final
class GgmlFormat:
    """One file."""

    def choose(self, files: Mapping[str, FileInfo]) -> str | None:
        """Take a file that is named as whisper.cpp names its files; the largest of several."""
        names = [name for name in files if _is_ggml(name)]
        return max(names, key=lambda name: (files[name].size, name), default=None)

    def read(self, request: Request) -> Weights:
        """Walk through the file, and give its tensors the names of transformers."""
        reader = Forward(request.fetcher, request.entry)
        if (magic := reader.take(4, say("part.first-bytes"))) != MAGIC:
            raise UnsupportedFormat(
                reader.file,
                say("problem.whisper-magic", wanted=repr(MAGIC), got=repr(magic)),
                hint=say("hint.bin-others-ggml"),
            )
        sizes = dict(zip(_SIZES, reader.numbers(f"{len(_SIZES)}i", say("part.sizes")), strict=True))
        config = whisper_config(sizes)
        if config is None:
            raise UnsupportedFormat(
                reader.file,
                say("problem.whisper-sizes"),
                hint=say("hint.before-gguf"),
            )
        _skip_filters(reader)
        tokens = _tokens(reader)
        tensors = _tensors(reader, sizes["ftype"])
        others = [name for name in request.fetcher.source.files() if name != reader.file and _is_ggml(name)]
        return Weights(
            format="ggml",
            index=TensorIndex(tensors),
            config=config,
            files={"tokenizer.json": byte_level_tokenizer(tokens)} if tokens else {},
            notes=_notes(others),
        )


def _is_ggml(name: str) -> bool:
    return name.endswith(".bin") and "ggml" in name.rpartition("/")[2]


def _notes(others: Sequence[str]) -> tuple[Message, ...]:
    return (say("format.other-whisper", n=len(others)),) if others else ()


def _skip_filters(reader: Forward) -> None:
    n_mel, n_fft = reader.numbers("2i", say("part.mel-filters"))
    if min(n_mel, n_fft) < 0 or n_mel * n_fft > _MAX_FILTERS:
        raise HeaderError(reader.file, say("problem.mel-size", n=n_mel, m=n_fft))
    reader.skip(4 * n_mel * n_fft, say("part.mel-filters"))


def _tokens(reader: Forward) -> list[bytes]:
    """Read the texts of the first rows; the special tokens after them have none."""
    count = reader.number("i", say("part.n-tokens"))
    if not 0 <= count <= _MAX_TOKENS:
        raise HeaderError(reader.file, say("problem.tokens-count", most=_MAX_TOKENS, n_tokens=count))
    found: list[bytes] = []
    while len(found) < count:
        # Fifty thousand short texts: cut from long pieces, since reading them one by one takes a second.
        piece, at = (
            reader.peek(min(_TOKEN_BYTES * (count - len(found)) + _MAX_TOKEN_BYTES + 4, _TOKENS_AT_ONCE)),
            0,
        )
        while len(found) < count and at + 4 <= len(piece):
            length = int.from_bytes(piece[at : at + 4], "little")
            if length > _MAX_TOKEN_BYTES:
                problem = say("problem.token-bytes", most=_MAX_TOKEN_BYTES, got=length)
                raise HeaderError(reader.file, problem)
            if at + 4 + length > len(piece):
                break
            found.append(piece[at + 4 : at + 4 + length])
            at += 4 + length
        if not at:
            reader.skip(reader.left + 1, say("part.a-token"))
        reader.skip(at, say("part.tokens"))
    return found


def _tensors(reader: Forward, ftype: int) -> list[TensorInfo]:
    found: dict[str, TensorInfo] = {}
    while reader.left:
        if len(found) == MAX_TENSORS:
            raise HeaderError(reader.file, say("problem.tensors-more", most=MAX_TENSORS))
        info = _tensor(reader, ftype)
        if info.name in found:
            raise HeaderError(reader.file, say("problem.tensor-twice", name=quoted(info.name)))
        found[info.name] = info
    if not found:
        raise HeaderError(reader.file, say("problem.no-tensors-after"))
    return list(found.values())


def _tensor(reader: Forward, ftype: int) -> TensorInfo:
    begin = reader.position
    n_axes, length, kind = reader.numbers("3i", say("part.a-tensor"))
    if not 1 <= n_axes <= 4:
        raise HeaderError(reader.file, say("problem.tensor-axes", position=begin, got=str(n_axes)))
    axes = reader.numbers(f"{n_axes}i", say("part.tensor-shape"))
    stored = reader.text(length, say("part.name-of-tensor"))
    what = say("part.tensor", name=quoted(stored))
    if any(axis < 1 for axis in axes):
        raise HeaderError(reader.file, say("problem.part-sizes", what=what, got=str(axes)))
    # The fastest axis comes first, and the bias of a convolution is kept as one column.
    shape = axes[::-1]
    if len(shape) == 2 and shape[1] == 1:
        shape = shape[:1]
    reader.seen(stored, begin)
    name = whisper_name(stored)
    number = _type(reader.file, what, kind, ftype)
    if shape[-1] % number.block:
        raise HeaderError(
            reader.file, say("problem.part-blocks", what=what, n=str(shape[-1]), block=number.block)
        )
    n_lines = math.prod(shape[:-1])
    place = reader.skip(n_lines * number.row_bytes(shape[-1]), what)
    rows = BlockRows(file=reader.file, start=place.start, type=number, n_rows=n_lines, width=shape[-1])
    return TensorInfo(
        name=name,
        dtype=number.name,
        shape=shape,
        file=reader.file,
        start=place.start,
        stop=place.stop,
        storage=None if number.plain else PickedRows(parts=(rows,), order=Straight(), n_bytes=rows.n_bytes),
    )


def _type(file: str, what: Message, kind: int, ftype: int) -> GgmlType:
    if kind not in _READ:
        raise UnsupportedFormat(file, say("problem.part-ggml-type", what=what, kind=kind))
    found = TYPES[kind]
    if found.plain is None and ftype // 1000 < _BLOCKS_VERSION:
        raise UnsupportedFormat(
            file,
            say("problem.part-early", what=what, version=ftype // 1000),
            hint=say("hint.quantise-again"),
        )
    return found


def byte_level_tokenizer(tokens: Sequence[bytes]) -> bytes:
    """Write tokens that are given as bytes in the form of a ``tokenizer.json``; rows are their order.

    The file does not say how text is split, so there are no merges.
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in plain}
    letters |= {byte: chr(256 + n) for n, byte in enumerate(b for b in range(256) if b not in letters)}
    vocab = {"".join(letters[byte] for byte in token): row for row, token in enumerate(tokens) if token}
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    return json.dumps({"pre_tokenizer": {"type": "ByteLevel"}, "model": model}, ensure_ascii=False).encode()


FORMAT = GgmlFormat()
