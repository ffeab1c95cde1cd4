"""Files with headers between their data: each says where the next one is, so the file is walked through.

Over a network that would be one request per tensor. Layers repeat, so what follows one tensor of a kind
follows the next one at the same distance: the headers of a whole stretch are requested together, and those
that turn out to be elsewhere are requested again.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Any

from modelkin.errors import HeaderError
from modelkin.message import Message, say
from modelkin.source import ByteRange, Fetched, Fetcher
from modelkin.untrusted import MAX_NAME_LENGTH, name_problem, quoted

REMOTE_WINDOW = 4096
"""Bytes read around a place where a header is expected: over a network a few more cost nothing."""
LOCAL_WINDOW = 512
"""Enough for a header, even if it is a few bytes off."""
MAX_TENSORS = 100_000
"""The largest public models have some tens of thousands."""
MAX_AXES = 8

_LOOK_AHEAD = 256
_LAYER = re.compile(r"[0-9]+")
"""The first number of a name is that of its layer."""


@dataclass(slots=True)
class Forward:
    """A file read front to back in small windows; skipped bytes are not read."""

    fetcher: Fetcher
    file: str
    position: int = 0
    size: int = field(init=False)
    _window: int = field(init=False)
    _read: list[tuple[ByteRange, Fetched]] = field(init=False, default_factory=list)
    _after: dict[str, tuple[str, int]] = field(init=False, default_factory=dict)
    _last: tuple[str, int] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.size = self.fetcher.source.need(self.file).size
        self._window = REMOTE_WINDOW if self.fetcher.source.remote else LOCAL_WINDOW

    @property
    def left(self) -> int:
        """Bytes from here to the end."""
        return self.size - self.position

    def skip(self, n_bytes: int, what: Message) -> ByteRange:
        """Skip bytes and return where they are."""
        if n_bytes > self.left:
            raise HeaderError(
                self.file,
                say("problem.part-bytes", what=what, n=n_bytes, position=self.position, left=self.left),
                hint=say("hint.other-format"),
            )
        start, self.position = self.position, self.position + n_bytes
        return ByteRange(start, self.position)

    def take(self, n_bytes: int, what: Message) -> bytes:
        """Return the next bytes."""
        wanted = self.skip(n_bytes, what)
        if not n_bytes:
            return b""
        for extent, fetched in self._read:
            if extent.start <= wanted.start and wanted.stop <= extent.stop:
                return bytes(fetched.view(self.file, wanted))
        self._fetch(wanted.start, max(n_bytes, self._window))
        return bytes(self._read[0][1].view(self.file, wanted))

    def peek(self, n_bytes: int) -> bytes:
        """Return the next bytes without consuming them; fewer at the end of the file."""
        position = self.position
        data = self.take(min(n_bytes, self.left), say("part.next-bytes"))
        self.position = position
        return data

    def numbers(self, form: str, what: Message) -> tuple[Any, ...]:
        """Return the next numbers, of a `struct` format in little-endian order."""
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}"), what))

    def number(self, form: str, what: Message) -> int:
        """Return the next integer."""
        return int(self.numbers(form, what)[0])

    def text(self, n_bytes: int, what: Message) -> str:
        """Return the next bytes as a name that can be shown."""
        if not 0 <= n_bytes <= MAX_NAME_LENGTH:
            raise HeaderError(
                self.file, say("problem.part-name", what=what, most=MAX_NAME_LENGTH, got=n_bytes)
            )
        data = self.take(n_bytes, what)
        try:
            name = data.decode()
        except UnicodeDecodeError as error:
            raise HeaderError(self.file, say("problem.part-utf8", what=what, got=repr(data[:40]))) from error
        if problem := name_problem(name):
            raise HeaderError(
                self.file, say("problem.part-name-problem", what=what, name=quoted(name), problem=problem)
            )
        return name

    def seen(self, name: str, start: int) -> None:
        """Record that a tensor of this name has its header at `start`, to predict the next of its kind."""
        kind = _LAYER.sub("#", name, count=1)
        if self._last is not None:
            self._after[self._last[0]] = kind, start - self._last[1]
        self._last = kind, start

    def _fetch(self, start: int, length: int) -> None:
        """Read a stretch, together with the windows where the next headers should be."""
        here = ByteRange(start, min(start + length, self.size))
        places = [here, *(ByteRange(at, min(at + LOCAL_WINDOW, self.size)) for at in self._expected())]
        fetched = self.fetcher.fetch({self.file: places}, task=say("step-headers"))
        self._read = [(place, fetched) for place in places]

    def _expected(self) -> list[int]:
        """Return where the next headers begin if everything repeats."""
        if self._last is None or not self.fetcher.source.remote:
            return []
        places: list[int] = []
        kind, start = self._last
        while len(places) < _LOOK_AHEAD and kind in self._after:
            kind, distance = self._after[kind]
            start += distance
            if start >= self.size:
                break
            places.append(start)
        return places
