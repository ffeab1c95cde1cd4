"""How each fault is done, byte by byte."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate

from .answers import Answer, file_answer, text_answer
from .faults import Act, Fault
from .loopback import LogEntry, head

_EXTRA = 1000  # bytes more than were asked for
_DRIP_SECONDS = 0.02
_TEBIBYTE = 1 << 40
_ZEROS = memoryview(bytes(1 << 20))
_BOUNDARY = "modelkin-test-boundary"


def act(fault: Fault, this: Act) -> bool:
    """Commit a fault; return whether the connection may be used again."""
    return ACTS[fault](this)


def _behaves(this: Act) -> bool:
    return this.answer(file_answer(this.file, this.request, etag=f'"{this.file.sha256}"'))


def _changes_etag(this: Act) -> bool:
    return this.answer(file_answer(this.file, this.request, etag=f'"version-{this.turn}"'))


def _ignores_range(this: Act) -> bool:
    headers = {"ETag": f'"{this.file.sha256}"', "Content-Length": str(this.file.size)}
    this.send(200, headers, this.file.pieces(0, this.file.size))
    return True


def _enormous_body(this: Act) -> bool:
    pieces = (_ZEROS for _ in range(_TEBIBYTE // len(_ZEROS)))
    this.send(200, {"Content-Length": str(_TEBIBYTE)}, pieces)
    return True


def _endless_body(this: Act) -> bool:
    this.send(200, {"Connection": "close"}, iter(lambda: _ZEROS, None))
    return False


def _sends_multipart(this: Act) -> bool:
    start, stop = this.wanted()
    part = (
        f"--{_BOUNDARY}\r\nContent-Type: application/octet-stream\r\n"
        f"Content-Range: bytes {start}-{stop - 1}/{this.file.size}\r\n\r\n"
    ).encode()
    end = f"\r\n--{_BOUNDARY}--\r\n".encode()
    headers = {
        "Content-Type": f"multipart/byteranges; boundary={_BOUNDARY}",
        "Content-Length": str(len(part) + stop - start + len(end)),
    }
    this.send(206, headers, iter([part, *this.file.pieces(start, stop), end]))
    return True


def _wrong_content_range(this: Act) -> bool:
    start, stop = this.wanted()
    return _with_content_range(this, f"bytes {start + 1}-{stop}/{this.file.size}")


def _wrong_total(this: Act) -> bool:
    start, stop = this.wanted()
    return _with_content_range(this, f"bytes {start}-{stop - 1}/{this.file.size + 1}")


def _with_content_range(this: Act, content_range: str) -> bool:
    _, headers = this.good()
    this.send(206, {**headers, "Content-Range": content_range}, this.file.pieces(*this.wanted()))
    return True


def _other_bytes(this: Act) -> bool:
    start, stop = this.wanted()
    status, headers = this.good()
    this.send(status, headers, _padded(this, start + 1, stop + 1))
    return True


def _no_content_range(this: Act) -> bool:
    _, headers = this.good()
    headers.pop("Content-Range", None)
    this.send(206, headers, this.file.pieces(*this.wanted()))
    return True


def _range_not_satisfiable(this: Act) -> bool:
    return this.answer(Answer(status=416, headers={"Content-Range": f"bytes */{this.file.size}"}))


def _cuts_short(this: Act) -> bool:
    this.send(*this.good(), this.half())
    return False


def _short_length(this: Act) -> bool:
    start, stop = this.wanted()
    status, headers = this.good()
    this.send(status, {**headers, "Content-Length": str((stop - start) // 2)}, this.half())
    return True


def _long_length(this: Act) -> bool:
    start, stop = this.wanted()
    status, headers = this.good()
    headers["Content-Length"] = str(stop - start + _EXTRA)
    this.send(status, headers, _padded(this, start, stop + _EXTRA))
    return True


def _long_chunked(this: Act) -> bool:
    start, stop = this.wanted()
    status, headers = this.good()
    del headers["Content-Length"]
    entry = this.begin(status)
    this.connection.send_raw(head(status, {**headers, "Transfer-Encoding": "chunked"}))
    if this.request.method == "HEAD":
        return True
    for piece in _padded(this, start, stop + _EXTRA):
        if len(piece):  # a chunk of no bytes is the end
            this.connection.send_raw(f"{len(piece):x}\r\n".encode())
            this.connection.send_body([piece], entry)
            this.connection.send_raw(b"\r\n")
    this.connection.send_raw(b"0\r\n\r\n")
    return True


def _chunked_head(this: Act) -> LogEntry:
    status, headers = this.good()
    del headers["Content-Length"]
    entry = this.begin(status)
    this.connection.send_raw(head(status, {**headers, "Transfer-Encoding": "chunked"}))
    return entry


def _negative_chunk(this: Act) -> bool:
    entry = _chunked_head(this)
    if this.request.method == "HEAD":
        return False
    this.connection.send_raw(b"-1\r\n")
    this.connection.send_body(iter(lambda: _ZEROS, None), entry)
    return False


def _drips_trailers(this: Act) -> bool:
    entry = _chunked_head(this)
    if this.request.method == "HEAD":
        return False
    start, stop = this.wanted()
    this.connection.send_raw(f"{stop - start:x}\r\n".encode())
    this.connection.send_body(this.file.pieces(start, stop), entry)
    this.connection.send_raw(b"\r\n0\r\n")
    while True:
        this.connection.wait(_DRIP_SECONDS)
        this.connection.send_raw(b"X-Drip: 1\r\n")


_HINT = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"


def _early_hints(this: Act) -> bool:
    this.connection.send_raw(_HINT + b"HTTP/1.1 102 Processing\r\n\r\n" + _HINT)
    return _behaves(this)


def _endless_hints(this: Act) -> bool:
    this.begin(0)
    while True:
        this.connection.send_raw(_HINT)
        this.connection.wait(_DRIP_SECONDS)


def _padded(this: Act, start: int, stop: int) -> Iterator[bytes | memoryview]:
    """Yield bytes of the file, and zeros for those behind its end."""
    yield from this.file.pieces(start, min(stop, this.file.size))
    yield _ZEROS[: stop - max(start, this.file.size)] if stop > this.file.size else b""


def _length(text: str) -> Callable[[Act], bool]:
    def send(this: Act) -> bool:
        status, headers = this.good()
        this.send(status, {**headers, "Content-Length": text}, this.file.pieces(*this.wanted()))
        return False

    return send


def _gzip(this: Act) -> bool:
    status, headers = this.good()
    body = gzip.compress(b"".join(this.file.pieces(*this.wanted())), mtime=0)
    this.send(status, {**headers, "Content-Encoding": "gzip", "Content-Length": str(len(body))}, iter([body]))
    return True


def _redirect(location: Callable[[Act], str]) -> Callable[[Act], bool]:
    def send(this: Act) -> bool:
        return this.answer(text_answer(302, "elsewhere", {"Location": location(this)}))

    return send


def _redirect_without_location(this: Act) -> bool:
    return this.answer(text_answer(302, "elsewhere"))


def _stalls_before_headers(this: Act) -> bool:
    this.begin(0)
    this.connection.wait(None)
    return False


def _stalls_in_body(this: Act) -> bool:
    this.send(*this.good(), this.half())
    this.connection.wait(None)
    return False


def _drips(this: Act) -> bool:
    def drops() -> Iterator[memoryview]:
        for piece in this.file.pieces(*this.wanted()):
            view = memoryview(piece)
            for place in range(len(view)):
                this.connection.wait(_DRIP_SECONDS)
                yield view[place : place + 1]

    this.send(*this.good(), drops())
    return True


def _drips_headers(this: Act) -> bool:
    this.begin(0)
    this.connection.send_raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        this.connection.send_raw(b"X-Drip: 1\r\n")
        this.connection.wait(_DRIP_SECONDS)


def _closes_at_once(this: Act) -> bool:
    this.begin(0)
    return False


def _resets_in_body(this: Act) -> bool:
    this.send(*this.good(), this.half())
    this.connection.reset()


def _garbage(this: Act) -> bool:
    this.begin(0)
    this.connection.send_raw(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
    return False


def _huge_headers(this: Act) -> bool:
    this.begin(0)
    this.connection.send_raw(b"HTTP/1.1 200 OK\r\nX-Huge: ")
    this.connection.send_raw(b"x" * (8 << 20))
    this.connection.send_raw(b"\r\nContent-Length: 0\r\n\r\n")
    return False


def _many_headers(this: Act) -> bool:
    this.begin(0)
    this.connection.send_raw(b"HTTP/1.1 200 OK\r\n")
    this.connection.send_raw(b"".join(b"X-%d: 1\r\n" % number for number in range(100_000)))
    this.connection.send_raw(b"Content-Length: 0\r\n\r\n")
    return False


def _status(status: int, retry_after: Callable[[Act], str] | None = None) -> Callable[[Act], bool]:
    def send(this: Act) -> bool:
        headers = {} if retry_after is None else {"Retry-After": retry_after(this)}
        return this.answer(text_answer(status, "told to fail", headers))

    return send


ACTS: Mapping[Fault, Callable[[Act], bool]] = {
    Fault.NONE: _behaves,
    Fault.IGNORES_RANGE: _ignores_range,
    Fault.ENORMOUS_BODY: _enormous_body,
    Fault.ENDLESS_BODY: _endless_body,
    Fault.SENDS_MULTIPART: _sends_multipart,
    Fault.WRONG_CONTENT_RANGE: _wrong_content_range,
    Fault.WRONG_TOTAL: _wrong_total,
    Fault.OTHER_BYTES: _other_bytes,
    Fault.NO_CONTENT_RANGE: _no_content_range,
    Fault.RANGE_NOT_SATISFIABLE: _range_not_satisfiable,
    Fault.CUTS_SHORT: _cuts_short,
    Fault.SHORT_LENGTH: _short_length,
    Fault.LONG_LENGTH: _long_length,
    Fault.LONG_CHUNKED: _long_chunked,
    Fault.NEGATIVE_CHUNK: _negative_chunk,
    Fault.DRIPS_TRAILERS: _drips_trailers,
    Fault.EARLY_HINTS: _early_hints,
    Fault.ENDLESS_HINTS: _endless_hints,
    Fault.NEGATIVE_LENGTH: _length("-1"),
    Fault.LENGTH_NOT_A_NUMBER: _length("many"),
    Fault.GZIP: _gzip,
    Fault.CHANGES_ETAG: _changes_etag,
    Fault.REDIRECTS_ELSEWHERE: _redirect(lambda this: this.other + this.request.target),
    Fault.REDIRECT_LOOP: _redirect(lambda this: this.main + this.request.target),
    Fault.REDIRECTS_TO_FILE: _redirect(lambda this: "file:///etc/hostname"),
    Fault.REDIRECTS_TO_HTTP: _redirect(lambda this: this.other + this.request.target),
    Fault.REDIRECT_WITHOUT_LOCATION: _redirect_without_location,
    Fault.STALLS_BEFORE_HEADERS: _stalls_before_headers,
    Fault.STALLS_IN_BODY: _stalls_in_body,
    Fault.DRIPS: _drips,
    Fault.DRIPS_HEADERS: _drips_headers,
    Fault.CLOSES_AT_ONCE: _closes_at_once,
    Fault.RESETS_IN_BODY: _resets_in_body,
    Fault.GARBAGE: _garbage,
    Fault.HUGE_HEADERS: _huge_headers,
    Fault.MANY_HEADERS: _many_headers,
    Fault.SERVER_ERROR: _status(500),
    Fault.UNAVAILABLE: _status(503),
    Fault.RATE_LIMITED: _status(429, lambda this: str(this.retry_after)),
    Fault.RATE_LIMITED_UNTIL: _status(
        429, lambda this: formatdate(time.time() + this.retry_after, usegmt=True)
    ),
    Fault.RATE_LIMITED_FOR_EVER: _status(429, lambda this: "1000000000"),
    Fault.UNAUTHORIZED: _status(401),
    Fault.FORBIDDEN: _status(403),
    Fault.NOT_FOUND: _status(404),
}
"""Every fault has its act; a test keeps it so."""
