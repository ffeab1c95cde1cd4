"""Kept connections: proxies and trusted certificates from the environment, and patience with headers.

What is sent over them and what a right answer is, is `http_client.py`'s.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit, urlunsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util import make_headers

from modelkin.errors import NetworkError
from modelkin.options import FetchOptions

HEADER_PATIENCE = 2
"""All headers together may take this many times as long as a single byte may."""
_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


class Connections:
    """Pools of connections, one set for each proxy and scheme. Thread-safe."""

    def __init__(self, options: FetchOptions) -> None:
        self._settings: dict[str, Any] = {
            "num_pools": 8,
            "maxsize": options.connections,
            "block": True,
            "retries": False,
            "timeout": urllib3.Timeout(connect=options.connect_timeout, read=options.stall_timeout),
        }
        self._managers: dict[tuple[str | None, str], urllib3.PoolManager] = {}
        self._proxies: dict[tuple[str, str], str | None] = {}
        self._lock = threading.Lock()

    def get(self, url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Send one GET and return its answer with the body still to be read; follow nothing."""
        with _unlogged():
            return self._manager(url).request(
                "GET", url, headers=headers, redirect=False, preload_content=False, decode_content=False
            )

    def close(self) -> None:
        """Close every connection that is not in use."""
        with self._lock:
            managers, self._managers = list(self._managers.values()), {}
        for manager in managers:
            manager.clear()

    def _manager(self, url: str) -> urllib3.PoolManager:
        parts = urlsplit(url)
        place = parts.scheme, parts.netloc.rpartition("@")[2]
        with self._lock:
            if place not in self._proxies:
                self._proxies[place] = proxy_for(*place)
            way = self._proxies[place], parts.scheme
            if way not in self._managers:
                self._managers[way] = self._new_manager(*way)
            return self._managers[way]

    def _new_manager(self, proxy: str | None, scheme: str) -> urllib3.PoolManager:
        # Certificates are read only where they are needed: it takes as long as a request.
        secure = "https" in (scheme, urlsplit(proxy or "").scheme)
        settings = {**self._settings, "ssl_context": trusted_certificates() if secure else None}
        if proxy is None:
            manager = urllib3.PoolManager(**settings)
        else:
            address, login = _without_login(proxy)
            headers = make_headers(proxy_basic_auth=login) if login else None
            manager = urllib3.ProxyManager(
                address, proxy_headers=headers, proxy_ssl_context=settings["ssl_context"], **settings
            )
        manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecurePool}
        return manager


def proxy_for(scheme: str, host: str) -> str | None:
    """Return the proxy that the environment names for a host (``HTTPS_PROXY``, ``NO_PROXY`` …), if any."""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def trusted_certificates() -> ssl.SSLContext:
    """Trust what the environment names, as other Python clients do; else what the system trusts."""
    for variable in _CA_VARIABLES:
        if path := os.environ.get(variable):
            try:
                if Path(path).is_dir():
                    return ssl.create_default_context(capath=path)
                return ssl.create_default_context(cafile=path)
            except OSError as error:
                raise NetworkError(variable, f"no certificates can be read from {path}") from error
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"]:
        # Some systems keep their certificates where OpenSSL does not look.
        with contextlib.suppress(ImportError):
            import certifi

            context.load_verify_locations(certifi.where())
    return context


def _without_login(url: str) -> tuple[str, str | None]:
    parts = urlsplit(url)
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), login


# -- patience ------------------------------------------------------------------------------------------


class Deadline:
    """Cuts a connection when its time is over.

    A socket's own time limit is for one receive, and each alone may be in time: a server that sends a byte
    now and then would hold us for ever.
    """

    def __init__(self, stream: socket.socket | None, seconds: float) -> None:
        self._stream = stream
        self._late = threading.Event()
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    @property
    def passed(self) -> bool:
        """Whether the connection was cut."""
        return self._late.is_set()

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _cut(self) -> None:
        self._late.set()
        cut(self._stream)


def cut(stream: socket.socket | None) -> None:
    """End a connection that another thread may be reading from."""
    with contextlib.suppress(OSError, TypeError):
        if stream is not None:
            # Not SSLSocket.shutdown: it would hand the reader undeciphered bytes.
            socket.socket.shutdown(stream, socket.SHUT_RDWR)


def stream_of(response: urllib3.BaseHTTPResponse) -> socket.socket | None:
    """Return the socket of an answer that is being read."""
    return getattr(response.connection, "stream", None)


if TYPE_CHECKING:
    _Base = HTTPConnection
else:
    _Base = object


class _TimedHeaders(_Base):
    """Gives up on headers that never end, and remembers its socket, which http.client gives away."""

    stream: socket.socket | None = None

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]
        self.stream = self.sock
        with Deadline(self.stream, HEADER_PATIENCE * float(self.timeout or 60.0)) as deadline:
            try:
                response = super().getresponse()
            except (OSError, HTTPException) as error:
                if deadline.passed:
                    raise TimeoutError("the headers take too long") from error
                raise
        if deadline.passed:  # the cut looks like the end of the headers
            response.close()
            raise TimeoutError("the headers take too long")
        return response


class _PlainConnection(_TimedHeaders, HTTPConnection):
    pass


class _SecureConnection(_TimedHeaders, HTTPSConnection):
    pass


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


# -- silence -------------------------------------------------------------------------------------------

_this_thread = threading.local()


class _NotOurs(logging.Filter):
    """Drops records made inside our requests: they name whole URLs, and a signed URL is a key."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_this_thread, "asking", False)


for _name in ("urllib3.connection", "urllib3.connectionpool", "urllib3.poolmanager", "urllib3.util.retry"):
    logging.getLogger(_name).addFilter(_NotOurs())


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    _this_thread.asking = True
    try:
        yield
    finally:
        _this_thread.asking = False
