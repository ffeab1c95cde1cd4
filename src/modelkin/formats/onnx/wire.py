"""Fields of protobuf messages, walked over in a file without reading what is not needed.

Nothing here knows ONNX. Every length is checked against the message it lies in, so a walk ends, and the
number of fields is bounded, so it ends soon. The weights of an ONNX file lie between the fields that describe
them, so the walk hops over most of the file. On a disk a hop costs nothing. Over a network each costs a round
trip, and only then is it known where the next one lands. But layers repeat: once two have been seen, the next
hops are predicted and read at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import cycle, islice, pairwise
from typing import NamedTuple, NoReturn

from modelkin.errors import HeaderError
from modelkin.message import Message, say
from modelkin.source import ByteRange, Fetcher, FileInfo

MAX_READ = 256 << 20
"""Of descriptions, over all windows. The graphs of the largest public models have about 10 MB."""
HOP_BYTES = 8 << 10
"""Read where a hop lands: enough for the description of a weight and some small ones after it."""
NEAR = 64 << 10
"""A remote weight of at most this many bytes is read along rather than hopped over."""
WHOLE_SHARE = 8
"""A remote file of at most this many first reads is read whole: hops would cost more than they save."""

_MOST_BYTES = 4 << 20
_SLACK = 512
"""Predicted offsets are off by some bytes: names of layers with more digits are longer."""
_TOLERANCE = 32
_LONGEST = 64
_FORESEEN = 31

_Piece = tuple[ByteRange, memoryview]


class Window:
    """Some bytes of one file; `head_bytes` are read of a remote file first."""

    def __init__(self, fetcher: Fetcher, info: FileInfo, *, head_bytes: int) -> None:
        self.file = info.name
        self.size = info.size
        self.data = memoryview(b"")
        """What is in memory now."""
        self.start = 0
        """Where it begins in the file."""
        self.stop = 0
        self._fetcher = fetcher
        self._remote = fetcher.source.remote
        self._step = head_bytes if self._remote else HOP_BYTES
        if self._remote and info.size <= WHOLE_SHARE * head_bytes:
            self._step = info.size
        self._n_read = 0
        self._hops: list[int] = []
        self._ahead: list[_Piece] = []

    def load(self, position: int, length: int) -> None:
        """Move the window so that it covers these bytes, which lie in the file."""
        if self.start <= position and position + length <= self.stop:
            return
        piece = self._foreseen(position, length) or self._read(position, length)
        extent, self.data = piece
        self.start, self.stop = extent.start, extent.stop

    def bytes_of(self, start: int, stop: int) -> bytes:
        """Return some bytes of the file."""
        if start == stop:
            return b""
        self.load(start, stop - start)
        return bytes(self.data[start - self.start : stop - self.start])

    def _foreseen(self, position: int, length: int) -> _Piece | None:
        """Return a piece that was read ahead, and drop earlier ones."""
        wanted = ByteRange(position, position + length)
        for number, (extent, data) in enumerate(self._ahead):
            if extent.contains(wanted):
                self._hops.append(position)
                self._step = 2 * HOP_BYTES
                del self._ahead[: number + 1]
                return extent, data
        return None

    def _read(self, position: int, length: int) -> _Piece:
        # A window may end within a field, or before a small weight: that is walking on, not hopping.
        walking = self.start <= position <= self.stop + (NEAR if self._remote else 0)
        if walking:
            ranges = [self._range(position, max(length, self._step))]
            self._step = min(2 * self._step, _MOST_BYTES)
        else:
            self._hops.append(position)
            self._step = 2 * HOP_BYTES
            ranges = [self._range(position, max(length, HOP_BYTES))]
            if self._remote:
                ranges += self._next_hops()
        self._n_read += sum(item.length for item in ranges)
        if self._n_read > MAX_READ:
            raise HeaderError(
                self.file,
                say("problem.onnx-graph-size", n=MAX_READ >> 20),
                hint=say("hint.waste"),
            )
        fetched = self._fetcher.fetch({self.file: ranges}, task=say("step-headers"))
        pieces = [(item, fetched.view(self.file, item)) for item in ranges]
        self._ahead = pieces[1:]
        return pieces[0]

    def _range(self, start: int, length: int) -> ByteRange:
        return ByteRange(start, min(start + length, self.size))

    def _next_hops(self) -> list[ByteRange]:
        """Predict where the next hops land: as after the longest earlier stretch like the last ones."""
        steps = [right - left for left, right in pairwise(self._hops)]
        after = _earlier(steps)
        if after is None:
            return []
        ranges: list[ByteRange] = []
        position = self._hops[-1]
        for step in islice(cycle(steps[after:]), _FORESEEN):
            position += step
            if position + HOP_BYTES > self.size:
                break
            ranges.append(self._range(position - _SLACK, HOP_BYTES + _SLACK))
        return ranges


def _earlier(steps: list[int]) -> int | None:
    """Return the number of the step that followed an earlier run of the last steps; None if there was none.

    The longest repetition counts, and of several the first: a layer has equal matrices one after another,
    and the first of them is followed by the others.
    """
    best, found = 0, None
    for stop in range(1, len(steps)):
        length = 0
        while (
            length < min(stop, _LONGEST) and abs(steps[stop - 1 - length] - steps[-1 - length]) <= _TOLERANCE
        ):
            length += 1
        if length > best:
            best, found = length, stop
    return found


VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_FIELDS = 8_000_000
"""Per file. A graph of 100,000 operators has about two million."""
MAX_TEXT = 4096
"""Bytes of a name; the longest in public graphs have some hundreds."""

_MAX_VARINT = 10
_MAX_KEY = (1 << 32) - 1
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

    def fail(self, problem: Message, *, hint: Message | None = None) -> NoReturn:
        """Refuse the file."""
        raise HeaderError(self.file, problem, hint=hint or say("hint.no-onnx"))

    def fields(self, start: int, stop: int, kinds: Mapping[int, tuple[int, ...]]) -> Iterator[Field]:
        """Yield the fields of the message between `start` and `stop`, each read on demand.

        `kinds` has the wire types that each known field may have.
        """
        position = start
        while position < stop:
            self._left -= 1
            if self._left < 0:
                self.fail(say("problem.onnx-fields", most=MAX_FIELDS))
            key, position = self._varint(position, stop)
            number, wire = key >> 3, key & 7
            begin, value = position, 0
            if key > _MAX_KEY:  # protobuf cuts off the higher bits, and sees another field
                self.fail(say("problem.onnx-no-field", start=begin, number=number))
            if (known := kinds.get(number)) is not None and wire not in known:
                self.fail(
                    say("problem.onnx-wire-type", number=number, start=begin, wire=wire, known=known[0])
                )
            if wire == BYTES:
                length, begin = self._varint(position, stop)
                position = begin + length
            elif wire == VARINT:
                value, position = self._varint(position, stop)
            elif wire in (FIXED32, FIXED64):
                position += 4 if wire == FIXED32 else 8
            else:
                self.fail(say("problem.onnx-field-wire", start=begin, wire=wire))
            if not number:
                self.fail(say("problem.onnx-field-zero", start=begin))
            if position > stop:
                self.fail(say("problem.onnx-field-end", start=begin, end=position, stop=stop))
            yield Field(number, wire, value, begin, position)

    def text(self, field: Field, what: Message) -> str:
        """Return a short text."""
        length = field.stop - field.start
        if field.wire != BYTES:
            self.fail(say("problem.onnx-text", what=what, start=field.start, wire=field.wire))
        if length > MAX_TEXT:
            self.fail(
                say("problem.onnx-text-long", what=what, start=field.start, length=length, most=MAX_TEXT)
            )
        data = self._window.bytes_of(field.start, field.stop)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            self.fail(say("problem.onnx-not-utf8", what=what, start=field.start))

    def data(self, field: Field) -> bytes:
        """Return the bytes of a field that the caller knows to be short."""
        return self._window.bytes_of(field.start, field.stop)

    def integers(self, field: Field, *, limit: int, what: Message) -> list[int]:
        """Return the signed integers of a field: one, or several packed ones."""
        if field.wire == VARINT:
            return [signed(field.value)]
        if field.wire != BYTES:
            self.fail(say("problem.onnx-integers", what=what, start=field.start, wire=field.wire))
        if field.stop - field.start > limit * _MAX_VARINT:
            self.fail(say("problem.onnx-numbers", what=what, start=field.start, most=limit))
        values: list[int] = []
        position = field.start
        while position < field.stop:
            value, position = self._varint(position, field.stop)
            values.append(signed(value))
        return values

    def _varint(self, position: int, stop: int) -> tuple[int, int]:
        window = self._window
        if position >= stop:
            self.fail(say("problem.onnx-number-missing", position=position))
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
        return self.fail(say("problem.onnx-long-number", position=position, most=most))


def signed(value: int) -> int:
    """Return a varint as the signed 64-bit integer it stands for."""
    return value - (1 << 64) if value >> 63 else value
