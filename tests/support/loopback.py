"""An HTTP/1.1 listener on 127.0.0.1 that its user drives byte by byte. It knows no paths and no files.

With a log of what was requested and sent, and certificates that each process makes for itself.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, BinaryIO, Literal, NoReturn, cast

_LONGEST_LINE = 1 << 16
_MOST_HEADERS = 200
# A limited connection sends a piece about every 5 ms: fine enough to look steady, coarse enough for sleep().
_PIECES_PER_SECOND = 200
_SMALLEST_PIECE = 4096
_LINGER = "hh" if sys.platform == "win32" else "ii"


class Disconnected(Exception):
    """The client has gone, or the server is being closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    """Names in lower case; the last of several equal names wins."""
    body: bytes


class Connection:
    """One accepted connection, seen by a handler."""

    def __init__(self, stream: socket.socket, *, number: int, closing: threading.Event) -> None:
        self.stream = stream
        self.number = number
        self.n_requests = 0
        self._closing = closing

    def wait(self, seconds: float | None) -> None:
        """Sleep, for ever when None; a server that is being closed ends it at once."""
        if self._closing.wait(seconds):
            raise Disconnected

    def send_raw(self, data: bytes | memoryview) -> None:
        """Send bytes that are not counted: headers, chunk frames, garbage."""
        try:
            self.stream.sendall(data)
        except OSError as error:
            raise Disconnected from error

    def send_small(self, head: bytes, body: bytes, entry: LogEntry) -> None:
        """Send and count a body in one packet with its headers; two would make a small answer slower."""
        entry.bytes_sent += len(body)
        try:
            self.stream.sendall(head + body)
        except OSError as error:
            entry.bytes_sent -= len(body)
            raise Disconnected from error

    def send_body(
        self, pieces: Iterable[bytes | memoryview], entry: LogEntry, bandwidth: float | None = None
    ) -> None:
        """Send and count a body, at most `bandwidth` bytes per second."""
        pace = _Pace(self, bandwidth) if bandwidth is not None else None
        for piece in pieces:
            if pace is None:
                self._send_counted(memoryview(piece), entry)
                continue
            for part in pace.parts(memoryview(piece)):
                self._send_counted(part, entry)

    def _send_counted(self, data: memoryview, entry: LogEntry) -> None:
        # Counted first, so that a client that has its last byte never sees a smaller count.
        entry.bytes_sent += len(data)
        left = data
        try:
            while left:
                left = left[self.stream.send(left) :]
        except OSError as error:
            entry.bytes_sent -= len(left)
            raise Disconnected from error

    def reset(self) -> NoReturn:
        """Cut the connection with RST instead of FIN."""
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack(_LINGER, 1, 0))
        raise Disconnected


class _Pace:
    """Keeps the pieces of one body to a rate, without adding up the errors of single sleeps."""

    def __init__(self, connection: Connection, bandwidth: float) -> None:
        self._connection = connection
        self._bandwidth = bandwidth
        self._piece = max(_SMALLEST_PIECE, int(bandwidth / _PIECES_PER_SECOND))
        self._began = time.perf_counter()
        self._sent = 0

    def parts(self, data: memoryview) -> Iterable[memoryview]:
        for start in range(0, len(data), self._piece):
            part = data[start : start + self._piece]
            self._sent += len(part)
            ahead = self._began + self._sent / self._bandwidth - time.perf_counter()
            if ahead > 0:
                self._connection.wait(ahead)
            yield part


Handler = Callable[[Connection, Request], bool]
"""Answers one request; tells whether the connection may be used again."""


class Loopback:
    """A listener with one thread per connection.

    Parameters
    ----------
    handler
        Called in the connection's thread, once per request.
    tls
        Whether to speak https, with the certificate of `client_tls`.
    """

    def __init__(self, handler: Handler, *, tls: bool = False) -> None:
        self._handler = handler
        self._tls = server_tls() if tls else None
        self._closing = threading.Event()
        self._numbers = itertools.count(1)
        self._open: dict[threading.Thread, socket.socket] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        scheme: Literal["http", "https"] = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._acceptor = threading.Thread(target=self._accept, name=f"loopback-{self.port}", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """End every connection, wait for every thread. Safe to call twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        # Closing a listener does not wake a thread that waits in accept(); a connection does, everywhere.
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        self._acceptor.join()
        self._listener.close()
        for thread, stream in self._open.items():
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                # Out of descriptors, or the client gave up meanwhile. Without the pause this could spin.
                if self._closing.wait(0.01):
                    return
                continue
            if self._closing.is_set():
                stream.close()
                return
            thread = threading.Thread(
                target=self._serve, args=(stream,), name=f"loopback-{self.port}-c", daemon=True
            )
            # Only finished threads are dropped here, none drops itself: close() then misses none.
            self._open = {each: its for each, its in self._open.items() if each.is_alive()}
            self._open[thread] = stream
            thread.start()

    def _serve(self, stream: socket.socket) -> None:
        current = stream
        try:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                # The plain socket keeps its descriptor, so that close() can wake a blocked read.
                current = self._tls.wrap_socket(stream.dup(), server_side=True)
            connection = Connection(current, number=next(self._numbers), closing=self._closing)
            with current.makefile("rb") as reader:
                self._converse(connection, cast(BinaryIO, reader))
        except (OSError, Disconnected, _BadRequest):
            pass
        finally:
            current.close()
            stream.close()

    def _converse(self, connection: Connection, reader: BinaryIO) -> None:
        while not self._closing.is_set():
            request = _read_request(reader)
            if request is None:
                return
            reusable = self._handler(connection, request)
            connection.n_requests += 1
            if not reusable or request.headers.get("connection", "").lower() == "close":
                return


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """Return a status line and headers as they go over the wire."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class _BadRequest(Exception):
    """What came is not an HTTP/1.1 request."""


def _read_request(reader: BinaryIO) -> Request | None:
    line = reader.readline(_LONGEST_LINE)
    if not line:
        return None
    words = line.decode("latin-1").split()
    if len(words) != 3:
        raise _BadRequest
    headers: dict[str, str] = {}
    for _ in range(_MOST_HEADERS):
        line = reader.readline(_LONGEST_LINE)
        if line in (b"\r\n", b"\n"):
            break
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    else:
        raise _BadRequest
    body = reader.read(int(headers.get("content-length", "0")))
    return Request(method=words[0], target=words[1], headers=headers, body=body)


if TYPE_CHECKING:
    import trustme


@cache
def _authority() -> trustme.CA:
    import trustme

    return trustme.CA()


def client_tls() -> ssl.SSLContext:
    """Return a client context that trusts the test servers of this process and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificate_pem())
    return context


def server_tls() -> ssl.SSLContext:
    """Return the context of the test servers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _authority().issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context


def certificate_pem() -> str:
    """Return the authority's certificate as text, for clients that want a file of trusted authorities."""
    return _authority().cert_pem.bytes().decode("ascii")


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
