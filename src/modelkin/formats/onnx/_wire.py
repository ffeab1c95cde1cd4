"""Fields of protobuf messages, walked over in a file without reading what is not looked at.

Nothing here knows ONNX. Every length is checked against the message it lies in, so a walk ends, and the
number of fields is bounded, so it ends soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from modelkin.errors import HeaderError

from ._window import Window

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_FIELDS = 8_000_000
"""Of one file. A graph of 100,000 operators has about two million."""
MAX_TEXT = 4096
"""Bytes of a name; the longest in public graphs have some hundred."""

_MAX_VARINT = 10
_WORD = (1 << 64) - 1


class Field(NamedTuple):
    """One field of a message."""

    number: int
    wire: int
    value: int
    """Of a varint; 0 for others."""
    start: int
    """Where its bytes begin in the file, without number and length."""
    stop: int


class Wire:
    """Walks over the fields of one file."""

    def __init__(self, window: Window) -> None:
        self.file = window.file
        self.size = window.size
        self._window = window
        self._left = MAX_FIELDS

    def fail(self, problem: str, *, hint: str | None = None) -> NoReturn:
        """Refuse the file."""
        raise HeaderError(self.file, problem, hint=hint or "The file is cut short, damaged, or not ONNX.")

    def fields(self, start: int, stop: int) -> Iterator[Field]:
        """Yield the fields of the message that lies there. The next one is read when it is asked for."""
        position = start
        while position < stop:
            self._left -= 1
            if self._left < 0:
                self.fail(f"has more than {MAX_FIELDS:,} fields")
            key, position = self._varint(position, stop)
            number, wire = key >> 3, key & 7
            begin, value = position, 0
            if wire == BYTES:
                length, begin = self._varint(position, stop)
                position = begin + length
            elif wire == VARINT:
                value, position = self._varint(position, stop)
            elif wire in (FIXED32, FIXED64):
                position += 4 if wire == FIXED32 else 8
            else:
                self.fail(f"expected a field at byte {begin}, got wire type {wire}")
            if not number:
                self.fail(f"expected a field at byte {begin}, got number 0")
            if position > stop:
                self.fail(
                    f"the field at byte {begin} claims to end at {position}, its message ends at {stop}"
                )
            yield Field(number, wire, value, begin, position)

    def text(self, field: Field, what: str) -> str:
        """Return a short text."""
        length = field.stop - field.start
        if field.wire != BYTES:
            self.fail(f"expected {what} as text at byte {field.start}, got wire type {field.wire}")
        if length > MAX_TEXT:
            self.fail(f"{what} at byte {field.start} has {length} bytes, more than {MAX_TEXT}")
        data = self._window.bytes_of(field.start, field.stop)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            self.fail(f"{what} at byte {field.start} is not UTF-8")

    def data(self, field: Field) -> bytes:
        """Return the bytes of a field, which the caller knows to be few."""
        return self._window.bytes_of(field.start, field.stop)

    def integers(self, field: Field, *, limit: int, what: str) -> list[int]:
        """Return the signed integers of a field: one, or several packed ones."""
        if field.wire == VARINT:
            return [signed(field.value)]
        if field.wire != BYTES:
            self.fail(f"expected {what} as integers at byte {field.start}, got wire type {field.wire}")
        if field.stop - field.start > limit * _MAX_VARINT:
            self.fail(f"{what} at byte {field.start} has more than {limit} numbers")
        values: list[int] = []
        position = field.start
        while position < field.stop:
            value, position = self._varint(position, field.stop)
            values.append(signed(value))
        return values

    def _varint(self, position: int, stop: int) -> tuple[int, int]:
        window = self._window
        if position >= stop:
            self.fail(f"a number is missing at byte {position}, where its message ends")
        if position < window.start or position + _MAX_VARINT > window.stop:
            window.load(position, min(_MAX_VARINT, stop - position))
        data, offset = window.data, position - window.start
        value = data[offset]
        if value < 0x80:
            return value, position + 1
        value &= 0x7F
        most = min(_MAX_VARINT, stop - position)
        for length in range(1, most):
            byte = data[offset + length]
            value |= (byte & 0x7F) << 7 * length
            if byte < 0x80:
                return value & _WORD, position + length + 1
        return self.fail(f"the number at byte {position} does not end after {most} bytes")


def signed(value: int) -> int:
    """Return a varint as the signed 64-bit integer it stands for."""
    return value - (1 << 64) if value >> 63 else value
