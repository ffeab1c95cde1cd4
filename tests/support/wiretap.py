"""Connections that lead nowhere: who was dialled, what was sent, and a canned answer. No socket is opened.

The HTTP library believes that it connects, so that what it sends to whom is its own decision.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

PUBLIC, PRIVATE = "93.184.216.34", "10.11.12.13"
"""What names mean here: those that begin with ``inside`` are in a private network."""


@dataclass(slots=True)
class Dialled:
    """One connection as it was asked for."""

    host: str
    port: int
    address: str
    tls: bool = False
    sent: bytearray = field(default_factory=bytearray)

    @property
    def place(self) -> tuple[str, str, int]:
        """Scheme, host and port as they were dialled."""
        return ("https" if self.tls else "http"), self.host.lower(), self.port


Answerer = Callable[[Dialled], bytes]


class _Line:
    """As much of a socket as urllib3 and http.client use."""

    def __init__(self, dialled: Dialled, answer: Answerer, nothing: int) -> None:
        self.dialled = dialled
        self._answer = answer
        self._nothing = nothing

    def fileno(self) -> int:
        """Return what can always be read: the pool takes that for a connection that was closed."""
        return self._nothing

    def sendall(self, data: Any) -> None:
        self.dialled.sent += bytes(data)

    def makefile(self, *_: object, **__: object) -> io.BytesIO:
        return io.BytesIO(self._answer(self.dialled))

    def getpeername(self) -> tuple[str, int]:
        return self.dialled.address, self.dialled.port

    def settimeout(self, _: float | None) -> None:
        pass

    def shutdown(self, _: int) -> None:
        pass

    def close(self) -> None:
        pass


class _NoTimer:
    passed = False

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> _NoTimer:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def wiretap(answer: Answerer) -> Iterator[list[Dialled]]:
    """Answer every connection; yield the list of those that were made, which grows."""
    dialled: list[Dialled] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def addresses(host: str, port: int, *_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (meaning(host), port))]

    def connect(address: tuple[str, int], *_: object, **__: object) -> _Line:
        dialled.append(Dialled(address[0], address[1], meaning(address[0])))
        return _Line(dialled[-1], answer, nothing.fileno())

    def secure(*, sock: _Line, **_: object) -> tuple[_Line, bool]:
        sock.dialled.tls = True
        return sock, True

    with contextlib.ExitStack() as stack:
        nothing = stack.enter_context(Path(os.devnull).open("rb"))
        for target, put in {
            "socket.getaddrinfo": addresses,
            "urllib3.util.connection.create_connection": connect,
            "urllib3.connection._ssl_wrap_socket_and_match_hostname": secure,
            "modelkin.source.connections.trusted_certificates": lambda: context,
            # Nothing here takes time, and a thread for each request would.
            "modelkin.source.connections.Deadline": _NoTimer,
            "modelkin.source.http_client.Deadline": _NoTimer,
        }.items():
            stack.enter_context(mock.patch(target, put))
        yield dialled


def meaning(host: str) -> str:
    """Return the address of a host: numbers as they are, names by how they begin."""
    bare = host.strip("[]").partition("%")[0]
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, UnicodeEncodeError, ValueError):
            socket.inet_pton(family, bare)
            return bare
    return PRIVATE if bare.lower().startswith("inside") else PUBLIC
