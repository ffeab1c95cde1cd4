"""The range client against servers that misbehave: few tries, few bytes, a clear error, no hanging."""

from __future__ import annotations

import gc
import inspect
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3.exceptions
from benchmarks.load_worker import open_sockets
from huggingface_hub import constants
from tests.support import BadServer, Fault, certificate_pem
from tests.support.amount import every
from tests.support.answers import Answer, send_answer, text_answer
from tests.support.loopback import Loopback

from modelkin.errors import (
    AccessDenied,
    BadReference,
    BudgetExceeded,
    ChangedWhileReading,
    NetworkError,
    NotFound,
    Offline,
    RangesIgnored,
    RateLimited,
    SourceError,
    SourceTimeout,
    WrongBytes,
)
from modelkin.source import ByteRange, Fetcher, ModelRef, RangeStore, web
from modelkin.source.address import Home
from modelkin.source.http_client import RangeClient, reason, translated
from modelkin.source.interface import ByteBudget
from modelkin.source.remote import RemoteFile, plain_etag
from modelkin.source.web import HttpSource

from .support import FILES, TOKEN, bytes_below, everything_said, quick

DATA = bytes(range(256)) * 16_384  # 4 MiB
NEAR = ByteRange(1_000, 41_000)
FAR = ByteRange(3_000_000, 3_040_000)
ATTEMPTS = 3


class Reader:
    """A file behind a `RangeClient`, with what reading it has cost."""

    def __init__(self, url: str, **options: Any) -> None:
        self.budget = ByteBudget(options.pop("byte_budget", None))
        home = Home(url, {"Authorization": f"Bearer {TOKEN}"})
        self.client = RangeClient(quick(**options), self.budget, home=home)
        self.file = RemoteFile(url, self.client, headers={})

    def read(self, wanted: ByteRange = NEAR) -> bytes:
        return self.file.read(wanted).body


@pytest.fixture
def reader() -> Iterator[Any]:
    made: list[Reader] = []

    def make(url: str, **options: Any) -> Reader:
        made.append(Reader(url, **options))
        return made[-1]

    yield make
    for each in made:
        each.client.close()


EXPECTED: dict[Fault, tuple[type[SourceError], str, int]] = {
    # fault: error, its sentence, number of requests
    Fault.ENORMOUS_BODY: (RangesIgnored, "but the server sends the whole file", 1),
    Fault.ENDLESS_BODY: (RangesIgnored, "but the server sends the whole file", 1),
    Fault.IGNORES_RANGE: (RangesIgnored, "but the server sends the whole file", 1),
    Fault.SENDS_MULTIPART: (WrongBytes, "expected a Content-Range, got 'multipart/byteranges", ATTEMPTS),
    Fault.WRONG_CONTENT_RANGE: (WrongBytes, r"expected bytes 3000000-3040000, got 3000001-3040001", ATTEMPTS),
    Fault.NO_CONTENT_RANGE: (WrongBytes, "expected a Content-Range", ATTEMPTS),
    Fault.RANGE_NOT_SATISFIABLE: (WrongBytes, "the server's file has 4194304 bytes", 1),
    Fault.CUTS_SHORT: (WrongBytes, "expected 40000 bytes, but the connection ended after 20000", ATTEMPTS),
    Fault.SHORT_LENGTH: (WrongBytes, "expected 40000 bytes, but the server announces 20000", ATTEMPTS),
    Fault.LONG_LENGTH: (WrongBytes, "expected 40000 bytes, but the server announces 41000", ATTEMPTS),
    Fault.LONG_CHUNKED: (WrongBytes, "expected 40000 bytes, but the server sends more", ATTEMPTS),
    Fault.NEGATIVE_CHUNK: (NetworkError, "the connection broke", ATTEMPTS),
    Fault.DRIPS_TRAILERS: (SourceTimeout, "the answer does not end", ATTEMPTS),
    Fault.ENDLESS_HINTS: (SourceError, "the connection broke", ATTEMPTS),
    Fault.NEGATIVE_LENGTH: (SourceError, "is not a length|the connection broke", ATTEMPTS),
    Fault.LENGTH_NOT_A_NUMBER: (SourceError, "is not a length|the connection broke", ATTEMPTS),
    Fault.GZIP: (WrongBytes, "asked for plain bytes, but the server sent 'gzip' data", ATTEMPTS),
    Fault.REDIRECT_LOOP: (NetworkError, "more than 5 redirects", 6),
    Fault.REDIRECTS_TO_FILE: (NetworkError, "redirects to an address of kind 'file'", 1),
    Fault.REDIRECT_WITHOUT_LOCATION: (NetworkError, "answered 302 without saying where to go", 1),
    Fault.STALLS_BEFORE_HEADERS: (SourceTimeout, "the server did not answer in time", ATTEMPTS),
    Fault.STALLS_IN_BODY: (SourceTimeout, "the server did not answer in time", ATTEMPTS),
    Fault.DRIPS: (SourceTimeout, "too slow", ATTEMPTS),
    Fault.DRIPS_HEADERS: (SourceTimeout, "the server did not answer in time", ATTEMPTS),
    Fault.CLOSES_AT_ONCE: (NetworkError, "the connection broke", ATTEMPTS),
    Fault.RESETS_IN_BODY: (SourceError, "the connection broke|the line ended", ATTEMPTS),
    Fault.GARBAGE: (NetworkError, "the connection broke", ATTEMPTS),
    Fault.HUGE_HEADERS: (NetworkError, "the connection broke", ATTEMPTS),
    Fault.MANY_HEADERS: (NetworkError, "the connection broke", ATTEMPTS),
    Fault.SERVER_ERROR: (NetworkError, "the server answered 500", ATTEMPTS),
    Fault.UNAVAILABLE: (NetworkError, "the server answered 503", ATTEMPTS),
    Fault.RATE_LIMITED: (RateLimited, "the server answered 429", ATTEMPTS),
    Fault.RATE_LIMITED_UNTIL: (RateLimited, "the server answered 429", ATTEMPTS),
    Fault.RATE_LIMITED_FOR_EVER: (
        RateLimited,
        "asks us to wait 1000000000 s, but at most 5 s are allowed",
        1,
    ),
    Fault.UNAUTHORIZED: (AccessDenied, "the server refused access", 1),
    Fault.FORBIDDEN: (AccessDenied, "the server refused access", 1),
    Fault.NOT_FOUND: (NotFound, "no such file", 1),
}
HARMLESS = {
    Fault.NONE,
    Fault.EARLY_HINTS,
    Fault.REDIRECTS_ELSEWHERE,
    Fault.REDIRECTS_TO_HTTP,
    Fault.OTHER_BYTES,
}
SEEN_LATER = (Fault.CHANGES_ETAG, Fault.WRONG_TOTAL)


def test_every_fault_is_expected_somewhere():
    assert set(Fault) == {*EXPECTED, *HARMLESS, *SEEN_LATER}


@pytest.mark.parametrize("fault", every(3, EXPECTED), ids=lambda fault: fault.value)
def test_a_fault_that_stays_is_an_error_after_few_requests_and_bytes(reader, fault):
    kind, sentence, n_requests = EXPECTED[fault]
    slow = {"min_rate": 400_000} if fault is Fault.DRIPS else {}
    with BadServer(DATA, fault, retry_after=0) as server:
        one = reader(server.url(), **slow)
        with pytest.raises(kind, match=sentence) as caught:
            one.read(FAR)
        assert server.n_requests() == n_requests
        assert one.client.traffic.requests == n_requests
        assert one.client.traffic.bytes_received <= ATTEMPTS * FAR.length
        assert one.budget.spent == one.client.traffic.bytes_received, "only what came is charged"
        assert str(caught.value).startswith(server.origin)
        assert TOKEN not in everything_said(caught.value)


PASSING = [
    Fault.CUTS_SHORT,
    Fault.SHORT_LENGTH,
    Fault.LONG_LENGTH,
    Fault.LONG_CHUNKED,
    Fault.GZIP,
    Fault.STALLS_BEFORE_HEADERS,
    Fault.STALLS_IN_BODY,
    Fault.CLOSES_AT_ONCE,
    Fault.RESETS_IN_BODY,
    Fault.GARBAGE,
    Fault.SERVER_ERROR,
    Fault.RATE_LIMITED_UNTIL,
]


@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: fault.value)
def test_a_fault_that_passes_is_survived(reader, fault):
    with BadServer(DATA, fault, times=2, retry_after=0) as server:
        one = reader(server.url())
        assert one.read() == DATA[1_000:41_000]
        assert (one.client.traffic.requests, one.client.traffic.retries) == (3, 2)


def test_hints_before_the_answer_are_passed_over(reader):
    with BadServer(DATA, Fault.EARLY_HINTS) as server:
        one = reader(server.url())
        assert one.read() == DATA[1_000:41_000]
        assert one.read(FAR) == DATA[3_000_000:3_040_000]
        assert {record.connection for record in server.log} == {1}


def test_a_chunk_of_less_than_nothing_does_not_fill_the_memory(reader):
    with BadServer(DATA, Fault.NEGATIVE_CHUNK) as server:
        tracemalloc.start()
        try:
            with pytest.raises(NetworkError, match="the connection broke"):
                reader(server.url()).read()
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


def test_near_the_start_a_server_without_ranges_is_read_and_then_left(reader):
    with BadServer(DATA, Fault.IGNORES_RANGE) as server:
        one = reader(server.url())
        assert one.read(NEAR) == DATA[1_000:41_000]
        assert one.client.traffic.bytes_received == 41_000
        assert one.budget.spent == 41_000, "what is skipped is paid for too"


def test_skipping_is_refused_when_the_budget_has_no_room_for_it(reader):
    with BadServer(DATA, Fault.IGNORES_RANGE) as server:
        one = reader(server.url(), byte_budget=40_000)
        with pytest.raises(BudgetExceeded, match="1,000 more bytes are needed"):
            one.read(NEAR)
        assert one.client.traffic.bytes_received == 0


def test_of_a_terabyte_only_the_wanted_bytes_are_read(reader):
    with BadServer(DATA, Fault.ENORMOUS_BODY) as server:
        one = reader(server.url())
        assert one.read(NEAR) == bytes(40_000)
        assert one.client.traffic.bytes_received == 41_000
    assert server.bytes_sent() < 64 << 20


@pytest.mark.parametrize("fault", SEEN_LATER, ids=lambda fault: fault.value)
def test_a_file_that_changes_between_two_reads_is_an_error(reader, fault):
    with BadServer(DATA, fault, after=1) as server:
        one = reader(server.url())
        assert one.read() == DATA[1_000:41_000]
        with pytest.raises(ChangedWhileReading, match=r"the file had (version|size)") as caught:
            one.read()
        assert "run again" in (caught.value.hint or "")
        assert server.n_requests() == 2


def test_304_to_a_question_without_condition_is_no_answer(reader):
    server = Loopback(
        lambda connection, request: send_answer(
            Answer(status=304), connection, request, origin="main", log=None
        )
    )
    with pytest.raises(NetworkError, match="the server answered 304"):
        reader(f"{server.url}/x").read()
    server.close()


# -- redirects and the token ----------------------------------------------------------------------------


def test_the_token_does_not_follow_to_another_host(reader):
    with BadServer(DATA, Fault.REDIRECTS_ELSEWHERE) as server:
        assert reader(server.url()).read() == DATA[1_000:41_000]
        assert [(record.origin, record.authorization) for record in server.log] == [
            ("main", f"Bearer {TOKEN}"),
            ("other", None),
        ]


def test_a_redirect_is_followed_once_for_all_reads(reader):
    with BadServer(DATA, Fault.REDIRECTS_ELSEWHERE) as server:
        one = reader(server.url())
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: one.read(), range(12)))
        assert (server.n_requests("main"), server.n_requests("other")) == (1, 12)


def test_https_does_not_lead_to_plain_http(reader, tmp_path, monkeypatch):
    (tmp_path / "ca.pem").write_text(certificate_pem())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with BadServer(DATA, Fault.REDIRECTS_TO_HTTP, tls=True) as server:
        with pytest.raises(NetworkError, match="redirects from https to plain http"):
            reader(server.url()).read()
        assert server.n_requests("other") == 0


@pytest.mark.parametrize(
    "location", ["http://[", "http://host:99999/", "gopher://x/", "javascript:1", "mailto:a@b"]
)
def test_a_redirect_to_what_is_no_address_is_refused(reader, location):
    server = Loopback(
        lambda connection, request: send_answer(
            text_answer(302, "", {"Location": location}), connection, request, origin="main", log=None
        )
    )
    one = reader(f"{server.url}/x")
    with pytest.raises(NetworkError, match="the server redirects to"):
        one.read()
    assert one.client.traffic.requests == 1
    server.close()


# -- time -----------------------------------------------------------------------------------------------


def test_a_pause_that_a_server_asks_for_holds_for_all_threads(reader):
    with BadServer(DATA, Fault.RATE_LIMITED, times=1, retry_after=1) as server:
        one = reader(server.url(), connections=8)
        slept: list[float] = []
        done = threading.Event()

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            done.wait(seconds)

        one.client.retry.sleep = sleep
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: one.read(), range(8)))
        assert found == [DATA[1_000:41_000]] * 8
        assert server.n_requests() == 9, "one was turned away, and the others did not try meanwhile"
        assert slept


def test_closing_ends_what_is_waiting_and_what_is_reading(reader):
    for fault in (Fault.STALLS_IN_BODY, Fault.RATE_LIMITED):
        with BadServer(DATA, fault, retry_after=50) as server:
            one = reader(server.url(), stall_timeout=50.0, max_wait=100.0)
            with ThreadPoolExecutor(1) as pool:
                reading = pool.submit(one.read)
                while not server.n_requests():
                    threading.Event().wait(0.01)
                threading.Event().wait(0.2)
                one.client.close()
                with pytest.raises(SourceError, match="reading was stopped"):
                    reading.result(timeout=20)


def test_nothing_is_sent_after_closing(reader):
    with BadServer(DATA, Fault.NONE) as server:
        one = reader(server.url())
        one.client.close()
        with pytest.raises(SourceError, match="reading was stopped"):
            one.read()
        assert server.n_requests() == 0


# -- connections ----------------------------------------------------------------------------------------


def test_one_connection_serves_many_reads_in_a_row(reader):
    with BadServer(DATA, Fault.NONE) as server:
        one = reader(server.url())
        for _ in range(10):
            one.read()
        assert {record.connection for record in server.log} == {1}


def test_connections_are_bounded(reader):
    with BadServer(DATA, Fault.NONE) as server:
        one = reader(server.url(), connections=3)
        one.read()
        with ThreadPoolExecutor(12) as pool:
            list(pool.map(lambda _: one.read(), range(60)))
        assert len({record.connection for record in server.log}) <= 3


@pytest.mark.parametrize("fault", [Fault.SERVER_ERROR, Fault.NOT_FOUND, Fault.RATE_LIMITED_UNTIL])
def test_a_refusal_leaves_the_connection_usable(reader, fault):
    with BadServer(DATA, fault, times=1, retry_after=0) as server:
        one = reader(server.url())
        with pytest.raises(NotFound) if fault is Fault.NOT_FOUND else threading.Lock():
            one.read()
        one.read()
        assert {record.connection for record in server.log} == {1}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell open sockets")
@pytest.mark.parametrize("fault", every(3, PASSING), ids=lambda fault: fault.value)
def test_closing_leaves_no_socket_to_the_garbage_collector(fault):
    gc.collect()
    before = open_sockets()
    gc.disable()
    try:
        with BadServer(DATA, fault, times=2, retry_after=0) as server:
            one = Reader(server.url())
            one.read()
            one.client.close()
        assert open_sockets() == before
    finally:
        gc.enable()


def test_failed_requests_do_not_use_up_the_pool(reader):
    with BadServer(DATA, Fault.CUTS_SHORT, times=30) as server:
        one = reader(server.url(), connections=2)
        for _ in range(10):
            with pytest.raises(SourceError, match=r"expected|broke"):
                one.read()
        assert one.read() == DATA[1_000:41_000]


def test_a_certificate_nobody_trusts_is_refused_at_once(reader):
    with BadServer(DATA, Fault.NONE, tls=True) as server:
        one = reader(server.url())
        with pytest.raises(NetworkError, match="the secure connection failed") as caught:
            one.read()
        assert "SSL_CERT_FILE" in (caught.value.hint or "")
        assert one.client.traffic.requests == 1


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_certificates_are_taken_from_the_environment(reader, tmp_path, monkeypatch, variable):
    (tmp_path / "ca.pem").write_text(certificate_pem())
    monkeypatch.setenv(variable, str(tmp_path / "ca.pem"))
    with BadServer(DATA, Fault.NONE, tls=True) as server:
        assert reader(server.url()).read() == DATA[1_000:41_000]


def test_certificates_that_are_not_there_are_named(reader, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with pytest.raises(NetworkError, match=r"no certificates can be read from /nowhere/ca\.pem"):
        reader("https://127.0.0.1:9/x").read()


# -- words ----------------------------------------------------------------------------------------------


def _subclasses(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _subclasses(each)


URLLIB3_ERRORS = sorted(
    {each for each in _subclasses(urllib3.exceptions.HTTPError) if each.__module__.startswith("urllib3")},
    key=lambda each: each.__name__,
)


@pytest.mark.parametrize("kind", URLLIB3_ERRORS, ids=lambda kind: kind.__name__)
def test_every_exception_of_the_http_library_is_put_in_our_words(kind):
    error = kind.__new__(kind)  # each has its own arguments; what counts is the class
    vars(error).update(partial=1, expected=2, length=3)
    Exception.__init__(error, "failed <urllib3 object at 0x7f> for https://host/x?sig=secret&a=b")
    said = translated(error, "https://host/x")
    assert isinstance(said, SourceError)
    assert str(said).startswith("https://host/x: ")
    assert "secret" not in str(said)
    assert "0x7f" not in str(said)


def test_all_exceptions_of_the_http_library_were_tried():
    declared = {
        each
        for _, each in inspect.getmembers(urllib3.exceptions, inspect.isclass)
        if issubclass(each, urllib3.exceptions.HTTPError)
    }
    assert declared <= set(URLLIB3_ERRORS)
    assert len(URLLIB3_ERRORS) > 20


def test_a_reason_is_short_and_printable():
    said = reason(OSError("x" * 1_000 + "\x1b[31m"))
    assert len(said) < 200
    assert reason(OSError("a\x1b[31mb")).isprintable()


@pytest.mark.parametrize(
    ("value", "etag"),
    [
        ('"abc"', "abc"),
        ('W/"abc"', "abc"),
        ("abc", "abc"),
        ("", None),
        (None, None),
        ('""', None),
        ('"a\r\n b"', None),
        ('"\x1b[31m"', None),
        ('"é"', None),
    ],
)
def test_etags_are_made_plain(value, etag):
    assert plain_etag(value) == etag


# -- the source on top ----------------------------------------------------------------------------------


class Versions:
    """A server of files with etags that answers conditional requests, as real ones do."""

    def __init__(self, files: dict[str, bytes], *, etag: str | None = "v1") -> None:
        self.files = files
        self.etag = etag
        self.more: dict[str, str] = {}
        self.answers: dict[str, bytes] = {}
        self.conditional = True
        self.log: list[tuple[str, int]] = []
        self.server = Loopback(self._serve)

    def url(self, name: str) -> str:
        return f"{self.server.url}/m/{name}"

    def _serve(self, connection, request) -> bool:
        name = request.target.partition("?")[0].removeprefix("/m/")
        query = request.target.partition(name)[2]
        answer = self._answer(name, self.answers.get(query, self.files.get(name)), request)
        self.log.append((name, answer.status))
        return send_answer(answer, connection, request, origin="main", log=None)

    def _answer(self, name, data, request) -> Answer:
        if data is None:
            return text_answer(404, "")
        etag = {"ETag": f'"{self.etag}"'} if self.etag else self.more
        if self.conditional and self.etag and request.headers.get("if-none-match") == f'"{self.etag}"':
            return Answer(status=304, headers=etag)
        first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
        start, stop = int(first), min(int(last) + 1, len(data))
        if start >= stop:
            return Answer(status=416, headers={"Content-Range": f"bytes */{len(data)}"})
        headers = {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}", **etag}
        return Answer(status=206, headers=headers, body=[data[start:stop]], length=stop - start)


@pytest.fixture
def versions() -> Iterator[Versions]:
    server = Versions(dict(FILES))
    yield server
    server.server.close()


def ask(versions: Versions, store: RangeStore, **options: Any) -> tuple[bytes, Fetcher]:
    source = HttpSource(versions.url("model.safetensors"), quick(**options), store=store)
    with Fetcher(source, quick(**options), store=store) as fetcher:
        wanted = {"model.safetensors": [ByteRange(0, 50_000), ByteRange(250_000, 260_000)]}
        fetched = fetcher.fetch(wanted)
        fetcher.read_file("config.json", limit=1_000)
        assert fetcher.source.find("generation_config.json") is None
        fetcher.totals()
        return bytes(fetched.view("model.safetensors", ByteRange(250_000, 260_000))), fetcher


def test_the_read_that_finds_a_file_is_the_read_of_its_header(versions, store):
    data, fetcher = ask(versions, store)
    assert data == FILES["model.safetensors"][250_000:260_000]
    assert versions.log == [
        ("model.safetensors", 206),
        ("model.safetensors", 206),
        ("config.json", 206),
        ("generation_config.json", 404),
    ]
    assert [(entry.file, entry.start, entry.stop) for entry in fetcher.ledger.entries] == [
        ("model.safetensors", 0, 131_072),
        ("model.safetensors", 250_000, 260_000),
        ("config.json", 0, 23),
    ]
    totals = fetcher.totals()
    assert totals.bytes_fetched == 131_072 + 10_000 + 23
    assert totals.bytes_needed == 60_000 + 23
    assert totals.requests == 4


def test_a_second_run_only_asks_whether_the_files_are_the_same(versions, store):
    first, _ = ask(versions, store)
    versions.log.clear()
    second, fetcher = ask(versions, store)
    assert second == first
    assert versions.log == [
        ("model.safetensors", 304),
        ("config.json", 304),
        ("generation_config.json", 404),
    ]
    assert fetcher.totals().bytes_fetched == 0
    assert fetcher.totals().cache_hits == 3


def test_a_new_version_is_read_anew(versions, store):
    ask(versions, store)
    versions.etag = "v2"
    versions.files["model.safetensors"] = FILES["model.safetensors"][::-1]
    data, _ = ask(versions, store)
    assert data == FILES["model.safetensors"][::-1][250_000:260_000]


def test_a_version_that_changes_after_the_check_is_noticed(versions, store):
    ask(versions, store)
    source = HttpSource(versions.url("model.safetensors"), quick(), store=store)
    info = source.find("model.safetensors")
    assert info is not None
    versions.etag = "v2"
    with pytest.raises(ChangedWhileReading, match="the file had version v1 at first and has v2 now"):
        source.read_range(info, ByteRange(100_000, 100_010))
    source.close()


def test_without_an_etag_nothing_is_kept_for_the_next_run(versions, store):
    versions.etag = None
    ask(versions, store)
    versions.files["model.safetensors"] = FILES["model.safetensors"][::-1]
    data, _ = ask(versions, store)
    assert data == FILES["model.safetensors"][::-1][250_000:260_000]


@pytest.mark.parametrize("validator", [{"ETag": 'W/"1"'}, {"Last-Modified": "Mon, 16 Nov 2026 10:00:00 GMT"}])
def test_under_a_weak_validator_nothing_is_kept(versions, store, validator):
    versions.etag, versions.more = None, validator
    ask(versions, store)
    assert store.info().n_objects == 0
    changed = FILES["model.safetensors"][:131_072] + FILES["model.safetensors"][131_072:][::-1]
    versions.files["model.safetensors"] = changed
    assert ask(versions, store)[0] == changed[250_000:260_000]
    with pytest.raises(Offline, match="stored here"):
        ask(versions, store, offline=True)


def test_a_file_in_parts_under_weak_validators_still_has_to_stay_the_same(versions, store):
    versions.etag, versions.more = None, {"Last-Modified": "Mon, 16 Nov 2026 10:00:00 GMT"}
    source = HttpSource(versions.url("model.safetensors"), quick(), store=store)
    info = source.files()["model.safetensors"]
    versions.more = {"Last-Modified": "Mon, 16 Nov 2026 10:00:01 GMT"}
    with pytest.raises(ChangedWhileReading, match="the file had version modified"):
        source.read_range(info, ByteRange(200_000, 200_001))
    source.close()


def test_another_query_is_another_file(versions, store):
    other = FILES["model.safetensors"][::-1]
    versions.answers = {"?id=1": FILES["model.safetensors"], "?id=2": other}
    place = ByteRange(250_000, 260_000)
    found = []
    for query in ("?id=1", "?id=2", "?id=1", ""):
        for offline in (False, True):
            url = versions.url("model.safetensors") + query
            source = HttpSource(url, quick(offline=offline), store=store)
            with Fetcher(source, quick(offline=offline), store=store) as fetcher:
                fetched = fetcher.fetch({"model.safetensors": [place]})
                found.append(bytes(fetched.view("model.safetensors", place)))
    mine, theirs = FILES["model.safetensors"][250_000:260_000], other[250_000:260_000]
    assert found == [mine, mine, theirs, theirs, mine, mine, mine, mine]


def test_beginnings_that_nobody_takes_do_not_pile_up(versions, store, monkeypatch):
    monkeypatch.setattr(web, "MOST_HEADS", 300_000)
    versions.files |= {f"{number}.bin": bytes(200_000) for number in range(9)}
    source = HttpSource(versions.url("model.safetensors"), quick(), store=store)
    for number in range(9):
        assert source.find(f"{number}.bin") is not None
    assert sum(len(data) for _, data in source.take_heads()) <= 300_000
    source.close()


def test_a_query_is_not_written_down(versions, store):
    source = HttpSource(versions.url("model.safetensors") + f"?sig={TOKEN}", quick(), store=store)
    with Fetcher(source, quick(), store=store) as fetcher:
        fetcher.fetch({"model.safetensors": [ByteRange(0, 100)]})
    assert TOKEN.encode() not in bytes_below(store.root)


def test_beginnings_that_differ_under_one_etag_drop_what_was_stored(versions, store):
    """A server that keeps its etag for other bytes, and does not answer conditions, is read anew."""
    versions.conditional = False
    ask(versions, store)
    changed = FILES["model.safetensors"][::-1]
    versions.files["model.safetensors"] = changed
    assert ask(versions, store)[0] == changed[250_000:260_000]


@pytest.mark.parametrize("how", ["options", "environment"])
def test_offline_mode_sends_nothing(versions, store, how, monkeypatch):
    first, _ = ask(versions, store)
    versions.log.clear()
    options = {"offline": True} if how == "options" else {}
    if how == "environment":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert ask(versions, store, **options)[0] == first
    source = HttpSource(versions.url("model.safetensors"), quick(**options), store=store)
    info = source.files()["model.safetensors"]
    with pytest.raises(Offline, match="these bytes are not stored here"):
        source.read_range(info, ByteRange(200_000, 200_001))
    with pytest.raises(Offline, match=r"tokenizer\.json: offline mode is on"):
        source.find("tokenizer.json")
    assert versions.log == []


def test_a_server_that_does_not_say_the_size_cannot_be_used(store):
    server = Loopback(
        lambda connection, request: send_answer(
            Answer(
                status=206,
                headers={"Content-Range": "bytes 0-131071/*"},
                body=[bytes(131_072)],
                length=131_072,
            ),
            connection,
            request,
            origin="main",
            log=None,
        )
    )
    source = HttpSource(f"{server.url}/x.safetensors", quick())
    with pytest.raises(WrongBytes, match="does not say how long the file is"):
        source.files()
    source.close()
    server.close()


def test_a_url_whose_file_is_not_there_says_so():
    with BadServer(FILES, Fault.NONE) as server:
        source = HttpSource(server.url("nothing.safetensors"), quick())
        with pytest.raises(NotFound, match="no such file"):
            source.files()
        source.close()


@pytest.mark.parametrize(
    "url", ["http://host/..", "http://host/a%2F..%2Fb", "http://host/a%00b", "http://host/%1b"]
)
def test_a_url_with_a_file_name_that_is_none_is_refused(url):
    with pytest.raises(BadReference, match="the file name"):
        HttpSource(url, quick())


def test_credentials_in_a_url_are_sent_as_such_and_only_there():
    with BadServer(FILES, Fault.REDIRECTS_ELSEWHERE) as server:
        ref = ModelRef.parse(server.url("config.json").replace("://", f"://me:{TOKEN}@"))
        source = HttpSource(ref.target, quick(), ref=ref.text)
        assert source.files()["config.json"].size == len(FILES["config.json"])
        assert TOKEN not in repr(source) + repr(source.location) + repr(ref)
        sent = [(record.origin, record.authorization) for record in server.log]
        assert str(sent[0][1]).startswith("Basic ")
        assert sent[1:] == [("other", None)]
        source.close()
