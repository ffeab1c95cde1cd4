"""The ways in which a server can misbehave. How each is done is elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, unique

from .answers import Answer, Contents, Unsatisfiable, parse_range, send_answer
from .loopback import Connection, LogEntry, Request, RequestLog, head


@unique
class Fault(Enum):
    """One misbehaviour of a `BadServer`."""

    NONE = "none"
    """Behaves well: the control of every experiment."""

    # Ranges that are not kept
    IGNORES_RANGE = "ignores-range"
    """Sends the whole file with 200 whatever was asked."""
    ENORMOUS_BODY = "enormous-body"
    """Sends 200 and one tebibyte of zeros, with a length."""
    ENDLESS_BODY = "endless-body"
    """Sends 200 and zeros without a length, until the client leaves."""
    SENDS_MULTIPART = "sends-multipart"
    """Answers one range with a ``multipart/byteranges`` of one part."""
    WRONG_CONTENT_RANGE = "wrong-content-range"
    """Right number of bytes, right bytes, but ``Content-Range`` begins one byte later."""
    WRONG_TOTAL = "wrong-total"
    """``Content-Range`` says that the file is one byte longer than it is."""
    OTHER_BYTES = "other-bytes"
    """Everything looks right, but the bytes are those one place further on."""
    NO_CONTENT_RANGE = "no-content-range"
    """Sends 206 without ``Content-Range``."""
    RANGE_NOT_SATISFIABLE = "range-not-satisfiable"
    """Answers 416 to every range."""

    # Bodies that do not match their length
    CUTS_SHORT = "cuts-short"
    """Sends half of what ``Content-Length`` promises, then closes."""
    SHORT_LENGTH = "short-length"
    """Sends half, and says so in ``Content-Length``; ``Content-Range`` still promises all."""
    LONG_LENGTH = "long-length"
    """Sends more than was asked for, with the larger ``Content-Length``."""
    LONG_CHUNKED = "long-chunked"
    """Sends more than was asked for, chunked, without a length."""
    NEGATIVE_CHUNK = "negative-chunk"
    """Chunked, the first chunk of -1 bytes, then zeros until the client leaves."""
    DRIPS_TRAILERS = "drips-trailers"
    """Chunked and whole, then one more trailer every 20 ms."""
    NEGATIVE_LENGTH = "negative-length"
    """``Content-Length: -1``."""
    LENGTH_NOT_A_NUMBER = "length-not-a-number"
    """``Content-Length: many``."""
    GZIP = "gzip"
    """Compresses the body although nobody asked for it."""

    # A file that does not stay the same
    CHANGES_ETAG = "changes-etag"
    """Every answer has another ``ETag``."""

    # Redirects
    REDIRECTS_ELSEWHERE = "redirects-elsewhere"
    """302 to another origin, which has the file and behaves well."""
    REDIRECT_LOOP = "redirect-loop"
    """302 to itself."""
    REDIRECTS_TO_FILE = "redirects-to-file"
    """302 to ``file:///etc/hostname``."""
    REDIRECTS_TO_HTTP = "redirects-to-http"
    """302 to another origin over plain http; the server itself speaks https when asked to."""
    REDIRECT_WITHOUT_LOCATION = "redirect-without-location"
    """302 that does not say where."""

    # Time
    STALLS_BEFORE_HEADERS = "stalls-before-headers"
    """Takes the request and never answers."""
    STALLS_IN_BODY = "stalls-in-body"
    """Sends headers and half of the body, then nothing more."""
    DRIPS = "drips"
    """Sends one byte every 20 ms."""
    DRIPS_HEADERS = "drips-headers"
    """Sends one more header every 20 ms and never comes to the body."""

    # Answers before the answer
    EARLY_HINTS = "early-hints"
    """103 and 102 before a right answer, as servers may."""
    ENDLESS_HINTS = "endless-hints"
    """103 for ever."""

    # Connections
    CLOSES_AT_ONCE = "closes-at-once"
    """Closes without an answer."""
    RESETS_IN_BODY = "resets-in-body"
    """Sends half of the body, then RST."""
    GARBAGE = "garbage"
    """Answers something that is not HTTP."""
    HUGE_HEADERS = "huge-headers"
    """A status line and then 8 MB of one header."""
    MANY_HEADERS = "many-headers"
    """A hundred thousand short headers."""

    # Statuses
    SERVER_ERROR = "server-error"
    """500."""
    UNAVAILABLE = "unavailable"
    """503."""
    RATE_LIMITED = "rate-limited"
    """429 with ``Retry-After`` in seconds (`retry_after` of the server)."""
    RATE_LIMITED_UNTIL = "rate-limited-until"
    """429 with ``Retry-After`` as a date, `retry_after` seconds from now."""
    RATE_LIMITED_FOR_EVER = "rate-limited-for-ever"
    """429 with ``Retry-After: 1000000000``."""
    UNAUTHORIZED = "unauthorized"
    """401."""
    FORBIDDEN = "forbidden"
    """403."""
    NOT_FOUND = "not-found"
    """404."""


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
