"""Connections: proxies of the environment, and silence about what is asked."""

from __future__ import annotations

import base64
import logging
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from tests.support import BadServer, Fault, certificate_pem

from modelkin.errors import NetworkError
from modelkin.options import FetchOptions
from modelkin.source import ByteRange
from modelkin.source.address import Home
from modelkin.source.connections import Connections, proxy_for
from modelkin.source.http_client import RangeClient
from modelkin.source.interface import ByteBudget

from .support import everything_said, quick

DATA = bytes(range(256)) * 100
LOGIN = "proxy-user:proxy-secret"


class Proxy:
    """The smallest proxy that can forward http and tunnel https."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str | None]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._closing = False
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            stream, _ = self._listener.accept()
            if self._closing:
                stream.close()
                return
            thread = threading.Thread(target=self._serve, args=[stream], daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = client.recv(65536)
                    if not piece:
                        return
                    head += piece
                lines = head.decode("latin-1").split("\r\n")
                method, target, _ = lines[0].split(" ")
                headers = {
                    name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines[1:])
                }
                self.requests.append((method, target, headers.get("proxy-authorization")))
                host = target if method == "CONNECT" else urlsplit(target).netloc
                name, _, port = host.partition(":")
                with socket.create_connection((name, int(port)), timeout=10) as server:
                    if method == "CONNECT":
                        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        self._tunnel(client, server)
                        return
                    path = urlsplit(target).path
                    kept = [
                        line for line in lines[1:] if not line.lower().startswith(("proxy-", "connection"))
                    ]
                    server.sendall("\r\n".join([f"GET {path} HTTP/1.1", "Connection: close", *kept]).encode())
                    while piece := server.recv(65536):
                        client.sendall(piece)
                    return

    def _tunnel(self, one: socket.socket, other: socket.socket) -> None:
        while not self._closing:
            readable, _, _ = select.select([one, other], [], [], 0.05)
            for stream in readable:
                piece = stream.recv(65536)
                if not piece:
                    return
                (other if stream is one else one).sendall(piece)

    def close(self) -> None:
        self._closing = True
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._acceptor.join()
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy()
    yield made
    made.close()


@pytest.fixture
def client() -> Iterator[RangeClient]:
    made = client_at("http://127.0.0.1")
    yield made
    made.close()


def client_at(url: str) -> RangeClient:
    home = Home(url, {"Authorization": "Bearer token"})
    return RangeClient(quick(retries=0, stall_timeout=5.0), ByteBudget(), home=home)


WANTED = ByteRange(100, 200)


@pytest.mark.parametrize("login", ["", f"{LOGIN}@"])
@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY"])
def test_http_goes_through_the_proxy(proxy, client, monkeypatch, variable, login):
    monkeypatch.setenv(variable, f"http://{login}127.0.0.1:{proxy.port}")
    with BadServer(DATA, Fault.NONE) as server:
        assert client.get(server.url(), WANTED, headers={}).body == DATA[100:200]
    expected = f"Basic {base64.b64encode(LOGIN.encode()).decode()}" if login else None
    assert proxy.requests == [("GET", server.url(), expected)]


def test_https_goes_through_a_tunnel(proxy, monkeypatch, tmp_path):
    (tmp_path / "ca.pem").write_text(certificate_pem())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("HTTPS_PROXY", f"http://{LOGIN}@127.0.0.1:{proxy.port}")
    with BadServer(DATA, Fault.NONE, tls=True) as server:
        client = client_at(server.url())
        for _ in range(2):
            answer = client.get(server.url(), WANTED, headers={})
            assert answer.body == DATA[100:200]
        assert [record.authorization for record in server.log] == ["Bearer token"] * 2
        assert [(method, target) for method, target, _ in proxy.requests] == [
            ("CONNECT", urlsplit(server.origin).netloc)
        ], "one tunnel serves both, and the proxy sees neither path nor token"
        client.close()


@pytest.mark.parametrize("bypass", ["127.0.0.1", "*", "localhost,127.0.0.1"])
def test_no_proxy_is_honoured(proxy, client, monkeypatch, bypass):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", bypass)
    with BadServer(DATA, Fault.NONE) as server:
        assert client.get(server.url(), WANTED, headers={}).body == DATA[100:200]
    assert proxy.requests == []


def test_a_proxy_without_scheme_speaks_http(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    assert proxy_for("https", "host") == "http://proxy.example:3128"
    assert proxy_for("http", "host") is None


@pytest.mark.parametrize("address", [f"http://{LOGIN}@127.0.0.1:9", f"socks5://{LOGIN}@127.0.0.1:9"])
def test_a_proxy_that_does_not_work_is_named_without_its_password(client, monkeypatch, address):
    monkeypatch.setenv("HTTP_PROXY", address)
    with pytest.raises(NetworkError, match=r"proxy|cannot be used|connection") as caught:
        client.get("http://127.0.0.1:9/x", WANTED, headers={})
    assert "proxy-secret" not in everything_said(caught.value)


def test_requests_leave_no_trace_in_other_peoples_logs(client, caplog):
    caplog.set_level(logging.DEBUG)
    with BadServer(DATA, Fault.NONE) as server:
        client.get(f"{server.url()}?sig=secret", WANTED, headers={})
        assert "secret" not in caplog.text
        other = Connections(FetchOptions(), Home("http://host"))
        logging.getLogger("urllib3.connectionpool").debug("said by somebody else")
        assert "said by somebody else" in caplog.text
        other.close()
