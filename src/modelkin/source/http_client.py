"""The range client: the only place that reads bytes from the network.

It sends single range requests over kept connections, checks that the answer is exactly what was asked for,
and retries when a failure may be transient. It does not follow redirects (`remote.py` does) and sees no
secrets (`connections.py` adds them).
"""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import urllib3
from urllib3.exceptions import HTTPError, IncompleteRead

from modelkin.errors import NetworkError, RateLimited, SourceError, SourceTimeout, WrongBytes
from modelkin.message import Message, say
from modelkin.options import KIB, MIB, FetchOptions

from ._exchange import Exchange
from .address import Home
from .connections import Connections, Deadline, cut, stream_of
from .interface import ByteBudget
from .ranges import ByteRange
from .ref import without_secrets
from .retry import Retry, Transient, asked_wait

_SLOW_BODY = 8 * MIB
"""No body gets more time than one of this length would take at the lowest rate."""
_SHORT_REST = 16 * KIB
"""Bytes left of a body that are read to keep the connection: what a line brings faster than a new
handshake."""
# Timeouts, limits and faults of a server or of a proxy before it: the next attempt may succeed.
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
_NO_CONNECTION = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.NameResolutionError)

_Response = urllib3.BaseHTTPResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A checked answer. `body` is empty unless bytes were delivered."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    total: int | None = None
    """Size of the whole file, if the server stated it."""

    @property
    def delivered(self) -> bool:
        """Whether this reply carries the wanted bytes."""
        return self.status in (200, 206)


@dataclass(slots=True)
class Traffic:
    """What went over the network."""

    requests: int = 0
    retries: int = 0
    bytes_received: int = 0
    """Bytes of bodies, including those of failed attempts."""


@dataclass(slots=True)
class _Meter:
    """The bytes of one attempt: how many the budget was charged for, and how many arrived."""

    charged: int
    received: int = 0


_Judge = Callable[[_Response, _Meter], Reply]


class RangeClient:
    """Sends ranged GETs. Shared by all threads and all files of one model."""

    def __init__(
        self, options: FetchOptions, budget: ByteBudget, *, home: Home, retry: Retry | None = None
    ) -> None:
        self.budget = budget
        self.traffic = Traffic()
        self._stopped = threading.Event()
        self.retry = retry or Retry(
            attempts=options.retries + 1, max_wait=options.max_wait, sleep=self._stopped.wait
        )
        self._options = options
        self._connections = Connections(options, home)
        self._reading: set[_Response] = set()
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close every connection; pending reads and waits fail. Safe to call twice."""
        self._stopped.set()
        with self._lock:
            reading = list(self._reading)
        for response in reading:
            cut(stream_of(response))
        self._connections.close()

    def get(
        self, url: str, wanted: ByteRange, *, headers: Mapping[str, str], may_end_early: bool = False
    ) -> Reply:
        """Ask for one range of at least one byte.

        The budget is charged before anything is sent, again for each retry; what did not arrive is refunded.
        If the file's size is not known yet, it `may_end_early`. The reply is without bytes for a redirect or
        a refusal that retrying cannot change (404, 403 …): the caller decides what those mean.
        """
        exchange = Exchange(without_secrets(url), wanted, may_end_early)
        ranged = {**headers, "Range": f"bytes={wanted.start}-{wanted.stop - 1}"}
        return self._send(
            url,
            ranged,
            lambda response, meter: self._judge(exchange, response, meter),
            charge=wanted.length,
        )

    def get_document(self, url: str, *, headers: Mapping[str, str], limit: int) -> Reply:
        """Ask for a whole short document, such as a listing, and read at most `limit` bytes of it.

        The budget covers the bytes of a model's files and is not charged here.
        """
        where = without_secrets(url)
        return self._send(
            url, headers, lambda response, meter: self._document(where, response, limit, meter), charge=0
        )

    # -- sending ---------------------------------------------------------------------------------------

    def _send(self, url: str, headers: Mapping[str, str], judge: _Judge, *, charge: int) -> Reply:
        where = without_secrets(url)
        # A compressed body has other bytes at other offsets; ranges of it are useless.
        sent = {**headers, "Accept-Encoding": "identity"}

        def attempt(number: int) -> Reply:
            self._raise_if_stopped(where)
            self.budget.reserve(charge, where=where)
            meter = _Meter(charge)
            try:
                return self._attempt(url, sent, judge, meter, retry=number > 0)
            finally:
                self.budget.refund(max(0, meter.charged - meter.received))
                with self._lock:
                    self.traffic.bytes_received += meter.received

        return self.retry.run(attempt, host=where.partition("://")[2].partition("/")[0])

    def _attempt(
        self, url: str, headers: Mapping[str, str], judge: _Judge, meter: _Meter, *, retry: bool
    ) -> Reply:
        where = without_secrets(url)
        with self._lock:
            self.traffic.requests += 1
            self.traffic.retries += retry
        response = self._opened(url, headers, where)
        with self._lock:
            self._reading.add(response)
        judged = False
        try:
            reply = judge(response, meter)
            judged = True
            self._raise_if_stopped(where)
            return reply
        except (HTTPError, OSError) as error:
            self._raise_if_stopped(where)
            raise _failed(error, where) from error
        finally:
            with self._lock:
                self._reading.discard(response)
            # The rest of an unexpected body is of no use; a refusal is short.
            if (not judged and response.status in (200, 206)) or not self._drained(response):
                response.close()
            response.release_conn()

    def _opened(self, url: str, headers: Mapping[str, str], where: str) -> _Response:
        try:
            return self._connections.get(url, headers)
        except (HTTPError, OSError, ValueError) as error:
            problem, cause = _failed(error, where), _presentable(error)
        # Raised outside the handler: an exception keeps the one being handled, with its URLs and tokens.
        raise problem from cause

    def _drained(self, response: _Response) -> bool:
        """Read a short remainder so that the connection can be reused; a long one may be gigabytes."""
        if response.length_remaining == 0:  # as after nearly every answer: nothing to wait for
            return True
        left = _SHORT_REST
        with Deadline(stream_of(response), self._options.stall_timeout) as deadline:
            try:
                while left > 0 and not deadline.passed:
                    piece = response.read1(left)
                    if not piece:
                        return not deadline.passed
                    left -= len(piece)
            except (HTTPError, OSError):
                pass
        return False

    def _raise_if_stopped(self, where: str) -> None:
        if self._stopped.is_set():
            raise SourceError(where, say("problem.reading-stopped"))

    # -- judging ---------------------------------------------------------------------------------------

    def _document(self, where: str, response: _Response, limit: int, meter: _Meter) -> Reply:
        _raise_if_busy(where, response)
        if response.status != 200:
            return Reply(status=response.status, headers=response.headers)
        body = self._body(where, response, limit + 1, meter, must_be_full=False)
        if len(body) > limit:
            raise WrongBytes(where, say("problem.answer-long", limit=limit))
        return Reply(status=200, headers=response.headers, body=body, total=len(body))

    def _judge(self, exchange: Exchange, response: _Response, meter: _Meter) -> Reply:
        status, headers, where = response.status, response.headers, exchange.where
        _raise_if_busy(where, response)
        if status not in (200, 206, 416):
            return Reply(status=status, headers=headers)
        expected = exchange.expected(status, headers)
        if expected.skip:
            self.budget.reserve(expected.skip, where=where)
            meter.charged += expected.skip
        body = self._body(where, response, expected.skip + expected.keep, meter)
        if expected.ends_here and status == 206 and self._goes_on(where, response):
            raise Transient(WrongBytes(where, say("problem.server-sends-more", keep=expected.keep)))
        return Reply(
            status=200 if status == 200 else 206,
            headers=headers,
            body=body[expected.skip :] if expected.skip else body,
            total=expected.total,
        )

    def _goes_on(self, where: str, response: _Response) -> bool:
        """Say whether anything follows. Trailers may, within the same time limits."""
        if response.length_remaining == 0:
            return False
        with Deadline(stream_of(response), self._options.stall_timeout) as deadline:
            try:
                more = response.read1(1)
            except (HTTPError, OSError):
                if not deadline.passed:
                    raise
        if deadline.passed:
            raise Transient(SourceTimeout(where, say("problem.answer-endless"), hint=say("hint.later")))
        return bool(more)

    def _body(
        self, where: str, response: _Response, length: int, meter: _Meter, *, must_be_full: bool = True
    ) -> bytes:
        """Read `length` bytes in one go, within the time they may take.

        In one go, because joining pieces takes twice the CPU time; the deadline is therefore enforced from
        outside, by cutting the connection.
        """
        before = meter.received
        # Charged in full until it is known what arrived: a broken read does not report how much.
        meter.received += length if must_be_full else 0
        grace = self._options.stall_timeout
        seconds = grace + min(length, _SLOW_BODY) / self._options.min_rate
        with Deadline(stream_of(response), seconds) as deadline:
            try:
                data = response.read(length)
            except (HTTPError, OSError) as error:
                nothing_came = any(isinstance(cause, IncompleteRead) for cause in error.args)
                if not deadline.passed and not nothing_came:
                    raise
                data = b""
        if deadline.passed:
            raise Transient(
                SourceTimeout(
                    where,
                    say("problem.too-slow", length=length, seconds=seconds),
                    hint=say("hint.later-or-time"),
                )
            )
        meter.received = before + len(data)
        promised = must_be_full or response.length_remaining not in (None, 0)
        if promised and len(data) < length:
            raise Transient(WrongBytes(where, say("problem.line-ended", length=length, n=len(data))))
        return data


def busy_hint(status: int) -> Message | None:
    """Return a hint for an answer that says the server is busy."""
    if status == 429:
        return say("hint.too-many")
    if 500 <= status < 600:
        return say("hint.server-trouble")
    return None


def _raise_if_busy(where: str, response: _Response) -> None:
    if response.status in _BUSY:
        kind = RateLimited if response.status == 429 else NetworkError
        problem = kind(
            where, say("problem.server-answered", status=response.status), hint=busy_hint(response.status)
        )
        raise Transient(problem, wait=asked_wait(response.headers))


# -- other people's exceptions -------------------------------------------------------------------------


def translated(error: HTTPError, where: str) -> SourceError:
    """Translate an exception of the HTTP library into one of ours."""
    if isinstance(error, _NO_CONNECTION):  # first: urllib3 also counts some of these as timeouts
        return NetworkError(where, say("problem.no-connection", why=reason(error)), hint=say("hint.address"))
    if isinstance(error, urllib3.exceptions.TimeoutError):
        connecting = isinstance(error, urllib3.exceptions.ConnectTimeoutError)
        problem = say("problem.connect-timeout" if connecting else "problem.read-timeout")
        return SourceTimeout(where, problem, hint=say("hint.network"))
    if isinstance(error, urllib3.exceptions.LocationValueError):
        return NetworkError(where, say("problem.bad-address", kind=type(error).__name__))
    if isinstance(error, urllib3.exceptions.ProxyError):
        return NetworkError(where, say("problem.proxy-refused", why=reason(error)), hint=say("hint.proxy"))
    if isinstance(error, urllib3.exceptions.SSLError):
        return NetworkError(
            where,
            say("problem.tls-failed", why=reason(error)),
            hint=say("hint.certificates"),
        )
    return NetworkError(where, say("problem.connection-broke", why=reason(error)))


def _failed(error: Exception, where: str) -> SourceError | Transient:
    """Return what to raise: a bad address, header or certificate stays bad, anything else may pass."""
    if not isinstance(error, HTTPError):
        if isinstance(error, OSError):
            return Transient(NetworkError(where, say("problem.connection-broke", why=reason(error))))
        return NetworkError(where, say("problem.cannot-send", kind=type(error).__name__))
    problem = translated(error, where)
    if isinstance(error, urllib3.exceptions.LocationValueError):
        return problem
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in error.args):
        return problem
    return Transient(problem)


def _presentable(error: Exception) -> Exception | None:
    """Return what may appear in a traceback: exceptions about a URL or a header quote it, keys included."""
    quotes = (ValueError, urllib3.exceptions.MaxRetryError)
    return None if isinstance(error, quotes) else error


def reason(error: BaseException) -> str:
    """Describe an exception without the memory addresses and URLs in its text."""
    text = re.sub(r"<[^>]*>:? ?|\b[a-z0-9+.-]+://\S+|\S*\?\S*|\S*=\S*", "", str(error)).strip()
    printable = "".join(character if character.isprintable() else " " for character in text)
    return f"{type(error).__name__} {printable[:160]}".strip()


def is_redirect(status: int) -> bool:
    """Say whether a status asks to go elsewhere."""
    return status in (301, 302, 303, 307, 308)
