"""One file behind a URL: redirects, and whether it is still the same file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from modelkin.errors import AccessDenied, ChangedWhileReading, NetworkError, NotFound, SourceError
from modelkin.message import Refusal, say

from .address import WebOrigin, redirected
from .http_client import RangeClient, Reply, busy_hint, is_redirect
from .ranges import ByteRange
from .ref import without_secrets

MAX_REDIRECTS = 5
"""The Hub needs one or two redirects; a chain longer than this is a loop."""
MAX_REFRESHES = 2
"""How often one read may ask for a new signed address: once because it expired, once more because it expired
again while other requests were served."""
_STALE = frozenset({400, 401, 403, 404, 410})
"""What a storage server answers when a signed address has expired."""

TellRefusal = Callable[[Reply, str], SourceError]


@dataclass(frozen=True, slots=True)
class _Address:
    url: str
    is_home: bool
    """Whether this is the file's own address and not one it redirects to."""


@dataclass(frozen=True, slots=True)
class _Question:
    wanted: ByteRange
    may_end_early: bool
    extra_headers: Mapping[str, str]


def plain_etag(value: str | None) -> str | None:
    """Strip quotes and the weak mark from an ETag; None if there is none that could be sent back."""
    if not value or not value.isascii() or not value.isprintable():
        return None
    return value.strip().removeprefix("W/").strip('"')[:200] or None


class RemoteFile:
    """Reads ranges of one file; resolves its redirect once, and again when it expires. Thread-safe.

    The headers, sent with every request, hold no secrets: the client's connections have those. `refusal`
    explains a refusal (404, 403 …). `check_redirect` is called with the redirects of the file's own host,
    which may say more about the file.
    """

    def __init__(
        self,
        url: str,
        client: RangeClient,
        *,
        headers: Mapping[str, str],
        size: int | None = None,
        refusal: TellRefusal | None = None,
        check_redirect: Callable[[Reply], None] | None = None,
    ) -> None:
        self._home = _Address(url, is_home=True)
        self._client = client
        self._headers = dict(headers)
        self._refusal = refusal or http_refusal
        self._check_redirect = check_redirect
        self._target: _Address | None = None
        self._sizes: dict[str, int] = {} if size is None else {"size": size}
        self._versions: dict[WebOrigin, str] = {}
        self._lock = threading.Lock()
        self.shown = without_secrets(url)

    def read(
        self,
        wanted: ByteRange,
        *,
        may_end_early: bool = False,
        extra_headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Return a reply that delivered the wanted bytes; or 304, when `extra_headers` make that possible.

        The first reader asks the file's own address; the others wait until it is known whether that answers
        or redirects: one trip to the Hub per file, however many ranges are read.
        """
        question = _Question(wanted, may_end_early, extra_headers or {})
        redirects = refreshes = 0
        while redirects <= MAX_REDIRECTS:
            target = self._target
            if target is None:
                with self._lock:
                    if self._target is not None:
                        continue
                    target = self._home
                    reply = self._get(target, question)
                    if not is_redirect(reply.status):
                        accepted = self._accepted(reply, target, question)
                        self._target = target
                        return accepted
                    self._target = self._next(target, reply)
                redirects += 1
                continue
            reply = self._get(target, question)
            if is_redirect(reply.status):
                redirects += 1
                with self._lock:
                    if self._target is target:
                        self._target = self._next(target, reply)
            elif not target.is_home and reply.status in _STALE and refreshes < MAX_REFRESHES:
                refreshes += 1
                with self._lock:
                    if self._target is target:
                        self._target = None
            else:
                return self._accepted(reply, target, question)
        raise NetworkError(self.shown, say("problem.redirects", most=MAX_REDIRECTS))

    def _next(self, target: _Address, reply: Reply) -> _Address:
        """Return where a redirect leads, if we may go there."""
        if self._check_redirect is not None and self._is_home(target.url):
            self._check_redirect(reply)
        location = reply.headers.get("Location")
        if not location:
            raise NetworkError(self.shown, say("problem.redirect-nowhere", status=reply.status))
        try:
            url = redirected(target.url, location)
        except Refusal as refused:
            raise NetworkError(self.shown, say("problem.redirects-to", problem=refused.reason)) from None
        if WebOrigin.of(target.url).scheme == "https" and WebOrigin.of(url).scheme == "http":
            raise NetworkError(self.shown, say("problem.redirect-http"))
        return _Address(url, is_home=False)

    def _is_home(self, url: str) -> bool:
        return WebOrigin.of(url) == WebOrigin.of(self._home.url)

    def _get(self, target: _Address, question: _Question) -> Reply:
        return self._client.get(
            target.url,
            question.wanted,
            headers={**self._headers, **question.extra_headers},
            may_end_early=question.may_end_early,
        )

    def _accepted(self, reply: Reply, target: _Address, question: _Question) -> Reply:
        origin = WebOrigin.of(target.url)
        asked_before = plain_etag(question.extra_headers.get("If-None-Match"))
        if reply.status == 304 and asked_before is not None:
            self._versions.setdefault(origin, asked_before)
            return reply
        if not reply.delivered:
            raise self._refusal(reply, self.shown)
        version = version_of(reply)
        if version is not None:
            # Each host has its own etags: a storage server's is not the Hub's.
            self._raise_if_changed("version", self._versions.setdefault(origin, version), version)
        if reply.total is not None:
            self._raise_if_changed("size", self._sizes.setdefault("size", reply.total), reply.total)
        return reply

    def _raise_if_changed(self, what: str, first: object, now: object) -> None:
        if first != now:
            raise ChangedWhileReading(
                self.shown,
                say("problem.remote-changed", what=what, first=str(first)[:70], now=str(now)[:70]),
                hint=say("hint.replaced"),
            )


def strong_etag(value: str | None) -> str | None:
    """Return an ETag that only equal bytes share; None for a weak one, which other bytes may have too."""
    return None if value is None or value.strip().startswith("W/") else plain_etag(value)


def version_of(reply: Reply) -> str | None:
    """Return what usually tells two versions of a file apart: the etag, else the time of the last change."""
    etag = plain_etag(reply.headers.get("ETag"))
    modified = plain_etag(reply.headers.get("Last-Modified"))
    return etag or (f"modified {modified}" if modified else None)


def http_refusal(reply: Reply, where: str) -> SourceError:
    """Say what a plain server's refusal means."""
    if reply.status in (404, 410):
        return NotFound(where, say("problem.no-file-answered", status=reply.status))
    if reply.status in (401, 403, 407):
        return AccessDenied(where, say("problem.access-refused", status=reply.status))
    return NetworkError(
        where, say("problem.server-answered", status=reply.status), hint=busy_hint(reply.status)
    )
