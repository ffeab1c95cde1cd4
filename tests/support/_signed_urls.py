"""The addresses that a test Hub gives out for its CDN, and how long they work."""

from __future__ import annotations

import itertools
import threading
import time

from ._contents import Contents
from ._hub_options import HubOptions


class SignedUrls:
    """Every address given out so far. Thread-safe."""

    def __init__(self, options: HubOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._issued: dict[str, tuple[Contents, float]] = {}
        self._uses: dict[str, int] = {}

    def sign(self, file: Contents) -> str:
        """Return a path and query that give access to a file."""
        lifetime = self._options.url_seconds
        expires = int(time.time() + (3600 if lifetime is None else lifetime))
        with self._lock:
            place = f"/repos/{file.sha256[:2]}/{file.sha256}?Expires={expires}&sig={next(self._numbers):016x}"
            self._issued[place] = (file, time.monotonic())
            self._uses[place] = 0
        return place

    def use(self, place: str) -> Contents | None:
        """Return the file behind a URL, or None when it was never given out or no longer works."""
        with self._lock:
            if place not in self._issued:
                return None
            file, issued = self._issued[place]
            self._uses[place] += 1
            seconds, uses = self._options.url_seconds, self._options.url_uses
            if seconds is not None and time.monotonic() - issued > seconds:
                return None
            return None if uses is not None and self._uses[place] > uses else file

    def expire_all(self) -> None:
        """Forget every URL."""
        with self._lock:
            self._issued.clear()
