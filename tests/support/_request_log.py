"""What a test server was asked and what it sent. It counts; it does not serve."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

Origin = Literal["hub", "cdn", "main", "other"]
"""Which listener was asked: `hub` and `cdn` of a `HubServer`, `main` and `other` of a `BadServer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request that reached a test server."""

    origin: Origin
    method: str
    path: str
    """The request target as it was sent: percent-encoded, with its query."""
    range: str | None
    """Value of the ``Range`` header."""
    status: int
    """0 when the connection was cut, or when what was sent was not an HTTP answer."""
    bytes_sent: int
    """Bytes of the body handed to the operating system, without headers and chunk frames."""
    authorization: str | None
    connection: int
    """Number of the TCP connection: equal numbers mean that a connection was used again."""


class LogEntry:
    """A record while its answer is under way."""

    __slots__ = (
        "_authorization",
        "_connection",
        "_method",
        "_origin",
        "_path",
        "_range",
        "bytes_sent",
        "status",
    )

    def __init__(
        self, *, origin: Origin, method: str, path: str, headers: dict[str, str], connection: int
    ) -> None:
        self._origin: Origin = origin
        self._method = method
        self._path = path
        self._range = headers.get("range")
        self._authorization = headers.get("authorization")
        self._connection = connection
        self.status = 0
        self.bytes_sent = 0

    def record(self) -> RequestRecord:
        """Return what is known so far."""
        return RequestRecord(
            origin=self._origin,
            method=self._method,
            path=self._path,
            range=self._range,
            status=self.status,
            bytes_sent=self.bytes_sent,
            authorization=self._authorization,
            connection=self._connection,
        )


class RequestLog:
    """The requests of one server, in order of arrival. Thread-safe.

    A request is in the log before the first byte of its answer leaves, and each piece of a body is counted
    before it leaves: a client that has read its answer finds it here in full.
    """

    def __init__(self) -> None:
        self._entries: list[LogEntry] = []
        self._lock = threading.Lock()

    def add(self, entry: LogEntry) -> None:
        """Append a request whose answer is about to begin."""
        with self._lock:
            self._entries.append(entry)

    def records(self) -> list[RequestRecord]:
        """Return a copy of the log as it is now."""
        with self._lock:
            return [entry.record() for entry in self._entries]

    def reset(self) -> None:
        """Forget every request so far."""
        with self._lock:
            self._entries.clear()


def n_requests(records: list[RequestRecord], origin: Origin | None = None) -> int:
    """Return how many requests an origin had; of all origins when None."""
    return sum(1 for record in records if origin in (None, record.origin))


def bytes_sent(records: list[RequestRecord], origin: Origin | None = None) -> int:
    """Return how many bytes of bodies an origin sent; of all origins when None."""
    return sum(record.bytes_sent for record in records if origin in (None, record.origin))
