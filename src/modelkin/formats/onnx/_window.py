"""The part of a file that is in memory while its fields are walked over, moved by as few reads as it can be.

The weights of an ONNX file lie between the fields that describe them, so the walk hops over most of the file.
On a disk a hop costs nothing. Over a network each costs a round trip, and where the next one lands is known
only after it. But layers repeat: once two of them were seen, the next hops are foreseen and read at once.
"""

from __future__ import annotations

from itertools import cycle, islice, pairwise

from modelkin.errors import HeaderError
from modelkin.source import ByteRange, Fetcher, FileInfo

MAX_READ = 256 << 20
"""Of descriptions, over all windows. The graphs of the largest public models have some 10 MB."""
HOP_BYTES = 8 << 10
"""Read where a hop lands: enough for the description of a weight and some small ones after it."""
NEAR = 64 << 10
"""A remote weight of at most this many bytes is no reason to hop."""
WHOLE_SHARE = 8
"""A remote file of at most this many first reads is read whole: hops would cost more than they save."""

_MOST_BYTES = 4 << 20
_SLACK = 512
"""Foreseen places are off by some bytes: names of layers with more digits are longer."""
_TOLERANCE = 32
_LONGEST = 64
_FORESEEN = 31

_Piece = tuple[ByteRange, memoryview]


class Window:
    """Some bytes of one file.

    Parameters
    ----------
    fetcher, info
        Read it.
    head_bytes
        First read of a remote file.
    """

    def __init__(self, fetcher: Fetcher, info: FileInfo, *, head_bytes: int) -> None:
        self.file = info.name
        self.size = info.size
        self.data = memoryview(b"")
        """What is in memory now."""
        self.start = 0
        """Where that begins in the file."""
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
        """Move the window so that it holds these bytes, which lie in the file."""
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
        """Return a piece that was read ahead, and drop those before it."""
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
                f"its graph takes more than {MAX_READ >> 20} MiB beside the weights",
                hint="No model needs that; the file is damaged, or made to waste memory.",
            )
        fetched = self._fetcher.fetch({self.file: ranges}, task="reading headers")
        pieces = [(item, fetched.view(self.file, item)) for item in ranges]
        self._ahead = pieces[1:]
        return pieces[0]

    def _range(self, start: int, length: int) -> ByteRange:
        return ByteRange(start, min(start + length, self.size))

    def _next_hops(self) -> list[ByteRange]:
        """Foresee where the next hops land: as after the longest stretch of hops like the last ones."""
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
    """Return the number of the step that followed when the last steps were made before; None if never.

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
