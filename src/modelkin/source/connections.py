"""Kept connections: proxies and trusted certificates from the environment, and patience with headers.

Secrets are added here and nowhere earlier, once it is known who is at the other end. What else is sent, and
what a correct answer is, is up to `http_client.py`.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import os
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import unquote, urlsplit, urlunsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util import make_headers

from modelkin.errors import NetworkError
from modelkin.message import say
from modelkin.options import FetchOptions

from .address import Home, WebOrigin, is_inside

HEADER_PATIENCE = 2
"""All headers together may take this many times as long as a single byte may."""
_SECRET = frozenset({"authorization", "cookie", "proxy-authorization"})
_MOST_INTERIM = 16
"""Interim answers, such as 103 Early Hints, accepted before the real one."""
_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


class Connections:
    """Pools of connections, one set for each proxy and scheme. Thread-safe.

    `home` holds the secrets, and says who may be sent them or connected to.
    """

    def __init__(self, options: FetchOptions, home: Home) -> None:
        self._home = home
        self._settings: dict[str, Any] = {
            "num_pools": 8,
            "maxsize": options.connections,
            "block": True,
            "retries": False,
            "timeout": urllib3.Timeout(connect=options.connect_timeout, read=options.stall_timeout),
        }
        self._managers: dict[tuple[str | None, str], urllib3.PoolManager] = {}
        self._proxies: dict[WebOrigin, str | None] = {}
        self._lock = threading.Lock()

    def get(self, url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Send one GET and return its answer with the body unread; follow no redirect."""
        if any(name.lower() in _SECRET for name in headers):
            raise ValueError("secrets belong to the home, which hands them to its own connections alone")
        place = WebOrigin.of(url)
        if is_inside(place.host) is not None:  # before a proxy is asked to go there
            self._home.check(place, place.host)
        with _unlogged():
            return self._manager(place).request(
                "GET", url, headers=headers, redirect=False, preload_content=False, decode_content=False
            )

    def close(self) -> None:
        """Close every connection that is not in use."""
        with self._lock:
            managers, self._managers = list(self._managers.values()), {}
        for manager in managers:
            # Clearing a manager leaves its sockets to the garbage collector, which may take its time.
            for key in manager.pools.keys():  # noqa: SIM118  it cannot be walked over
                if (pool := manager.pools.get(key)) is not None:
                    pool.close()
            manager.clear()

    def _manager(self, place: WebOrigin) -> urllib3.PoolManager:
        with self._lock:
            if place not in self._proxies:
                self._proxies[place] = proxy_for(place.scheme, f"{place.host}:{place.port}")
            way = self._proxies[place], place.scheme
            if way not in self._managers:
                self._managers[way] = self._new_manager(*way)
            return self._managers[way]

    def _new_manager(self, proxy: str | None, scheme: str) -> urllib3.PoolManager:
        # Certificates are read only when needed: that takes as long as a request.
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
        manager.pool_classes_by_scheme = _pools(self._home)
        return manager


def proxy_for(scheme: str, host: str) -> str | None:
    """Return the proxy that the environment names for a host (``HTTPS_PROXY``, ``NO_PROXY`` …), if any."""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def trusted_certificates() -> ssl.SSLContext:
    """Trust what the environment names, as other Python clients do, or else what the system trusts."""
    for variable in _CA_VARIABLES:
        if path := os.environ.get(variable):
            try:
                if Path(path).is_dir():
                    return ssl.create_default_context(capath=path)
                return ssl.create_default_context(cafile=path)
            except OSError as error:
                raise NetworkError(variable, say("problem.no-certificates", path=path)) from error
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

    A socket's own timeout covers one receive, and each one may be in time: a server that sends a byte now and
    then would hold us forever.
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
            # Not SSLSocket.shutdown: it would hand the reader encrypted bytes.
            socket.socket.shutdown(stream, socket.SHUT_RDWR)


def stream_of(response: urllib3.BaseHTTPResponse) -> socket.socket | None:
    """Return the socket of an answer that is being read."""
    return getattr(response.connection, "stream", None)


# -- one connection ------------------------------------------------------------------------------------

if TYPE_CHECKING:
    _Base = HTTPConnection
else:
    _Base = object


class _Answer(http.client.HTTPResponse):
    """Skips interim answers, and refuses chunks of negative size."""

    _interim = 0

    def _read_status(self) -> tuple[str, int, str]:
        version, status, phrase = super()._read_status()  # type: ignore[misc]
        if 101 < status < 200:
            self._interim += 1
            if self._interim > _MOST_INTERIM:
                raise HTTPException("the real answer does not come")
            status = http.client.CONTINUE  # which http.client skips
        return version, status, phrase

    def _read_next_chunk_size(self) -> int:
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]
        if size < 0:  # http.client would read on without limit
            raise ValueError("a negative chunk")  # as for anything that is not a number
        return size


class _Guarded(_Base):
    """Adds secrets where they belong, and gives up on headers that never end.

    It keeps its socket, which http.client hands over to the response.
    """

    response_class = _Answer
    scheme: ClassVar[str]
    home: ClassVar[Home]
    stream: socket.socket | None = None

    def _new_conn(self) -> socket.socket:
        if self.proxy is not None:  # only the proxy knows what a name means there
            return super()._new_conn()
        place = self._place("/")
        if place != self.home.origin:
            with contextlib.suppress(OSError):  # an unknown name: connecting will report it
                for found in socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM):
                    self.home.check(place, str(found[4][0]))
        stream = super()._new_conn()
        try:
            # Checked again: the name may resolve differently by now.
            self.home.check(place, str(stream.getpeername()[0]))
        except BaseException:
            stream.close()
            raise
        return stream

    def putrequest(
        self, method: str, url: str, skip_host: bool = False, skip_accept_encoding: bool = False
    ) -> None:
        super().putrequest(method, url, skip_host=skip_host, skip_accept_encoding=skip_accept_encoding)
        for name, value in self.home.secrets_for(self._place(url)).items():
            self.putheader(name, value)

    def _place(self, url: str) -> WebOrigin:
        """Return who a request finally talks to: through a tunnel, through a proxy, or directly."""
        if self._tunnel_host is not None:
            host, port, scheme = self._tunnel_host, self._tunnel_port, "https"
        elif self.proxy is not None:
            return WebOrigin.of(url)
        else:
            host, port, scheme = self._dns_host, self.port, self.scheme
        return WebOrigin(scheme, host.strip("[]").lower(), port or 0)

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


def _pools(owner: Home) -> dict[str, type[urllib3.HTTPConnectionPool]]:
    """Return pools whose connections know which secrets they may carry."""

    class PlainConnection(_Guarded, HTTPConnection):
        scheme = "http"
        home = owner

    class SecureConnection(_Guarded, HTTPSConnection):
        scheme = "https"
        home = owner

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = PlainConnection

    class SecurePool(urllib3.HTTPSConnectionPool):
        ConnectionCls = SecureConnection

    return {"http": PlainPool, "https": SecurePool}


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
