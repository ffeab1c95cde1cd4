"""A server of a few files that misbehaves in one chosen way."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self, final
from urllib.parse import quote, unquote, urlsplit

from .answers import Contents, Servable, contents, file_answer, send_answer, text_answer
from .fault_acts import act
from .faults import Act, Fault
from .loopback import Connection, Loopback, Origin, Request, RequestLog, RequestRecord, bytes_sent, n_requests


@final
class BadServer:
    """Two origins on 127.0.0.1: one that misbehaves, and another that redirects can lead to.

    Use it as a context manager. Nothing it does outlasts `close`: stalls end, threads end.

    Parameters
    ----------
    files
        Served files by name; bare bytes are ``model.safetensors``.
    fault
        What it does wrong.
    times
        How many requests it treats so before it behaves well; None for all.
    after
        How many requests it treats well before that.
    only
        Text in the paths that may go wrong; "" for all. Other requests neither count nor fail.
    methods
        Methods that may go wrong. Other requests neither count nor fail.
    retry_after
        Seconds, for the faults that tell the client to wait.
    tls
        Whether the misbehaving origin speaks https. The other one speaks http.
    """

    def __init__(
        self,
        files: bytes | Mapping[str, Servable],
        fault: Fault,
        *,
        times: int | None = None,
        after: int = 0,
        only: str = "",
        methods: tuple[str, ...] = ("GET", "HEAD"),
        retry_after: int = 1,
        tls: bool = False,
    ) -> None:
        served: Mapping[str, Servable] = {"model.safetensors": files} if isinstance(files, bytes) else files
        self._files = {name: contents(source) for name, source in served.items()}
        self.fault = fault
        self._turns = _Turns(after, times)
        self._only = only
        self._methods = methods
        self._retry_after = retry_after
        self._log = RequestLog()
        self._other = Loopback(self._serve_other)
        self._main = Loopback(self._serve_main, tls=tls)

    def url(self, name: str = "model.safetensors") -> str:
        """Return the address of a file."""
        return f"{self._main.url}/{quote(name)}"

    @property
    def origin(self) -> str:
        """Address of the misbehaving origin, without a slash at its end."""
        return self._main.url

    @property
    def log(self) -> list[RequestRecord]:
        """A copy of the requests since the start or the last `reset`."""
        return self._log.records()

    def n_requests(self, origin: Origin | None = None) -> int:
        """Return how many requests came to `main`, to `other`, or to both."""
        return n_requests(self.log, origin)

    def bytes_sent(self, origin: Origin | None = None) -> int:
        """Return how many bytes of bodies left `main`, `other`, or both."""
        return bytes_sent(self.log, origin)

    def reset(self) -> None:
        """Empty the log. How often the fault still happens does not change."""
        self._log.reset()

    def close(self) -> None:
        """End every stall, connection and thread. Safe to call twice."""
        self._main.close()
        self._other.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serve_main(self, connection: Connection, request: Request) -> bool:
        file = self._file(request)
        turn = self._turn(request)
        if file is None or turn is None:
            return self._behave(file, connection, request, "main")
        return act(
            self.fault,
            Act(
                connection=connection,
                request=request,
                file=file,
                log=self._log,
                main=self._main.url,
                other=self._other.url,
                retry_after=self._retry_after,
                turn=turn,
            ),
        )

    def _serve_other(self, connection: Connection, request: Request) -> bool:
        return self._behave(self._file(request), connection, request, "other")

    def _behave(
        self, file: Contents | None, connection: Connection, request: Request, origin: Origin
    ) -> bool:
        if file is None:
            answer = text_answer(404, "no such file")
        else:
            answer = file_answer(file, request, etag=f'"{file.sha256}"')
        return send_answer(answer, connection, request, origin=origin, log=self._log)

    def _file(self, request: Request) -> Contents | None:
        return self._files.get(unquote(urlsplit(request.target).path).removeprefix("/"))

    def _turn(self, request: Request) -> int | None:
        matches = request.method in self._methods and self._only in request.target
        return self._turns.take() if matches else None


class _Turns:
    """Counts the requests that may go wrong. Thread-safe."""

    def __init__(self, after: int, times: int | None) -> None:
        self._after = after
        self._times = times
        self._taken = 0
        self._lock = threading.Lock()

    def take(self) -> int | None:
        """Count one request; return its number among those that go wrong, or None when it goes well."""
        with self._lock:
            turn = self._taken - self._after
            self._taken += 1
        wrong = turn >= 0 and (self._times is None or turn < self._times)
        return turn if wrong else None
