"""One set of tests for every kind of source: what is read must not depend on where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import BadServer, Fault, HubOptions, HubServer, certificate_pem

from modelkin.errors import BudgetExceeded, ModelkinError, NotFound, SourceError, WrongBytes
from modelkin.source import ByteRange, Fetcher, MemorySource, ModelRef, Source, open_source
from modelkin.source.interface import ByteBudget

from .support import FILES, TOKEN, WEIGHTS, quick

BIG = "model.safetensors"


@dataclass
class Place:
    """The same four files in one kind of place."""

    kind: str
    open: Callable[..., Source]
    n_requests: Callable[[], int]
    has_listing: bool = True


@pytest.fixture(params=["memory", "folder", "file", "hub", "http", "https", "s3", "s3-file"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    kind = request.param
    with ExitStack() as stack:
        if kind == "memory":
            yield Place(kind, _open_memory, lambda: 0)
        elif kind in ("folder", "file"):
            _write_folder(tmp_path / "model")
            ref = tmp_path / "model" / ("" if kind == "folder" else BIG)
            yield Place(kind, _opener(str(ref)), lambda: 0, has_listing=kind == "folder")
        elif kind == "hub":
            hub = stack.enter_context(
                HubServer({"org/model": FILES}, HubOptions(tokens={TOKEN: {"org/model"}}))
            )
            yield Place(kind, _opener("org/model", endpoint=hub.url, token=TOKEN), hub.n_requests)
        elif kind in ("http", "https"):
            server = stack.enter_context(BadServer(FILES, Fault.NONE, tls=kind == "https"))
            if kind == "https":
                (tmp_path / "ca.pem").write_text(certificate_pem())
                monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
            url = server.url(BIG).replace("://", f"://user:{TOKEN}@") + f"?signature={TOKEN}"
            yield Place(kind, _opener(url), server.n_requests, has_listing=False)
        else:
            request.getfixturevalue("s3")
            model: str = request.getfixturevalue("s3_model")
            ref_text = model if kind == "s3" else f"{model}/{BIG}"
            yield Place(kind, _opener(ref_text), lambda: 0, has_listing=kind == "s3")


@pytest.fixture
def source(place: Place) -> Iterator[Source]:
    with place.open() as source:
        yield source


def _open_memory(budget: ByteBudget | None = None) -> Source:
    return MemorySource(FILES, budget=budget)


def _opener(ref: str, **changes: Any) -> Callable[..., Source]:
    def open_(budget: ByteBudget | None = None) -> Source:
        return open_source(ModelRef.parse(ref), quick(**changes), budget=budget)

    return open_


def _write_folder(folder: Path) -> None:
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def info_of(source: Source, name: str = BIG):
    info = source.find(name)
    assert info is not None
    return info


def test_a_listing_has_every_file_with_its_size(place, source):
    if not place.has_listing:
        assert BIG in source.files()
        assert list(source.files()) == sorted(source.files())
        return
    assert {name: info.size for name, info in source.files().items()} == {
        name: len(data) for name, data in FILES.items()
    }
    assert list(source.files()) == sorted(FILES)


@pytest.mark.parametrize("name", ["config.json", "empty.txt", BIG])
def test_files_are_found_by_name(source, name):
    assert info_of(source, name).name == name
    assert info_of(source, name).size == len(FILES[name])
    assert source.find(name) == source.files()[name]


@pytest.mark.parametrize("name", ["nothing.json", "", "../config.json", "/etc/hostname", "a/../config.json"])
def test_what_is_not_there_is_not_found(source, name):
    assert source.find(name) is None


def test_files_in_folders_are_found_where_there_is_a_listing(place, source):
    if place.has_listing:
        info = info_of(source, "sub/tokenizer.json")
        assert source.read_range(info, ByteRange(0, info.size)) == FILES["sub/tokenizer.json"]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ends=st.tuples(st.integers(0, len(WEIGHTS)), st.integers(0, len(WEIGHTS))))
def test_ranges_equal_slices(source, ends):
    start, stop = sorted(ends)
    assert source.read_range(info_of(source), ByteRange(start, stop)) == WEIGHTS[start:stop]


@pytest.mark.parametrize("name", ["config.json", BIG])
def test_whole_files_are_equal(source, name):
    info = info_of(source, name)
    assert source.read_range(info, ByteRange(0, info.size)) == FILES[name]


def test_an_empty_range_costs_nothing(place, source):
    info = info_of(source)
    before = place.n_requests()
    assert source.read_range(info, ByteRange(7, 7)) == b""
    assert source.read_range(info, ByteRange(info.size, info.size)) == b""
    assert place.n_requests() == before


@pytest.mark.parametrize(
    "wanted", [ByteRange(0, 300_001), ByteRange(300_000, 300_001), ByteRange(1 << 50, 1 << 51)]
)
def test_a_range_outside_the_file_is_refused_and_not_sent(place, source, wanted):
    info = info_of(source)
    before = place.n_requests()
    with pytest.raises(WrongBytes, match="the file has 300000 bytes"):
        source.read_range(info, wanted)
    assert place.n_requests() == before


def test_a_file_that_does_not_exist_cannot_be_read(place, source):
    ghost = replace(info_of(source), name="ghost.safetensors")
    with pytest.raises(SourceError, match="ghost") as caught:
        source.read_range(ghost, ByteRange(0, 10))
    assert caught.value.exit_code == 3
    if place.kind not in ("folder", "file"):
        assert isinstance(caught.value, NotFound)


def test_many_threads_read_the_same_bytes(source):
    info = info_of(source)
    wanted = [ByteRange(start, start + 5_000) for start in range(0, 295_000, 5_000)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda item: source.read_range(info, item), wanted * 2))
    assert found == [WEIGHTS[item.start : item.stop] for item in wanted * 2]


def test_many_threads_find_the_same_files(source):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(source.find, ["config.json", BIG, "nothing.json"] * 8))
    assert [info and info.size for info in found] == [len(FILES["config.json"]), len(WEIGHTS), None] * 8


def test_the_budget_is_spent_byte_by_byte_and_refuses_before_reading(place):
    with place.open(ByteBudget(200_000)) as source:
        info = info_of(source)
        spent = source.budget.spent
        source.read_range(info, ByteRange(10, 1_010))
        assert source.budget.spent == spent + 1_000
        before = place.n_requests()
        with pytest.raises(BudgetExceeded, match=r"300,000 more bytes are needed.*the request was not sent"):
            source.read_range(info, ByteRange(0, 300_000))
        assert place.n_requests() == before
        assert source.budget.spent == spent + 1_000


def test_nothing_that_is_shown_holds_a_secret(source):
    info = info_of(source)
    shown = [repr(source), str(source), repr(source.location), repr(source.files()), repr(info)]
    with pytest.raises(ModelkinError, match=r"the file has") as caught:
        source.read_range(info, ByteRange(0, 1 << 40))
    shown += [str(caught.value), repr(caught.value)]
    for secret in (TOKEN, "s3-secret-value", "signature"):
        assert secret not in "\n".join(shown)


def test_the_location_names_the_kind_and_the_reference(place, source):
    kinds = {"folder": "local", "file": "local", "https": "http", "s3": "fsspec", "s3-file": "fsspec"}
    assert source.location.kind == kinds.get(place.kind, place.kind)
    assert source.location.ref
    assert (source.location.revision is not None) == (place.kind == "hub")


def test_a_source_can_be_closed_twice(source):
    info_of(source)
    source.close()
    source.close()


def test_a_fetcher_reads_it_and_keeps_the_books(place, source, store):
    wanted = [ByteRange(100, 300), ByteRange(290_000, 300_000)]
    fetcher = Fetcher(source, quick(), store=store)
    fetched = fetcher.fetch({BIG: wanted, "config.json": [ByteRange(0, len(FILES["config.json"]))]})
    assert [bytes(fetched.view(BIG, item)) for item in wanted] == [
        WEIGHTS[item.start : item.stop] for item in wanted
    ]
    assert bytes(fetched.view("config.json", ByteRange(0, 5))) == FILES["config.json"][:5]
    totals = fetcher.totals()
    assert totals.bytes_needed == 200 + 10_000 + len(FILES["config.json"])
    assert totals.bytes_fetched >= totals.bytes_needed
    assert totals.bytes_fetched == source.budget.spent
    fetcher.close()
