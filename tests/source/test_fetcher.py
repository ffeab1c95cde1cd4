"""The fetcher: right bytes for any question, planned beforehand, counted afterwards."""

from __future__ import annotations

import hashlib
import random
import tempfile
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkin.errors import BudgetExceeded, NotFound, SourceError, WrongBytes
from modelkin.message import Message, say
from modelkin.options import FetchOptions
from modelkin.source import ByteRange, Fetcher, FileInfo, Location, MemorySource, RangeStore, Source
from modelkin.source import fetcher as fetcher_module
from modelkin.source.interface import ByteBudget

from .support import quick

SIZE = 60_000
FILES = {name: random.Random(name).randbytes(SIZE) for name in ("a", "b")}


class Far(Source):
    """A memory source that counts as remote and notes what it is asked for."""

    def __init__(self, files: dict[str, bytes] = FILES, *, budget: ByteBudget | None = None) -> None:
        self._files = files
        self.budget = budget or ByteBudget()
        self.asked: list[tuple[str, ByteRange]] = []
        self.closed = 0
        self.in_flight = self.most_in_flight = 0
        self._lock = threading.Lock()

    @property
    def location(self) -> Location:
        return Location(kind="http", ref="far", origin="http://far")

    def files(self) -> dict[str, FileInfo]:
        return {name: FileInfo(name=name, size=len(data), etag="e") for name, data in self._files.items()}

    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        self.budget.reserve(wanted.length, where=file.name)
        with self._lock:
            self.asked.append((file.name, wanted))
            self.in_flight += wanted.length
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        data = self._files[file.name][wanted.start : wanted.stop]
        with self._lock:
            self.in_flight -= wanted.length
        return data

    @property
    def n_requests(self) -> int:
        return len(self.asked)

    def close(self) -> None:
        self.closed += 1


ranges = st.builds(
    lambda start, length: ByteRange(start, min(start + length, SIZE)),
    st.integers(0, SIZE),
    st.integers(0, 3_000),
)
questions = st.dictionaries(st.sampled_from("ab"), st.lists(ranges, max_size=8), max_size=2)


@pytest.fixture
def far() -> Far:
    return Far()


def fetcher_of(source: Source, store: RangeStore | None = None, **options: object) -> Fetcher:
    return Fetcher(source, quick(**options), store=store)


# -- bytes ----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    stored=questions,
    wanted=questions,
    gap=st.sampled_from([0, 10, 500, 100_000]),
    piece=st.sampled_from([700, 5_000, 1 << 20]),
)
def test_any_question_is_answered_rightly_whatever_is_stored(stored, wanted, gap, piece):
    with tempfile.TemporaryDirectory() as folder:
        store = RangeStore(Path(folder), limit=1 << 20)
        with fetcher_of(Far(), store, max_gap=0) as before:
            before.fetch(stored)
        source = Far()
        with fetcher_of(source, store, max_gap=gap, piece_bytes=piece) as fetcher:
            plan = fetcher.plan(wanted)
            assert source.asked == [], "planning sends nothing"
            fetched = fetcher.fetch(wanted)
            for file, items in wanted.items():
                for item in items:
                    assert fetched.view(file, item) == FILES[file][item.start : item.stop]
            assert sorted(source.asked) == sorted(plan.requests)
            totals = fetcher.totals()
            needed = {
                (file, at) for file, items in wanted.items() for i in items for at in range(i.start, i.stop)
            }
            assert plan.bytes_needed == totals.bytes_needed == len(needed)
            assert plan.bytes_to_fetch == totals.bytes_fetched
            had = {
                (file, at) for file, items in stored.items() for i in items for at in range(i.start, i.stop)
            }
            assert plan.bytes_stored == len(needed & had)
            assert plan.files == tuple(sorted({file for file, _ in plan.requests}))
            for entry in fetcher.ledger.entries:
                data = FILES[entry.file][entry.start : entry.stop]
                assert entry.sha256 == hashlib.sha256(data).hexdigest()
                assert entry.n_bytes == len(data)
        again = Far()
        with fetcher_of(again, store, max_gap=gap) as fetcher:
            fetcher.fetch(wanted)
            assert again.asked == [], "the second time nothing is asked"
            assert fetcher.totals().bytes_fetched == 0


def test_what_was_not_asked_for_cannot_be_viewed(far):
    fetched = fetcher_of(far, max_gap=0).fetch({"a": [ByteRange(0, 10), ByteRange(50_000, 50_010)]})
    assert fetched.view("a", ByteRange(3, 7)) == FILES["a"][3:7]
    for file, item in [("a", ByteRange(5, 50_005)), ("b", ByteRange(0, 1)), ("a", ByteRange(40_000, 40_001))]:
        with pytest.raises(KeyError, match="were not fetched"):
            fetched.view(file, item)


def test_ranges_outside_a_file_are_refused_before_anything_is_asked(far):
    with pytest.raises(WrongBytes, match="the file has 60000 bytes"):
        fetcher_of(far).fetch({"a": [ByteRange(0, 10)], "b": [ByteRange(0, SIZE + 1)]})
    with pytest.raises(NotFound, match="far/c: no such file in this model"):
        fetcher_of(far).fetch({"a": [ByteRange(0, 10)], "c": [ByteRange(0, 1)]})
    assert far.asked == []


def test_a_local_source_is_not_stored(store):
    fetcher = fetcher_of(MemorySource(FILES), store)
    fetcher.fetch({"a": [ByteRange(0, 100)]})
    assert not store.root.exists()
    assert [entry.origin for entry in fetcher.ledger.entries] == ["disk"]


def test_small_files_are_read_whole(far):
    fetcher = fetcher_of(far)
    assert fetcher.read_file("a", limit=SIZE) == FILES["a"]
    assert fetcher.read_file("a", limit=SIZE - 1) is None
    assert fetcher.read_file("nothing", limit=10) is None
    assert fetcher_of(Far({"empty": b""})).read_file("empty", limit=10) == b""


def test_damage_in_the_store_only_costs_a_request(far, store):
    wanted = {"a": [ByteRange(0, 1_000)]}
    fetcher_of(far, store).fetch(wanted)
    for path in (store.root / "v1" / "objects").rglob("*"):
        if path.is_file():
            path.write_bytes(b"x" * 1_000)
    again = Far()
    fetched = fetcher_of(again, store).fetch(wanted)
    assert fetched.view("a", ByteRange(0, 1_000)) == FILES["a"][:1_000]
    assert again.n_requests == 1


# -- budget and failure ---------------------------------------------------------------------------------


def test_a_plan_that_exceeds_the_budget_sends_nothing(store):
    source = Far(budget=ByteBudget(5_000))
    fetcher = fetcher_of(source, store, max_gap=0)
    wanted = {"a": [ByteRange(0, 3_000)], "b": [ByteRange(0, 3_000)]}
    with pytest.raises(BudgetExceeded, match="6,000 more bytes are needed"):
        fetcher.fetch(wanted)
    assert source.asked == []
    fetcher.fetch({"a": [ByteRange(0, 3_000)]})
    with pytest.raises(BudgetExceeded, match="3,000 of the budget of 5,000"):
        fetcher.fetch({"b": [ByteRange(0, 3_000)]})
    fetcher.fetch({"a": [ByteRange(0, 3_000)]})  # stored: costs nothing


class Failing(Far):
    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        if wanted.start == 20_000:
            raise SourceError(file.name, say("quoted", text="this one fails"))
        threading.Event().wait(0.01)
        return super()._read(file, wanted)


def test_one_failure_cancels_the_rest(store):
    source = Failing()
    fetcher = fetcher_of(source, store, max_gap=0, connections=2)
    wanted = [ByteRange(start, start + 10) for start in range(0, SIZE - 100, 200)]
    wanted = sorted(wanted, key=lambda item: item.start != 20_000)
    before = threading.active_count()
    with pytest.raises(SourceError, match="this one fails"):
        fetcher.fetch({"a": wanted})
    fetcher.close()
    assert source.n_requests < 150, "most were never asked"
    assert threading.active_count() <= before
    assert not any(thread.name.startswith("modelkin-read") for thread in threading.enumerate())


def test_a_stream_that_is_left_early_leaves_nothing_behind(far):
    fetcher = fetcher_of(far, piece_bytes=1_000)
    stream = fetcher.stream(("a", ByteRange(start, start + 1_000)) for start in range(0, SIZE, 1_000))
    assert next(stream) == FILES["a"][:1_000]
    stream.close()
    fetcher.close()
    fetcher.close()
    assert far.closed == 2
    with pytest.raises(ValueError, match="this fetcher is closed"):
        fetcher.fetch({"a": [ByteRange(0, 10), ByteRange(50_000, 50_010)], "b": [ByteRange(0, 1)]})


# -- streaming ------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    wanted=st.lists(st.tuples(st.sampled_from("ab"), ranges), max_size=30),
    stored=questions,
    gap=st.sampled_from([0, 10, 100_000]),
)
def test_a_stream_yields_what_was_asked_in_order(wanted, stored, gap):
    with tempfile.TemporaryDirectory() as folder:
        store = RangeStore(Path(folder), limit=1 << 20)
        with fetcher_of(Far(), store) as before:
            before.fetch(stored)
        with fetcher_of(Far(), store, max_gap=gap, piece_bytes=3_000) as fetcher:
            found = [bytes(view) for view in fetcher.stream(iter(wanted))]
            assert found == [FILES[file][item.start : item.stop] for file, item in wanted]
            assert fetcher.totals().bytes_needed == sum(item.length for _, item in wanted)


def test_a_stream_reads_neighbours_together_and_stores_nothing(far, store):
    fetcher = fetcher_of(far, store, piece_bytes=10_000)
    wanted = [("a", ByteRange(start, start + 500)) for start in range(0, SIZE, 500)]
    for _ in fetcher.stream(iter(wanted)):
        pass
    assert far.n_requests == 6
    assert store.info().n_objects == 0


def test_a_stream_does_not_waste_more_than_it_may():
    big = Far({"a": bytes(4 << 20)})
    fetcher = fetcher_of(big, max_gap=1 << 20, max_waste=0.05)
    wanted = [("a", ByteRange(start, start + 100)) for start in range(0, 4 << 20, 100_000)]
    list(fetcher.stream(iter(wanted)))
    assert sum(item.length for _, item in big.asked) < len(wanted) * 100 + len(wanted) * 64 * 1024


def test_a_streamed_range_is_at_most_a_piece(far):
    with pytest.raises(ValueError, match="a streamed range is at most 100 bytes, got 101"):
        list(fetcher_of(far, piece_bytes=100).stream([("a", ByteRange(0, 101))]))


class Endless(Far):
    """One huge file of zeros."""

    def files(self) -> dict[str, FileInfo]:
        return {"a": FileInfo(name="a", size=1 << 40, etag="e")}

    def _read(self, file: FileInfo, wanted: ByteRange) -> bytes:
        with self._lock:
            self.asked.append((file.name, wanted))
        return bytes(wanted.length)


def test_a_stream_stays_within_its_memory(monkeypatch):
    monkeypatch.setattr(fetcher_module, "READ_AHEAD", 4 << 20)
    source = Endless()
    piece = 1 << 20
    fetcher = Fetcher(source, FetchOptions(piece_bytes=piece, connections=4))
    tracemalloc.start()
    try:
        n_bytes = 0
        for view in fetcher.stream(("a", ByteRange(at, at + piece)) for at in range(0, 128 << 20, piece)):
            n_bytes += len(view)
            assert len(source.asked) * piece - n_bytes <= (4 << 20) + piece, "no more is read ahead"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        fetcher.close()
    assert n_bytes == 128 << 20
    assert peak < 9 << 20


# -- ledger ---------------------------------------------------------------------------------------------


class Finder(Far):
    """Finding a file brings its first bytes, as on a web server."""

    def __init__(self) -> None:
        super().__init__()
        self._heads: list[tuple[FileInfo, bytes]] = [
            (FileInfo(name="a", size=SIZE, etag="e"), FILES["a"][:5_000])
        ]

    def take_heads(self) -> Iterator[tuple[FileInfo, bytes]]:
        heads, self._heads = self._heads, []
        return iter(heads)


def test_what_finding_brought_is_used_stored_and_counted_once(store):
    source = Finder()
    fetcher = fetcher_of(source, store, max_gap=0)
    assert fetcher.plan({"a": [ByteRange(0, 100)]}).requests == ()
    fetched = fetcher.fetch({"a": [ByteRange(0, 100), ByteRange(4_000, 6_000)]})
    assert fetched.view("a", ByteRange(4_000, 6_000)) == FILES["a"][4_000:6_000]
    assert source.asked == [("a", ByteRange(5_000, 6_000))]
    assert list(fetcher.stream([("a", ByteRange(10, 20))])) == [FILES["a"][10:20]]
    assert [(entry.start, entry.stop, entry.origin) for entry in fetcher.ledger.entries] == [
        (0, 5_000, "network"),
        (5_000, 6_000, "network"),
    ]
    assert fetcher.totals().bytes_fetched == 6_000
    assert store.extents(fetcher.source.stored_as(source.files()["a"])) == [
        ByteRange(0, 5_000),
        ByteRange(5_000, 6_000),
    ]


def test_the_totals_tell_network_store_and_disk_apart(far, store):
    wanted = {"a": [ByteRange(0, 1_000)]}
    fetcher_of(far, store).fetch(wanted)
    fetcher = fetcher_of(far, store, max_gap=0)
    fetcher.fetch({"a": [ByteRange(500, 2_000)]})
    totals = fetcher.totals()
    assert (totals.bytes_needed, totals.bytes_fetched, totals.cache_hits) == (1_500, 1_000, 1)
    assert totals.requests == far.n_requests == 2
    assert totals.seconds >= 0
    assert {entry.origin for entry in fetcher.ledger.entries} == {"store", "network"}
    assert len(fetcher.ledger) == 2


class Told:
    """A progress bar that remembers."""

    def __init__(self) -> None:
        self.tasks: list[tuple[Message, int | None]] = []
        self.done = 0

    def start(self, task: Message, total: int | None) -> None:
        self.tasks.append((task, total))

    def advance(self, amount: int) -> None:
        self.done += amount

    def note(self, message: object) -> None:
        pass

    def count(self, done: int, total: int, message: object = None) -> None:
        pass


def test_progress_is_told_what_is_fetched(far, store):
    told = Told()
    fetcher = Fetcher(far, quick(max_gap=0), store=store, progress=told)
    fetcher.fetch({"a": [ByteRange(0, 1_000), ByteRange(5_000, 5_500)]}, task=say("step-headers"))
    fetcher.fetch({"a": [ByteRange(0, 1_000)]}, task=say("step-reading"))
    assert told.tasks == [(say("step-headers"), 1_500)]
    assert told.done == 1_500
