"""The ledger: every range that was read, from where, with its digest."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .ranges import ByteRange

Origin = Literal["network", "store", "disk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One range as it was read."""

    file: str
    start: int
    stop: int
    etag: str | None
    sha256: str
    origin: Origin
    """``network``, the range ``store``, or a file on ``disk`` (also one in the Hub's own cache)."""

    @property
    def n_bytes(self) -> int:
        """Length of the range."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTotals:
    """The ledger in five numbers."""

    requests: int
    """Requests sent, retries and redirects included."""
    bytes_fetched: int
    """Bytes read from the network or a disk, not from the store."""
    bytes_needed: int
    """Bytes that were asked for."""
    cache_hits: int
    """Ranges that came from the store."""
    seconds: float
    """Time spent in reading, as seen by the caller."""


class Ledger:
    """Grows with every read. Thread-safe."""

    def __init__(self) -> None:
        self._entries: list[LedgerEntry] = []
        self._needed = 0
        self._seconds = 0.0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries, in the order in which the bytes came."""
        with self._lock:
            return tuple(self._entries)

    def add(self, entry: LedgerEntry) -> None:
        """Note one range."""
        with self._lock:
            self._entries.append(entry)

    def asked(self, ranges: Iterable[ByteRange], seconds: float) -> None:
        """Note what one question needed and how long it took."""
        with self._lock:
            self._needed += sum(item.length for item in ranges)
            self._seconds += seconds

    def totals(self, *, requests: int) -> LedgerTotals:
        """Sum up. The number of requests is the range client's to know."""
        entries = self.entries
        return LedgerTotals(
            requests=requests,
            bytes_fetched=sum(entry.n_bytes for entry in entries if entry.origin != "store"),
            bytes_needed=self._needed,
            cache_hits=sum(entry.origin == "store" for entry in entries),
            seconds=self._seconds,
        )
