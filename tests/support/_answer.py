"""A well-behaved HTTP answer: what is said, and how a file answers a ranged request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ._contents import Contents, Unsatisfiable, parse_range
from ._loopback import Connection, Request, head
from ._request_log import LogEntry, Origin, RequestLog

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
