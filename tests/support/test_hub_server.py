from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import urllib3
from tests.support import (
    Delays,
    Failure,
    HubOptions,
    HubServer,
    VirtualFile,
    client_tls,
)

DATA = bytes(range(256)) * 8
FILES = {"config.json": b'{"a": 1}', "model.safetensors": DATA}
WEIGHTS = "/org/model/resolve/main/model.safetensors"
CONFIG = "/org/model/resolve/main/config.json"
FOLLOW = urllib3.Retry(5, connect=0, read=0, status=0, respect_retry_after_header=False)


@pytest.fixture
def pool():
    with urllib3.PoolManager(retries=FOLLOW) as pool:
        yield pool


@pytest.fixture
def server():
    with HubServer({"org/model": FILES}) as server:
        yield server


def located(pool: urllib3.PoolManager, server: HubServer, target: str = WEIGHTS) -> str:
    return pool.request("GET", server.url + target, redirect=False).headers["Location"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_large_files_are_sent_to_the_cdn(pool, server, method):
    answer = pool.request(method, server.url + WEIGHTS, redirect=False)
    assert answer.status == 302
    assert answer.headers["Location"].startswith(server.cdn_url)
    assert answer.headers["X-Linked-Size"] == str(len(DATA))
    assert answer.headers["X-Repo-Commit"] == server.commit("org/model")
    assert answer.headers["X-Linked-Etag"] != answer.headers["ETag"]


def test_small_files_stay_on_the_hub(pool, server):
    answer = pool.request("GET", server.url + CONFIG, redirect=False)
    assert answer.status == 307
    assert answer.headers["Location"].startswith("/api/resolve-cache/models/org/model/")
    followed = pool.request("GET", server.url + CONFIG, headers={"Range": "bytes=0-2"})
    assert (followed.status, followed.data) == (206, b'{"a')
    assert server.n_requests("cdn") == 0


def test_small_files_directly(pool):
    with HubServer({"org/model": FILES}, HubOptions(small_files="direct")) as server:
        answer = pool.request("GET", server.url + CONFIG, redirect=False)
    assert (answer.status, answer.data) == (200, FILES["config.json"])


def test_large_files_directly(pool):
    with HubServer({"org/model": FILES}, HubOptions(large_files="direct")) as server:
        answer = pool.request("GET", server.url + WEIGHTS, headers={"Range": "bytes=1-2"}, redirect=False)
    assert (answer.status, answer.data) == (206, DATA[1:3])
    assert "X-Linked-Size" not in answer.headers


@pytest.mark.parametrize(
    ("header", "status", "start", "stop"),
    [
        (None, 200, 0, 2048),
        ("bytes=0-0", 206, 0, 1),
        ("bytes=10-19", 206, 10, 20),
        ("bytes=2040-9999", 206, 2040, 2048),
        ("bytes=2000-", 206, 2000, 2048),
        ("bytes=-5", 206, 2043, 2048),
        ("bytes=-9999", 206, 0, 2048),
        ("bytes=5-4", 200, 0, 2048),
        ("bytes=0-1,5-6", 200, 0, 2048),
        ("lines=0-1", 200, 0, 2048),
    ],
)
def test_ranges(pool, server, header, status, start, stop):
    headers = {"Range": header} if header else {}
    answer = pool.request("GET", located(pool, server), headers=headers)
    assert (answer.status, answer.data) == (status, DATA[start:stop])
    if status == 206:
        assert answer.headers["Content-Range"] == f"bytes {start}-{stop - 1}/2048"


@pytest.mark.parametrize("header", ["bytes=2048-", "bytes=5000-6000", "bytes=-0"])
def test_ranges_behind_the_end(pool, server, header):
    answer = pool.request("GET", located(pool, server), headers={"Range": header})
    assert answer.status == 416
    assert answer.headers["Content-Range"] == "bytes */2048"


def test_conditions_on_the_etag(pool, server):
    url = located(pool, server)
    etag = pool.request("HEAD", url).headers["ETag"]
    ranged = {"Range": "bytes=0-9"}
    assert pool.request("GET", url, headers={**ranged, "If-Match": etag}).status == 206
    assert pool.request("GET", url, headers={**ranged, "If-Match": '"other"'}).status == 412
    assert pool.request("GET", url, headers={**ranged, "If-Range": '"other"'}).status == 200


def test_the_log_counts_requests_bytes_and_connections(pool, server):
    url = located(pool, server)
    for _ in range(3):
        pool.request("GET", url, headers={"Range": "bytes=0-99", "Authorization": "Bearer leaked"})
    assert (server.n_requests("hub"), server.n_requests("cdn"), server.n_requests()) == (1, 3, 4)
    assert server.bytes_sent("cdn") == 300
    last = server.log[-1]
    assert (last.method, last.range, last.status, last.bytes_sent) == ("GET", "bytes=0-99", 206, 100)
    assert last.authorization == "Bearer leaked"
    assert {record.connection for record in server.log if record.origin == "cdn"} == {1}
    server.reset()
    assert server.log == []


def test_failures_hit_the_requests_they_name(pool, server):
    server.fail(Failure(status=429, times=2, path_contains="config", retry_after="7", rate_limit_reset=55))
    assert pool.request("GET", server.url + WEIGHTS, redirect=False).status == 302
    answer = pool.request("GET", server.url + CONFIG)
    assert answer.status == 429
    assert answer.headers["Retry-After"] == "7"
    assert answer.headers["RateLimit"] == '"resolvers";r=0;t=55'
    assert pool.request("GET", server.url + CONFIG).status == 429
    assert pool.request("GET", server.url + CONFIG).status == 200
    server.fail(Failure(status=503, times=None, origin="cdn"))
    assert [pool.request("GET", server.url + WEIGHTS).status for _ in range(3)] == [503, 503, 503]
    server.clear_failures()
    assert pool.request("GET", server.url + WEIGHTS).status == 200


def test_signed_urls_expire_by_use(pool):
    with HubServer({"org/model": FILES}, HubOptions(url_uses=2)) as server:
        url = located(pool, server)
        assert [pool.request("GET", url).status for _ in range(3)] == [200, 200, 403]
        assert pool.request("GET", located(pool, server)).status == 200


def test_signed_urls_expire_by_time_and_on_command(pool, server):
    url = located(pool, server)
    server.expire_urls()
    assert pool.request("GET", url).status == 403
    with HubServer({"org/model": FILES}, HubOptions(url_seconds=0)) as other:
        assert pool.request("GET", located(pool, other)).status == 403


def test_a_forged_url_is_refused(pool, server):
    assert pool.request("GET", located(pool, server)[:-1] + "f").status == 403


@pytest.mark.parametrize(
    "target", ["/", "/nothing/here", "/api/datasets", "/org/model/resolve/main", "/_control/none"]
)
def test_other_places_are_not_found(pool, server, target):
    assert pool.request("GET", server.url + target).status in (401, 404)


@pytest.mark.parametrize("name", ["refs%2Fpr%2F1", "refs/pr/1"])
def test_revisions_with_slashes(pool, server, name):
    commit = server.push("org/model", FILES, revision="refs/pr/1")
    answer = pool.request("GET", f"{server.url}/org/model/resolve/{name}/config.json")
    assert (answer.status, answer.headers["X-Repo-Commit"]) == (200, commit)


def test_files_on_disk(pool, tmp_path):
    (tmp_path / "weights").write_bytes(DATA)
    with HubServer({"org/model": {"model.safetensors": tmp_path / "weights"}}) as server:
        answer = pool.request("GET", server.url + WEIGHTS, headers={"Range": "bytes=100-"})
        assert answer.data == DATA[100:]


def test_a_virtual_file_of_200_gigabytes(pool):
    file = VirtualFile(size=200 * 10**9, head=b"head")
    with HubServer({"org/model": {"model.safetensors": file}}) as server:
        far = 199 * 10**9
        answer = pool.request("GET", server.url + WEIGHTS, headers={"Range": f"bytes={far}-{far + 99}"})
        assert answer.data == file.read(far, far + 100)
        assert answer.headers["Content-Range"] == f"bytes {far}-{far + 99}/{200 * 10**9}"


def test_many_readers_at_once(server):
    with urllib3.PoolManager(maxsize=16, retries=False) as pool:
        url = located(pool, server)

        def read(place):
            return pool.request("GET", url, headers={"Range": f"bytes={place}-{place + 9}"}).data

        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(read, range(200))) == [DATA[place : place + 10] for place in range(200)]
    assert server.n_requests("cdn") == 200
    assert server.bytes_sent("cdn") == 2000


def test_delays_change_nothing_but_time(pool):
    delays = Delays(hub=0.001, cdn=0.001, connection=0.001, bandwidth=1e6)
    with HubServer({"org/model": FILES}, HubOptions(delays=delays)) as server:
        assert pool.request("GET", server.url + WEIGHTS).data == DATA


def test_https():
    with (
        HubServer({"org/model": FILES}, HubOptions(tls=True)) as server,
        urllib3.PoolManager(retries=FOLLOW, ssl_context=client_tls()) as pool,
    ):
        assert server.url.startswith("https://")
        answer = pool.request("GET", server.url + WEIGHTS)
        assert answer.data == DATA


def test_close_leaves_no_threads_even_while_it_delays():
    before = threading.active_count()
    server = HubServer({"org/model": FILES}, HubOptions(delays=Delays(hub=600)))
    pool = urllib3.PoolManager(retries=False)
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(pool.request, "GET", server.url + CONFIG) for _ in range(2)]
        server.close()
        server.close()
        for each in waiting:
            assert isinstance(each.exception(), urllib3.exceptions.HTTPError)
    pool.clear()
    assert threading.active_count() == before
