"""Published digests, checked as soon as every byte of a file has been read."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

from modelkin.errors import WrongBytes
from modelkin.message import say
from modelkin.options import MIB

from .interface import FileInfo
from .ranges import ByteRange

_MOST_HELD = 16 * MIB
"""Total bytes kept because they were read before the bytes that precede them."""
_LARGEST_HELD = 4 * MIB
"""Nothing is kept of larger files: they are checked only when read from beginning to end."""


class WholeFiles:
    """Tracks what is read of each file, and checks files that were read whole. Thread-safe.

    A digest needs its bytes in order. Files are mostly read that way: small ones at once, large ones in a
    walk.
    """

    def __init__(self) -> None:
        self._files: dict[str, _RunningDigest] = {}
        self._held = 0
        self._lock = threading.Lock()

    def add(self, file: FileInfo, pieces: Sequence[tuple[ByteRange, memoryview]]) -> bool:
        """Add bytes; return whether the file is now known to be as published.

        Raises `WrongBytes` if it was read whole, and is not what its source says it is.
        """
        if file.sha256 is None and file.git_sha1 is None:
            return False
        with self._lock:
            progress = self._files.setdefault(file.name, _RunningDigest(file))
            if progress.found is None:
                self._follow(progress, pieces)
            found = progress.found
        if found is None:
            return False
        if found != progress.published:
            raise WrongBytes(
                file.name,
                say(
                    "problem.digest-differs",
                    size=file.size,
                    kind=progress.kind,
                    found=found,
                    published=progress.published,
                ),
                hint=say("hint.changed-on-way"),
            )
        return True

    def _follow(self, progress: _RunningDigest, pieces: Sequence[tuple[ByteRange, memoryview]]) -> None:
        for extent, data in pieces:
            if not progress.take(extent, data) and self._may_hold(progress, extent):
                progress.held[extent] = bytes(data)
                self._held += extent.length
        for extent in sorted(progress.held):
            if progress.position >= extent.start:
                self._held -= extent.length
                progress.take(extent, memoryview(progress.held.pop(extent)))
        progress.finish()

    def _may_hold(self, progress: _RunningDigest, extent: ByteRange) -> bool:
        if progress.file.size > _LARGEST_HELD or extent in progress.held or extent.stop <= progress.position:
            return False
        return self._held + extent.length <= _MOST_HELD


class _RunningDigest:
    """How far the digest of one file has come."""

    def __init__(self, file: FileInfo) -> None:
        self.file = file
        self.position = 0
        self.held: dict[ByteRange, bytes] = {}
        self.found: str | None = None
        if file.sha256 is not None:
            self.kind, self.published = "SHA-256", file.sha256
            self._digest = hashlib.sha256()
        else:
            self.kind, self.published = "git blob id", file.git_sha1 or ""
            self._digest = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)

    def take(self, extent: ByteRange, data: memoryview) -> bool:
        """Extend the digest if these bytes come next; return whether they did, or were seen already."""
        if extent.start > self.position:
            return False
        if extent.stop > self.position:
            self._digest.update(data[self.position - extent.start :])
            self.position = extent.stop
        return True

    def finish(self) -> None:
        """Close the digest when every byte is in it."""
        if self.position >= self.file.size:
            self.found = self._digest.hexdigest()
            self.held.clear()
