"""What a well-behaved server says: files of any kind, and ranges of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .drawn import DrawnFile
from .loopback import Connection, LogEntry, Origin, Request, RequestLog, head
from .models import VirtualFile

_SMALL = 1 << 16  # bytes that are worth copying to save a packet


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Status, headers and body. ``Content-Length`` is added when it is sent."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Iterable[bytes | memoryview] = ()
    length: int = 0


def text_answer(status: int, text: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer with a plain text body."""
    body = text.encode()
    headers = {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}
    return Answer(status=status, headers=headers, body=[body], length=len(body))


def json_answer(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer with a JSON body."""
    body = json.dumps(value).encode()
    headers = {"Content-Type": "application/json; charset=utf-8", **(headers or {})}
    return Answer(status=status, headers=headers, body=[body], length=len(body))


def file_answer(
    file: Contents, request: Request, *, etag: str, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return 200, 206, 412 or 416 for a request of a file, as an object store would.

    ``If-Match`` and ``If-Range`` are honoured; several ranges at once are answered with the whole file.
    """
    shown = {
        "Accept-Ranges": "bytes",
        "ETag": etag,
        "Content-Type": "application/octet-stream",
        **(headers or {}),
    }
    if request.headers.get("if-match", etag) not in (etag, "*"):
        return Answer(status=412, headers=shown)
    asked = request.headers.get("range")
    if request.headers.get("if-range", etag) != etag:
        asked = None
    try:
        wanted = parse_range(asked, file.size)
    except Unsatisfiable:
        return Answer(status=416, headers={**shown, "Content-Range": f"bytes */{file.size}"})
    start, stop = wanted or (0, file.size)
    if wanted is not None:
        shown["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    return Answer(
        status=200 if wanted is None else 206,
        headers=shown,
        body=file.pieces(start, stop),
        length=stop - start,
    )


def send_answer(
    answer: Answer,
    connection: Connection,
    request: Request,
    *,
    origin: Origin,
    log: RequestLog | None,
    bandwidth: float | None = None,
) -> bool:
    """Send an answer and put it into the log. The connection stays usable."""
    entry = LogEntry(
        origin=origin,
        method=request.method,
        path=request.target,
        headers=request.headers,
        connection=connection.number,
    )
    entry.status = answer.status
    if log is not None:
        log.add(entry)
    start = head(answer.status, {**answer.headers, "Content-Length": str(answer.length)})
    if request.method == "HEAD":
        connection.send_raw(start)
    elif answer.length <= _SMALL and bandwidth is None:
        connection.send_small(start, b"".join(answer.body), entry)
    else:
        connection.send_raw(start)
        connection.send_body(answer.body, entry, bandwidth)
    return True


Servable = bytes | Path | VirtualFile | DrawnFile
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
            case VirtualFile() | DrawnFile():
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
        case VirtualFile() | DrawnFile():
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
