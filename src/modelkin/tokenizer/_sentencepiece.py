"""SentencePiece ``.model`` files: the few fields of the protobuf that say what the tokens are."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.errors import TokenizerError
from modelkin.message import say

from ._value import Tokenizer, TokenTable

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types of protocol buffers."""
_PIECES, _TRAINER = 1, 2
"""Field numbers of ModelProto."""
_PIECE, _TYPE = 1, 3
"""Field numbers of ModelProto.SentencePiece."""
_MODEL_TYPE = 3
"""Field number of TrainerSpec."""
_KINDS = {1: "Unigram", 2: "BPE", 3: "WordLevel", 4: "WordLevel"}
_UNKNOWN, _CONTROL, _BYTE = 2, 3, 6
"""Types of pieces that are no text, as sentencepiece_model.proto numbers them."""


def read_sentencepiece(file: str, data: bytes) -> Tokenizer:
    """Read a SentencePiece model; bytes that are none, or break its rules, are a `TokenizerError`."""
    table = TokenTable(file, byte_level=False)
    kind: str | None = None
    controls: dict[str, int] = {}
    number, falls_back = 0, False
    for field, wire, value in _fields(file, data):
        if field == _PIECES:
            piece, what = _piece(file, _message(file, wire, value))
            table.add_text(piece, number)
            if what in (_UNKNOWN, _CONTROL):
                controls[piece] = number
            falls_back |= what == _BYTE
            number += 1
        elif field == _TRAINER:
            kind = _kind(file, _message(file, wire, value))
    return table.tokenizer(
        form="sentencepiece",
        kind=kind or "Unigram",  # the default of the format
        added=controls,
        no_merges=say("no-merges-scores"),
        notes=() if falls_back else (say("no-byte-tokens"),),
    )


def _piece(file: str, data: bytes) -> tuple[str, int]:
    text, what = "", 1
    for field, wire, value in _fields(file, data):
        if field == _PIECE:
            try:
                text = _message(file, wire, value).decode("utf-8")
            except UnicodeDecodeError as error:
                raise TokenizerError(file, say("problem.spm-not-utf8")) from error
        elif field == _TYPE:
            what = _number(file, wire, value)
    return text, what


def _kind(file: str, data: bytes) -> str | None:
    for field, wire, value in _fields(file, data):
        if field == _MODEL_TYPE:
            return _KINDS.get(_number(file, wire, value))
    return None


def _message(file: str, wire: int, value: int | bytes) -> bytes:
    if wire != _BYTES or not isinstance(value, bytes):
        raise TokenizerError(file, say("problem.spm-no-text", wire=wire))
    return value


def _number(file: str, wire: int, value: int | bytes) -> int:
    if wire != _VARINT or not isinstance(value, int):
        raise TokenizerError(file, say("problem.spm-not-number", wire=wire))
    return value


def _fields(file: str, data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield (field number, wire type, value) of one message; nested messages stay bytes."""
    position = 0
    while position < len(data):
        key, position = _varint(file, data, position)
        field, wire = key >> 3, key & 7
        if not 0 < field < 1 << 29:
            raise TokenizerError(file, say("problem.spm-no-field", field=field, position=position))
        if wire == _VARINT:
            number, position = _varint(file, data, position)
            yield field, wire, number
            continue
        if wire == _BYTES:
            length, position = _varint(file, data, position)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise TokenizerError(file, say("problem.spm-no-type", wire=wire, position=position))
        if length > len(data) - position:
            raise TokenizerError(file, say("problem.spm-end", length=length, position=position))
        yield field, wire, data[position : position + length]
        position += length


def _varint(file: str, data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise TokenizerError(file, say("problem.spm-no-number", position=position))
