"""Wanted ranges in, bytes out: store, plan, budget, concurrent reading, ledger."""

from __future__ import annotations

import bisect
import hashlib
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

from modelkin.errors import WrongBytes
from modelkin.message import Message, say
from modelkin.options import MIB, FetchOptions
from modelkin.progress import Progress, Silent

from ._whole import WholeFiles
from .interface import FileInfo, Source
from .ledger import Ledger, LedgerEntry, LedgerTotals, Origin
from .ranges import FREE_WASTE, BytePlan, ByteRange, merged, plan_requests, subtracted, total_length
from .store import RangeStore

_READING = say("step-reading")
READ_AHEAD = 64 * MIB
"""Most bytes in flight or waiting while a whole model is streamed."""
MOST_HEADS = 32 * MIB
"""Bytes kept in memory of the first bytes that a source reads to find its files."""
LOCAL_THREADS = 2
"""More readers do not make a disk faster, and each holds a piece in memory."""

DigestOrigin = Literal["published", "computed", "unknown"]
"""Where the digest of a whole file comes from."""

_Piece = tuple[ByteRange, memoryview]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Bytes in memory, addressed as in their file."""

    _pieces: Mapping[str, list[_Piece]] = field(repr=False)

    def view(self, file: str, wanted: ByteRange) -> memoryview:
        """Return exactly the wanted bytes, which must have been fetched; without a copy where possible."""
        pieces = self._pieces.get(file, [])
        first = bisect.bisect_right(pieces, wanted.start, key=lambda piece: piece[0].start) - 1
        parts: list[memoryview] = []
        position = wanted.start
        for extent, data in pieces[max(first, 0) :]:
            if position >= wanted.stop or extent.start > position:
                break
            stop = min(extent.stop, wanted.stop)
            parts.append(data[position - extent.start : stop - extent.start])
            position = stop
        if position < wanted.stop:
            raise KeyError(f"bytes {wanted} of {file} were not fetched")
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


class Fetcher:
    """Reads ranges of one model's files, each byte only once where possible."""

    def __init__(
        self,
        source: Source,
        options: FetchOptions,
        *,
        store: RangeStore | None = None,
        progress: Progress | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.source = source
        self.ledger = Ledger() if ledger is None else ledger  # an empty one counts as false
        self._options = options
        self._store = store if source.remote else None
        self._progress = progress or Silent()
        self._threads = options.connections if source.remote else LOCAL_THREADS
        self._heads: dict[str, _Piece] = {}
        self._whole = WholeFiles()
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def connections(self) -> int:
        """Requests in flight."""
        return self._threads

    # -- asking ----------------------------------------------------------------------------------------

    def plan(self, wanted: Mapping[str, Sequence[ByteRange]], *, max_waste: float | None = None) -> BytePlan:
        """Say what `fetch` would request, and request nothing."""
        needed = self._needed(wanted)
        missing = {file: subtracted(ranges, self._held(file, ranges)) for file, ranges in needed.items()}
        n_needed = sum(map(total_length, needed.values()))
        return BytePlan(
            requests=self._missing_requests(missing, needed, max_waste),
            bytes_needed=n_needed,
            bytes_stored=n_needed - sum(map(total_length, missing.values())),
        )

    def cost(self, wanted: Mapping[str, Sequence[ByteRange]], *, max_waste: float | None = None) -> int:
        """Return the bytes that `fetch` would read if nothing were stored: the same in every run."""
        return _n_bytes(self._requests(wanted, max_waste))

    def fetch(
        self,
        wanted: Mapping[str, Sequence[ByteRange]],
        *,
        task: Message = _READING,
        max_waste: float | None = None,
    ) -> Fetched:
        """Read all wanted ranges in one planned, concurrent pass; progress shows the `task`.

        `max_waste` replaces the option of this name: with many short ranges, the bytes between them are
        cheaper.
        """
        began = time.monotonic()
        needed = self._needed(wanted)
        pieces = {file: self._had(file, ranges) for file, ranges in needed.items()}
        missing = {
            file: subtracted(ranges, (extent for extent, _ in pieces[file]))
            for file, ranges in needed.items()
        }
        requests = self._missing_requests(missing, needed, max_waste)
        total = _n_bytes(requests)
        self.source.budget.check(total, where=self.source.location.ref)
        if requests:
            self._progress.start(task, total)
        for (file, item), data in zip(requests, self._read_all(requests), strict=True):
            pieces[file].append((item, memoryview(data)))
        for file, items in pieces.items():
            items.sort(key=lambda piece: piece[0])
            self._judge(file, items)
        self.ledger.asked((item for ranges in needed.values() for item in ranges), time.monotonic() - began)
        return Fetched({file: _without_overlap(items) for file, items in pieces.items()})

    def stream(
        self, wanted: Iterable[tuple[str, ByteRange]], *, task: Message = _READING, digested: bool = True
    ) -> Generator[memoryview, None, None]:
        """Yield the wanted ranges one by one, in order, in bounded memory.

        Neighbouring ranges are read together, and the next ones ahead of time. Nothing is kept in the store:
        a pass over a whole model would only drive everything else out of it. If `digested`, ranges of files
        on this machine get their digest in the ledger too, which takes six times as long as reading them.
        """
        self._adopt_heads()
        batches = deque[tuple[_Batch, Future[list[_Piece]]]]()
        in_flight = 0
        self._progress.start(task, None)
        try:
            for batch in _batches(wanted, self._options):
                while batches and in_flight + batch.extent.length > READ_AHEAD:
                    done, future = batches.popleft()
                    in_flight -= done.extent.length
                    yield from self._unpacked(done, future)
                batches.append((batch, self._executor().submit(self._read_batch, batch, digested)))
                in_flight += batch.extent.length
            while batches:
                yield from self._unpacked(*batches.popleft())
        finally:
            for _, future in batches:
                future.cancel()

    @contextmanager
    def mapped(self, file: str, wanted: ByteRange, *, digested: bool = True) -> Iterator[memoryview]:
        """Expose a range of a local file while the context is open; nothing is read ahead or kept.

        It becomes one ledger entry, `digested` as for `stream`.
        """
        info = self.source.need(file)
        began = time.monotonic()
        with self.source.mapped(info, wanted) as shown:
            digest = hashlib.sha256(shown).hexdigest() if digested else ""
            yield shown
        self._note(info, wanted, digest, "disk")
        self.ledger.asked([wanted], time.monotonic() - began)
        self._progress.advance(wanted.length)

    def read_file(self, name: str, *, limit: int) -> bytes | None:
        """Return a whole small file, or None if there is none; refuse one longer than `limit`."""
        info = self.source.find(name)
        if info is None or info.size > limit:
            return None
        if info.size == 0:
            return b""
        whole = ByteRange(0, info.size)
        return bytes(self.fetch({name: [whole]}, task=say("step-reading-file", name=name)).view(name, whole))

    def digest(self, name: str) -> tuple[str | None, DigestOrigin]:
        """Return the SHA-256 of a whole file and its origin: published, or computed for a local file."""
        info = self.source.need(name)
        if info.sha256:
            return info.sha256, "published"
        if not self.source.is_on_disk(info):
            return None, "unknown"
        digest = hashlib.sha256()
        for start in range(0, info.size, self._options.piece_bytes):
            stop = min(start + self._options.piece_bytes, info.size)
            digest.update(self.source.read_range(info, ByteRange(start, stop)))
        return digest.hexdigest(), "computed"

    def totals(self) -> LedgerTotals:
        """Sum up what has been read so far."""
        self._adopt_heads()
        return self.ledger.totals(requests=self.source.n_requests)

    def close(self) -> None:
        """Close the source, which ends pending reads, and wait for the threads. Safe to call twice."""
        with self._lock:
            pool, self._pool = self._pool, None
            self._closed = True
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
        self.source.close()
        if pool is not None:
            pool.shutdown(wait=True)

    # -- what is here already --------------------------------------------------------------------------

    def _needed(self, wanted: Mapping[str, Sequence[ByteRange]]) -> dict[str, list[ByteRange]]:
        needed = {file: merged(ranges) for file, ranges in wanted.items()}
        for file, ranges in needed.items():
            size = self.source.need(file).size
            if ranges and ranges[-1].stop > size:
                raise WrongBytes(file, say("problem.beyond-file", wanted=str(ranges[-1]), size=size))
        self._adopt_heads()
        return needed

    def _held(self, file: str, ranges: list[ByteRange]) -> list[ByteRange]:
        """Return the stored ranges that overlap wanted ones."""
        held = [self._heads[file][0]] if file in self._heads else []
        info = self.source.need(file)
        if (store := self._store_for(info)) is not None:
            held += store.extents(self.source.stored_as(info), ranges)
        return held

    def _had(self, file: str, ranges: list[ByteRange]) -> list[_Piece]:
        """Return the pieces that need no request."""
        pieces = [self._heads[file]] if file in self._heads else []
        return pieces + list(self._from_store(file, subtracted(ranges, (extent for extent, _ in pieces))))

    def _from_store(self, file: str, ranges: list[ByteRange]) -> Iterator[_Piece]:
        info = self.source.need(file)
        store = self._store_for(info)
        if store is None or not ranges:
            return
        for extent, digest, data in store.load(self.source.stored_as(info), ranges):
            self._note(info, extent, digest, "store")
            yield extent, memoryview(data)

    def _adopt_heads(self) -> None:
        """Take over what the source had to read to find its files, as if it had been requested."""
        for info, data in self.source.take_heads():
            item = ByteRange(0, len(data))
            if item.length:
                store = self._store_for(info)
                if store is not None and not store.agrees(self.source.stored_as(info), item, data):
                    store.drop(self.source.stored_as(info))  # same name, different file
                self._take(info, item, data, "network")
                self._heads[info.name] = (item, memoryview(data))
                while sum(len(held) for _, held in self._heads.values()) > MOST_HEADS:
                    del self._heads[next(iter(self._heads))]

    def _store_for(self, info: FileInfo) -> RangeStore | None:
        """Return the store, unless nothing can tell this version of the file from the next."""
        nameless = info.etag is None and self.source.stored_as(info).revision is None
        return None if nameless else self._store

    # -- reading ---------------------------------------------------------------------------------------

    def _missing_requests(
        self,
        missing: Mapping[str, Sequence[ByteRange]],
        needed: Mapping[str, Sequence[ByteRange]],
        max_waste: float | None,
    ) -> tuple[tuple[str, ByteRange], ...]:
        """Plan the missing ranges, at no more than the `cost` of reading everything.

        Stored ranges leave gaps, and bridging those could fetch more than the store saves.
        """
        requests = self._requests(missing, max_waste)
        # If nothing is stored, these are the requests for everything.
        if missing != needed and _n_bytes(requests) > self.cost(needed, max_waste=max_waste):
            return self._requests(missing, max_waste, max_gap=0)
        return requests

    def _requests(
        self,
        missing: Mapping[str, Sequence[ByteRange]],
        max_waste: float | None,
        *,
        max_gap: int | None = None,
    ) -> tuple[tuple[str, ByteRange], ...]:
        return plan_requests(
            missing,
            max_gap=self._options.max_gap if max_gap is None else max_gap,
            max_waste=self._options.max_waste if max_waste is None else max_waste,
            piece_bytes=self._options.piece_bytes,
            connections=self._threads,
        )

    def _read_all(self, requests: Sequence[tuple[str, ByteRange]]) -> Iterator[bytes]:
        if len(requests) < 2:
            yield from (self._read(file, item) for file, item in requests)
            return
        futures = [self._executor().submit(self._read, file, item) for file, item in requests]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()

    def _read(self, file: str, item: ByteRange, *, keep: bool = True, digested: bool = True) -> bytes:
        info = self.source.need(file)
        data = self.source.read_range(info, item)
        if self.source.is_on_disk(info) and not digested:
            self._note(info, item, "", "disk")
        else:
            self._take(info, item, data, "disk" if self.source.is_on_disk(info) else "network", keep=keep)
        self._progress.advance(item.length)
        return data

    def _take(
        self, info: FileInfo, item: ByteRange, data: bytes, origin: Origin, *, keep: bool = True
    ) -> None:
        """Record received bytes in the ledger, and store them unless they are on this machine anyway."""
        digest = hashlib.sha256(data).hexdigest()
        store = self._store_for(info)
        if keep and store is not None and origin == "network":
            store.save(self.source.stored_as(info), item, data, digest=digest)
        self._note(info, item, digest, origin)

    def _read_batch(self, batch: _Batch, digested: bool) -> list[_Piece]:
        pieces = self._had(batch.file, [batch.extent])
        for hole in subtracted([batch.extent], (extent for extent, _ in pieces)):
            read = self._read(batch.file, hole, keep=False, digested=digested)
            pieces.append((hole, memoryview(read)))
        return _without_overlap(sorted(pieces, key=lambda piece: piece[0]))

    def _unpacked(self, batch: _Batch, future: Future[list[_Piece]]) -> Iterator[memoryview]:
        began = time.monotonic()
        pieces = future.result()
        self._judge(batch.file, pieces)
        fetched = Fetched({batch.file: pieces})
        self.ledger.asked(batch.ranges, time.monotonic() - began)
        for item in batch.ranges:
            yield fetched.view(batch.file, item)

    def _note(self, info: FileInfo, item: ByteRange, digest: str, origin: Origin) -> None:
        self.ledger.add(
            LedgerEntry(
                file=info.name, start=item.start, stop=item.stop, etag=info.etag, sha256=digest, origin=origin
            ),
            size=info.size,
        )

    def _judge(self, file: str, pieces: Sequence[_Piece]) -> None:
        """Check a file that was read to its end against its published digest."""
        info = self.source.need(file)
        try:
            if self._whole.add(info, pieces):
                self.ledger.verified(file)
        except WrongBytes:
            if (store := self._store_for(info)) is not None:
                store.drop(self.source.stored_as(info))
            raise

    def _executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._closed:
                raise ValueError("this fetcher is closed")
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="modelkin-read")
            return self._pool


def _n_bytes(requests: Iterable[tuple[str, ByteRange]]) -> int:
    return sum(item.length for _, item in requests)


@dataclass(slots=True)
class _Batch:
    """Neighbouring wanted ranges of one file, read as one."""

    file: str
    ranges: list[ByteRange]
    extent: ByteRange
    waste: int = 0

    def takes(self, file: str, item: ByteRange, options: FetchOptions) -> bool:
        """Add a range if it is near enough to be read with this batch."""
        gap = item.start - self.extent.stop
        length = item.stop - self.extent.start
        affordable = self.waste + gap <= max(options.max_waste * length, FREE_WASTE)
        near = 0 <= gap <= options.max_gap and affordable
        if file != self.file or not near or length > options.piece_bytes:
            return False
        self.ranges.append(item)
        self.extent = ByteRange(self.extent.start, item.stop)
        self.waste += gap
        return True


def _batches(wanted: Iterable[tuple[str, ByteRange]], options: FetchOptions) -> Iterator[_Batch]:
    batch: _Batch | None = None
    for file, item in wanted:
        if item.length > options.piece_bytes:
            raise ValueError(f"a streamed range is at most {options.piece_bytes} bytes, got {item.length}")
        if batch is not None and batch.takes(file, item, options):
            continue
        if batch is not None:
            yield batch
        batch = _Batch(file, [item], item)
    if batch is not None:
        yield batch


def _without_overlap(pieces: list[_Piece]) -> list[_Piece]:
    """Trim sorted pieces so that each byte is in only one: the store may hold overlapping ranges."""
    result: list[_Piece] = []
    position = 0
    for extent, data in pieces:
        start = max(extent.start, position)
        if start < extent.stop:
            result.append((ByteRange(start, extent.stop), data[start - extent.start :]))
            position = extent.stop
    return result
