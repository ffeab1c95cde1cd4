"""One view of everything a test server can serve: bytes, a path on disk, a virtual file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ._virtual_file import VirtualFile

Servable = bytes | Path | VirtualFile
"""What the contents of a served file can be given as."""

_PIECE = 1 << 20
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True, slots=True)
class Contents:
    """A file as a server sees it."""

    source: Servable
    size: int
    sha256: str
    git_sha1: str
    """What git calls the file: digest of the blob; of a virtual file, a digest of its fields."""

    def pieces(self, start: int, stop: int) -> Iterator[bytes | memoryview]:
        """Yield the bytes from `start` to before `stop`."""
        match self.source:
            case VirtualFile():
                yield from self.source.pieces(start, stop)
            case bytes():
                yield memoryview(self.source)[start:stop]
            case Path():
                with self.source.open("rb") as file:
                    file.seek(start)
                    while start < stop and (piece := file.read(min(_PIECE, stop - start))):
                        start += len(piece)
                        yield piece


def contents(source: Servable) -> Contents:
    """Return the view of a file. A path is read once, for its digests."""
    match source:
        case VirtualFile():
            sha256 = source.sha256
            source.read(source.size - 1, source.size)  # makes its block now, so that no request pays for it
            return Contents(source, source.size, sha256, _sha1(sha256.encode()))
        case bytes():
            return Contents(
                source,
                len(source),
                hashlib.sha256(source).hexdigest(),
                _sha1(_blob_head(len(source)), source),
            )
        case Path():
            size = source.stat().st_size
            whole, blob = hashlib.sha256(), hashlib.sha1(_blob_head(size), usedforsecurity=False)
            with source.open("rb") as file:
                while piece := file.read(_PIECE):
                    whole.update(piece)
                    blob.update(piece)
            return Contents(source, size, whole.hexdigest(), blob.hexdigest())


class Unsatisfiable(Exception):
    """A range that begins behind the end of the file."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """Return first and one-past-last byte of a ``Range`` header.

    None means that the whole file is to be sent: without a header, and with one that is malformed or names
    several ranges, as object stores do.
    """
    match = _RANGE.fullmatch(header.replace(" ", "")) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= stop:
        raise Unsatisfiable
    return start, stop


def _blob_head(size: int) -> bytes:
    return f"blob {size}\0".encode()


def _sha1(*parts: bytes) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
