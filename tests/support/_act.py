"""A request that is to go wrong, and the means to spoil a right answer to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ._answer import Answer, send_answer
from ._contents import Contents, Unsatisfiable, parse_range
from ._loopback import Connection, Request, head
from ._request_log import LogEntry, RequestLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A request that is to go wrong, and the means to do it."""

    connection: Connection
    request: Request
    file: Contents
    log: RequestLog
    main: str
    other: str
    retry_after: int
    turn: int
    """How many requests went wrong before this one."""

    def wanted(self) -> tuple[int, int]:
        """Return first and one-past-last byte of a right answer."""
        try:
            return parse_range(self.request.headers.get("range"), self.file.size) or (0, self.file.size)
        except Unsatisfiable:
            return 0, self.file.size

    def good(self) -> tuple[int, dict[str, str]]:
        """Return status and headers of a right answer, to be spoiled."""
        start, stop = self.wanted()
        headers = {
            "Accept-Ranges": "bytes",
            "ETag": f'"{self.file.sha256}"',
            "Content-Length": str(stop - start),
        }
        if "range" not in self.request.headers:
            return 200, headers
        return 206, {**headers, "Content-Range": f"bytes {start}-{stop - 1}/{self.file.size}"}

    def begin(self, status: int) -> LogEntry:
        """Put the request into the log."""
        entry = LogEntry(
            origin="main",
            method=self.request.method,
            path=self.request.target,
            headers=self.request.headers,
            connection=self.connection.number,
        )
        entry.status = status
        self.log.add(entry)
        return entry

    def send(self, status: int, headers: Mapping[str, str], pieces: Iterator[bytes | memoryview]) -> None:
        """Log the request and send exactly this; the body only where the method has one."""
        entry = self.begin(status)
        self.connection.send_raw(head(status, headers))
        if self.request.method != "HEAD":
            self.connection.send_body(pieces, entry)

    def half(self) -> Iterator[bytes | memoryview]:
        """Yield the first half of what was asked for."""
        start, stop = self.wanted()
        return self.file.pieces(start, start + (stop - start) // 2)

    def answer(self, answer: Answer) -> bool:
        """Log and send an answer that is well-formed."""
        return send_answer(answer, self.connection, self.request, origin="main", log=self.log)
