"""The ledger: every range that was read, from where, with its digest."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from .ranges import ByteRange, merged, total_length

Origin = Literal["network", "store", "disk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One range as it was read."""

    file: str
    start: int
    stop: int
    etag: str | None
    sha256: str
    """Empty where hashing would have slowed down a pass over local files."""
    origin: Origin
    """``network``, the range ``store``, or a file on ``disk`` (also one in the Hub's own cache)."""

    @property
    def n_bytes(self) -> int:
        """Length of the range."""
        return self.stop - self.start


FileState = Literal["verified", "whole", "sampled"]
"""``verified``: every byte was read and matches the published digest. ``whole``: every byte was read, but
no digest is published, or a large file was not read in order. ``sampled``: some bytes were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """What was read of one file."""

    file: str
    size: int
    n_bytes: int
    """Distinct bytes that were read."""
    state: FileState


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
    """Time spent reading, as seen by the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecord:
    """What was read of all models together."""

    requests: int
    bytes_fetched: int
    bytes_needed: int
    seconds: float

    @classmethod
    def of(cls, totals: Sequence[LedgerTotals]) -> ReadRecord:
        """Sum up ledgers of models that were read side by side."""
        return cls(
            requests=sum(item.requests for item in totals),
            bytes_fetched=sum(item.bytes_fetched for item in totals),
            bytes_needed=sum(item.bytes_needed for item in totals),
            seconds=max(item.seconds for item in totals),
        )


class Ledger:
    """Grows with every read. Thread-safe."""

    def __init__(self) -> None:
        self._entries: list[LedgerEntry] = []
        self._sizes: dict[str, int] = {}
        self._verified: set[str] = set()
        self._needed = 0
        self._seconds = 0.0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries, in the order in which the bytes arrived."""
        with self._lock:
            return tuple(self._entries)

    def add(self, entry: LedgerEntry, *, size: int) -> None:
        """Record one range of a file of `size` bytes."""
        with self._lock:
            self._entries.append(entry)
            self._sizes[entry.file] = size

    def verified(self, file: str) -> None:
        """Record that a file was read whole and matches its published digest."""
        with self._lock:
            self._verified.add(file)

    def files(self) -> tuple[FileReading, ...]:
        """Report for every file how much of it was read, and whether it was checked against its digest."""
        ranges: dict[str, list[ByteRange]] = {}
        for entry in self.entries:
            ranges.setdefault(entry.file, []).append(ByteRange(entry.start, entry.stop))
        found: list[FileReading] = []
        for file, extents in ranges.items():
            size, n_bytes = self._sizes[file], total_length(merged(extents))
            state: FileState = "whole" if n_bytes == size else "sampled"
            state = "verified" if file in self._verified else state
            found.append(FileReading(file=file, size=size, n_bytes=n_bytes, state=state))
        return tuple(found)

    def asked(self, ranges: Iterable[ByteRange], seconds: float) -> None:
        """Record what one request needed and how long it took."""
        with self._lock:
            self._needed += sum(item.length for item in ranges)
            self._seconds += seconds

    def totals(self, *, requests: int) -> LedgerTotals:
        """Sum up. Only the range client knows the number of requests."""
        entries = self.entries
        return LedgerTotals(
            requests=requests,
            bytes_fetched=sum(entry.n_bytes for entry in entries if entry.origin != "store"),
            bytes_needed=self._needed,
            cache_hits=sum(entry.origin == "store" for entry in entries),
            seconds=self._seconds,
        )
