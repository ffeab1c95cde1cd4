"""Each fault as a client sees it: through urllib3 where it is HTTP, through a socket where it is not."""

from __future__ import annotations

import email.utils
import gzip
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import urllib3
from tests.support import BadServer, Fault, client_tls
from tests.support.fault_acts import ACTS
from urllib3.exceptions import HTTPError, ProtocolError, ReadTimeoutError

DATA = bytes(range(256)) * 4
RANGE = {"Range": "bytes=100-199"}
WANTED = DATA[100:200]


@pytest.fixture
def pool():
    with urllib3.PoolManager(retries=False) as pool:
        yield pool


def ask(pool: urllib3.PoolManager, server: BadServer, **options: Any) -> urllib3.BaseHTTPResponse:
    return pool.request("GET", server.url(), headers=RANGE, redirect=False, **options)


@contextmanager
def raw(server: BadServer, method: str = "GET") -> Iterator[socket.socket]:
    """Send one ranged request by hand and give the socket."""
    host, port = server.origin.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as stream:
        request = f"{method} /model.safetensors HTTP/1.1\r\nHost: x\r\nRange: bytes=100-199\r\n\r\n"
        stream.sendall(request.encode())
        yield stream


def read_all(stream: socket.socket) -> bytes:
    return b"".join(iter(lambda: stream.recv(1 << 16), b""))


def test_every_fault_has_an_act():
    assert set(ACTS) == set(Fault)


def test_no_fault(pool):
    with BadServer(DATA, Fault.NONE) as server:
        answer = ask(pool, server)
        assert (answer.status, answer.data) == (206, WANTED)
        assert (server.n_requests("main"), server.bytes_sent("main")) == (1, 100)


def test_ignores_range(pool):
    with BadServer(DATA, Fault.IGNORES_RANGE) as server:
        answer = ask(pool, server)
        assert (answer.status, answer.data) == (200, DATA)


@pytest.mark.parametrize("fault", [Fault.ENORMOUS_BODY, Fault.ENDLESS_BODY])
def test_bodies_without_end_stop_with_the_client(pool, fault):
    with BadServer(DATA, fault) as server:
        answer = ask(pool, server, preload_content=False)
        assert answer.status == 200
        assert answer.read(1 << 20) == bytes(1 << 20)
        answer.close()
    assert 1 << 20 <= server.bytes_sent("main") < 1 << 30


def test_multipart(pool):
    with BadServer(DATA, Fault.SENDS_MULTIPART) as server:
        answer = ask(pool, server)
        assert answer.status == 206
        assert answer.headers["Content-Type"].startswith("multipart/byteranges; boundary=")
        assert WANTED in answer.data


@pytest.mark.parametrize(
    ("fault", "content_range"),
    [
        (Fault.WRONG_CONTENT_RANGE, "bytes 101-200/1024"),
        (Fault.WRONG_TOTAL, "bytes 100-199/1025"),
        (Fault.NO_CONTENT_RANGE, None),
    ],
)
def test_content_range_is_spoiled(pool, fault, content_range):
    with BadServer(DATA, fault) as server:
        answer = ask(pool, server)
        assert (answer.status, answer.data) == (206, WANTED)
        assert answer.headers.get("Content-Range") == content_range


def test_other_bytes(pool):
    with BadServer(DATA, Fault.OTHER_BYTES) as server:
        answer = ask(pool, server)
        assert answer.headers["Content-Range"] == "bytes 100-199/1024"
        assert answer.data == DATA[101:201]
        last = pool.request("GET", server.url(), headers={"Range": "bytes=-2"})
        assert last.data == DATA[-1:] + b"\0"


def test_cuts_short(pool):
    with BadServer(DATA, Fault.CUTS_SHORT) as server:
        with pytest.raises(ProtocolError, match="IncompleteRead"):
            ask(pool, server)
        assert server.bytes_sent() == 50


def test_short_length(pool):
    with BadServer(DATA, Fault.SHORT_LENGTH) as server:
        answer = ask(pool, server)
        assert answer.data == WANTED[:50]
        assert answer.headers["Content-Range"] == "bytes 100-199/1024"


@pytest.mark.parametrize("fault", [Fault.LONG_LENGTH, Fault.LONG_CHUNKED])
def test_more_than_asked_for(pool, fault):
    with BadServer(DATA, fault) as server:
        answer = ask(pool, server)
        assert answer.data == DATA[100:] + bytes(1100 - len(DATA[100:]))
        assert ("Content-Length" in answer.headers) == (fault is Fault.LONG_LENGTH)
        assert ask(pool, server).status == 206, "the connection is in order"


@pytest.mark.parametrize(
    ("fault", "length"), [(Fault.NEGATIVE_LENGTH, b"-1"), (Fault.LENGTH_NOT_A_NUMBER, b"many")]
)
def test_lengths_that_are_none(fault, length):
    with BadServer(DATA, fault) as server, raw(server) as stream:
        answer = read_all(stream)
        assert b"\r\nContent-Length: " + length + b"\r\n" in answer
        assert answer.endswith(b"\r\n\r\n" + WANTED)


def test_gzip(pool):
    with BadServer(DATA, Fault.GZIP) as server:
        answer = ask(pool, server, decode_content=False)
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(answer.data) == WANTED


def test_changes_etag(pool):
    with BadServer(DATA, Fault.CHANGES_ETAG) as server:
        first, second = ask(pool, server), ask(pool, server)
        assert first.data == second.data == WANTED
        assert first.headers["ETag"] != second.headers["ETag"]


def test_redirect_to_another_origin(pool):
    with BadServer(DATA, Fault.REDIRECTS_ELSEWHERE) as server:
        answer = pool.request("GET", server.url(), headers={**RANGE, "Authorization": "Bearer x"}, retries=1)
        assert answer.data == WANTED
        assert [(record.origin, record.authorization) for record in server.log] == [
            ("main", "Bearer x"),
            ("other", None),
        ]


def test_redirect_from_https_to_http():
    with (
        BadServer(DATA, Fault.REDIRECTS_TO_HTTP, tls=True) as server,
        urllib3.PoolManager(retries=False, ssl_context=client_tls()) as pool,
    ):
        assert server.url().startswith("https://")
        assert ask(pool, server).headers["Location"].startswith("http://")


@pytest.mark.parametrize(
    ("fault", "location"),
    [
        (Fault.REDIRECTS_TO_FILE, "file:///etc/hostname"),
        (Fault.REDIRECT_WITHOUT_LOCATION, None),
    ],
)
def test_redirects_nobody_should_follow(pool, fault, location):
    with BadServer(DATA, fault) as server:
        answer = ask(pool, server)
        assert (answer.status, answer.headers.get("Location")) == (302, location)


def test_redirect_loop(pool):
    with BadServer(DATA, Fault.REDIRECT_LOOP) as server:
        with pytest.raises(urllib3.exceptions.MaxRetryError, match="too many redirects"):
            pool.request("GET", server.url(), retries=urllib3.Retry(redirect=5))
        assert server.n_requests() == 6


@pytest.mark.parametrize("fault", [Fault.STALLS_BEFORE_HEADERS, Fault.STALLS_IN_BODY, Fault.DRIPS_HEADERS])
def test_stalls_outlast_the_client(pool, fault):
    with BadServer(DATA, fault) as server:
        stalled = threading.Event()

        def read():
            with raw(server) as stream:
                read_all(stream)
            stalled.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert not stalled.wait(0.2)
    reader.join(30)
    assert stalled.is_set(), "closing the server ends the stall"


def test_a_stall_is_seen_as_a_timeout(pool):
    with BadServer(DATA, Fault.STALLS_IN_BODY) as server, pytest.raises(ReadTimeoutError, match="timed out"):
        ask(pool, server, timeout=0.2)


def test_drips(pool):
    with BadServer(DATA, Fault.DRIPS) as server:
        answer = pool.request("GET", server.url(), headers={"Range": "bytes=0-4"}, preload_content=False)
        assert answer.read(1) == DATA[:1]
        assert answer.read() == DATA[1:5]


def test_closes_at_once():
    with BadServer(DATA, Fault.CLOSES_AT_ONCE) as server, raw(server) as stream:
        assert read_all(stream) == b""
        assert [record.status for record in server.log] == [0]


def test_resets_in_body():
    with (
        BadServer(DATA, Fault.RESETS_IN_BODY) as server,
        raw(server) as stream,
        pytest.raises(ConnectionResetError),
    ):
        read_all(stream)


def test_garbage(pool):
    with BadServer(DATA, Fault.GARBAGE) as server, pytest.raises(ProtocolError, match="BadStatusLine"):
        ask(pool, server)


@pytest.mark.parametrize("fault", [Fault.HUGE_HEADERS, Fault.MANY_HEADERS])
def test_headers_beyond_reason(pool, fault):
    with BadServer(DATA, fault) as server, pytest.raises(HTTPError):  # noqa: PT012
        ask(pool, server)
        raise AssertionError("http.client takes a hundred headers and lines of 64 KiB")


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (Fault.RANGE_NOT_SATISFIABLE, 416),
        (Fault.SERVER_ERROR, 500),
        (Fault.UNAVAILABLE, 503),
        (Fault.UNAUTHORIZED, 401),
        (Fault.FORBIDDEN, 403),
        (Fault.NOT_FOUND, 404),
    ],
)
def test_statuses(pool, fault, status):
    with BadServer(DATA, fault, times=2) as server:
        assert [ask(pool, server).status for _ in range(3)] == [status, status, 206]


def test_retry_after(pool):
    answers = {}
    for fault in (Fault.RATE_LIMITED, Fault.RATE_LIMITED_UNTIL, Fault.RATE_LIMITED_FOR_EVER):
        with BadServer(DATA, fault, retry_after=7) as server:
            answer = ask(pool, server)
            assert answer.status == 429
            answers[fault] = answer.headers["Retry-After"]
    assert answers[Fault.RATE_LIMITED] == "7"
    assert email.utils.parsedate_to_datetime(answers[Fault.RATE_LIMITED_UNTIL]).tzinfo is not None
    assert answers[Fault.RATE_LIMITED_FOR_EVER] == "1000000000"


def test_a_fault_can_begin_late_and_spare_files_and_methods(pool):
    files = {"a.json": b"a", "b.json": b"b"}
    with BadServer(files, Fault.NOT_FOUND, after=1, times=1, only="a.json", methods=("GET",)) as server:
        assert [pool.request("GET", server.url("b.json")).status for _ in range(3)] == [200, 200, 200]
        assert [pool.request("HEAD", server.url("a.json")).status for _ in range(3)] == [200, 200, 200]
        assert [pool.request("GET", server.url("a.json")).status for _ in range(3)] == [200, 404, 200]
        assert pool.request("GET", server.url("c.json")).status == 404


@pytest.mark.parametrize("fault", list(Fault))
def test_head_has_no_body_and_close_leaves_no_threads(fault):
    before = threading.active_count()
    server = BadServer(DATA, fault)
    with raw(server, "HEAD") as stream:
        answer = b"" if fault is Fault.STALLS_BEFORE_HEADERS else stream.recv(1 << 16)
        while server.n_requests() == 0:
            time.sleep(0.001)
        server.close()
    if fault in (Fault.STALLS_BEFORE_HEADERS, Fault.CLOSES_AT_ONCE):
        assert answer == b""
    elif fault not in (Fault.HUGE_HEADERS, Fault.MANY_HEADERS, Fault.DRIPS_HEADERS):
        assert answer.endswith(b"\r\n\r\n")
    assert server.n_requests() == 1
    assert server.bytes_sent() == 0
    assert threading.active_count() == before


@pytest.mark.parametrize("tls", [False, True])
def test_close_ends_a_body_that_nobody_reads(tls):
    before = threading.active_count()
    server = BadServer(DATA, Fault.ENDLESS_BODY, tls=tls)
    with urllib3.PoolManager(retries=False, ssl_context=client_tls() if tls else None) as pool:
        answer = ask(pool, server, preload_content=False)
        assert answer.read(1) == b"\0"
        server.close()
        assert threading.active_count() == before
        answer.close()


def test_negative_chunk():
    with BadServer(DATA, Fault.NEGATIVE_CHUNK) as server, raw(server) as stream:
        got = b""
        while len(got) < 1 << 12:
            got += stream.recv(1 << 12)
        assert b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\0\0" in got


def test_drips_trailers():
    with BadServer(DATA, Fault.DRIPS_TRAILERS) as server, raw(server) as stream:
        got = b""
        while got.count(b"X-Drip") < 3:
            got += stream.recv(1 << 12)
        assert b"64\r\n" + WANTED + b"\r\n0\r\nX-Drip" in got


@pytest.mark.parametrize("fault", [Fault.EARLY_HINTS, Fault.ENDLESS_HINTS])
def test_hints_come_before_the_answer(fault):
    with BadServer(DATA, fault) as server, raw(server) as stream:
        got = b""
        while got.count(b"103 Early Hints") < 2:
            got += stream.recv(1 << 12)
        assert got.startswith(b"HTTP/1.1 103")
