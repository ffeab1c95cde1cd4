"""A `HubServer` in a process of its own, so that it shares neither interpreter lock nor processor time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self, final

from tests.places import ROOT

from .hub_repo import Failure, Files, HubOptions, HubRepo, write_spec
from .loopback import Origin, RequestRecord

_PATIENCE = 30.0  # seconds for an interpreter to start on a busy machine


@final
class HubProcess:
    """The same server and the same counters as `HubServer`, for benchmarks.

    Parameters
    ----------
    repos, options
        As for `HubServer`.
    """

    def __init__(self, repos: Mapping[str, HubRepo | Files], options: HubOptions | None = None) -> None:
        options = options or HubOptions()
        if options.tls:
            raise ValueError("tls: a server in another process has a certificate nobody here knows")
        packages = str(ROOT)
        path = os.pathsep.join(filter(None, [packages, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support", "--spec", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(write_spec(repos, options)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise RuntimeError("the test Hub did not start; its own message is on standard error")
        addresses = json.loads(line)
        self.url: str = addresses["hub"]
        self.cdn_url: str = addresses["cdn"]

    @property
    def log(self) -> list[RequestRecord]:
        """A copy of the requests since the start or the last `reset`."""
        return [RequestRecord(**record) for record in self._control("log")]

    def n_requests(self, origin: Origin | None = None) -> int:
        """Return how many requests came to one origin, or to both."""
        return sum(each["n_requests"] for each in self._stats(origin))

    def bytes_sent(self, origin: Origin | None = None) -> int:
        """Return how many bytes of bodies one origin sent, or both."""
        return sum(each["bytes_sent"] for each in self._stats(origin))

    @property
    def n_faults(self) -> int:
        """How many requests went wrong by chance."""
        return int(self._control("faults"))

    def reset(self) -> None:
        """Empty the log."""
        self._control("reset")

    def fail(self, failure: Failure) -> None:
        """Answer the next matching requests wrongly."""
        self._control("fail", json.dumps(asdict(failure)).encode())

    def expire_urls(self) -> None:
        """Make every CDN URL given out so far answer 403."""
        self._control("expire-urls")

    def close(self) -> None:
        """End the process. Safe to call twice."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stats(self, origin: Origin | None) -> list[dict[str, int]]:
        stats: dict[str, dict[str, int]] = self._control("stats")
        return [each for name, each in stats.items() if origin in (None, name)]

    def _control(self, what: str, body: bytes | None = None) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/_control/{what}", data=body, timeout=_PATIENCE) as answer:
            return json.load(answer)
