"""The Hub: commits, tokens, refusals, listings, its cache, offline mode, and the number of requests."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import close_session, constants, hf_hub_download
from tests.support import Failure, HubOptions, HubRepo, HubServer, Servable, llama_files
from tests.support.answers import Answer, text_answer
from tests.support.loopback import Connection, Loopback, Request

from modelkin.errors import (
    AccessDenied,
    ChangedWhileReading,
    ListingError,
    NetworkError,
    NotFound,
    Offline,
    RateLimited,
    SourceError,
)
from modelkin.formats import read_weights
from modelkin.source import ByteRange, Fetcher, RangeStore
from modelkin.source import hub as hub_module
from modelkin.source.hub import HubSource, load_listing, parse_listing

from .support import FILES, TOKEN, WEIGHTS, bytes_below, everything_said, quick

BIG = "model.safetensors"
WANTED = ByteRange(1_000, 51_000)
MODEL = "org/model"
OLD = {"config.json": b"old", BIG: WEIGHTS[::-1]}


@pytest.fixture
def hub() -> Iterator[HubServer]:
    repos: dict[str, HubRepo | Mapping[str, Servable]] = {
        MODEL: HubRepo(files=FILES, revisions={"v1.0": OLD, "refs/pr/1": {"config.json": b"pr"}}),
        "org/private": HubRepo(files=FILES, private=True),
        "org/gated": HubRepo(files=FILES, gated="auto"),
        "org/shards": llama_files(n_shards=3),
    }
    options = HubOptions(tokens={TOKEN: {"org/private", "org/gated"}, "hf_stranger": set()})
    with HubServer(repos, options) as server:
        yield server


@pytest.fixture
def open_hub(hub: HubServer) -> Iterator[Callable[..., HubSource]]:
    opened: list[HubSource] = []

    def open_(
        repo: str = MODEL, revision: str | None = None, *, store: RangeStore | None = None, **options: Any
    ) -> HubSource:
        source = HubSource(repo, revision, quick(endpoint=hub.url, **options), store=store)
        opened.append(source)
        return source

    yield open_
    for source in opened:
        source.close()


def read(source: HubSource, name: str = BIG, wanted: ByteRange = WANTED) -> bytes:
    info = source.find(name)
    assert info is not None
    return source.read_range(info, wanted)


# -- commits -------------------------------------------------------------------------------------------


def test_the_commit_is_pinned_for_the_whole_run(hub, open_hub):
    source = open_hub()
    before = hub.commit(MODEL)
    assert source.location.revision == before
    hub.push(MODEL, OLD)
    assert read(source) == WEIGHTS[1_000:51_000]
    assert source.location.revision == before


def test_the_next_run_sees_where_the_branch_has_moved(hub, open_hub, store):
    read(open_hub(store=store))
    hub.push(MODEL, OLD)
    assert read(open_hub(store=store)) == OLD[BIG][1_000:51_000]


@pytest.mark.parametrize(
    ("revision", "config"), [(None, FILES["config.json"]), ("v1.0", b"old"), ("refs/pr/1", b"pr")]
)
def test_branches_tags_and_pull_requests_are_read(open_hub, revision, config):
    assert read(open_hub(revision=revision), "config.json", ByteRange(0, len(config))) == config


def test_a_commit_is_a_revision(hub, open_hub):
    commit = hub.commit(MODEL, "v1.0")
    source = open_hub(revision=commit)
    assert source.location.revision == commit
    assert read(source) == OLD[BIG][1_000:51_000]


def test_digests_of_large_files_are_known_before_they_are_read(open_hub):
    info = open_hub().find(BIG)
    assert info.sha256 == info.etag
    assert len(info.sha256) == 64
    assert open_hub().find("config.json").sha256 is None


# -- who may read ---------------------------------------------------------------------------------------


def test_a_token_opens_private_and_gated_models(open_hub):
    for repo in ("org/private", "org/gated"):
        assert read(open_hub(repo, token=TOKEN)) == WEIGHTS[1_000:51_000]


def test_the_token_is_found_where_huggingface_hub_keeps_it(open_hub, private_home, monkeypatch):
    Path(constants.HF_TOKEN_PATH).write_text(TOKEN)
    assert read(open_hub("org/private", token=None)) == WEIGHTS[1_000:51_000]
    with pytest.raises(NotFound, match="no such model, or it is private"):
        open_hub("org/private", token=False).files()
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    with pytest.raises(NotFound, match="no such model, or it is private"):
        open_hub("org/private", token=None).files()


def test_the_token_of_the_environment_is_used(open_hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert read(open_hub("org/gated", token=None)) == WEIGHTS[1_000:51_000]


@pytest.mark.parametrize(
    ("repo", "token", "kind", "message"),
    [
        ("org/private", False, NotFound, "no such model, or it is private"),
        ("org/private", "hf_stranger", NotFound, "no such model, or it is private"),
        ("org/gated", False, AccessDenied, "this model is gated and you have no access yet"),
        ("org/gated", "hf_stranger", AccessDenied, "this model is gated and you have no access yet"),
        (MODEL, "hf_invalid", AccessDenied, "your token is not accepted here"),
        ("org/nothing", False, NotFound, "no such model"),
    ],
)
def test_refusals_say_what_to_do(hub, open_hub, repo, token, kind, message):
    with pytest.raises(kind, match=message) as caught:
        read(open_hub(repo, token=token))
    assert caught.value.hint
    assert caught.value.exit_code == 3
    assert hub.n_requests() <= 2, "a refusal is not asked again"


def test_a_revision_that_does_not_exist_is_named(open_hub):
    with pytest.raises(NotFound, match="the repository has no revision 'v9'"):
        open_hub(revision="v9").files()


def test_a_token_that_was_asked_for_but_is_not_there(open_hub):
    with pytest.raises(AccessDenied, match="a token is required, but none is known"):
        open_hub(token=True)


@pytest.mark.parametrize("token", [f"{TOKEN}\nX-Evil: 1", f"{TOKEN}\x00", f"{TOKEN}é", f"{TOKEN}\u2028"])
def test_a_token_that_could_forge_headers_is_refused_and_not_shown(hub, open_hub, token):
    with pytest.raises(
        AccessDenied, match="the token contains characters that no token can contain"
    ) as caught:
        open_hub(token=token)
    assert TOKEN not in everything_said(caught.value).replace(repr(token), "")
    assert hub.n_requests() == 0


# -- secrets --------------------------------------------------------------------------------------------


def test_the_token_goes_to_the_hub_and_nowhere_else(hub, open_hub, store, caplog):
    caplog.set_level(logging.DEBUG)
    source = open_hub("org/gated", token=TOKEN, store=store)
    fetcher = Fetcher(source, quick(), store=store)
    fetcher.fetch({BIG: [WANTED], "config.json": [ByteRange(0, 10)]})
    sent = {(record.origin, record.authorization) for record in hub.log}
    assert sent == {("hub", f"Bearer {TOKEN}"), ("cdn", None)}
    assert TOKEN.encode() not in bytes_below(store.root)
    assert b"Expires=" not in bytes_below(store.root), "signed addresses are keys too"
    shown = [repr(source), repr(source.location), repr(fetcher), repr(fetcher.ledger.entries), caplog.text]
    for secret in (TOKEN, "sig=", "Expires="):
        assert secret not in "\n".join(shown)


@pytest.mark.parametrize(
    "failure",
    [
        Failure(status=403, times=None, origin="cdn"),
        Failure(status=503, times=None, origin="cdn"),
        Failure(status=418, times=None, origin="cdn"),
        Failure(status=429, times=None, origin="cdn", retry_after="0"),
        Failure(status=403, times=None, origin="hub", path_contains="/resolve/"),
        Failure(status=500, times=None, origin="hub"),
    ],
)
def test_no_error_shows_a_token_or_a_signed_address(hub, open_hub, failure, caplog):
    caplog.set_level(logging.DEBUG)
    hub.fail(failure)
    with pytest.raises(SourceError) as caught:
        read(open_hub(token=TOKEN))
    for secret in (TOKEN, "sig=", "Expires="):
        assert secret not in everything_said(caught.value)
        assert secret not in caplog.text


def test_a_dead_storage_server_is_reported_without_its_signed_address(hub, open_hub):
    source = open_hub(token=TOKEN)
    read(source)
    hub._cdn.close()
    with pytest.raises(NetworkError, match=r"no connection|the connection broke") as caught:
        read(source)
    assert "sig=" not in everything_said(caught.value)
    assert TOKEN not in everything_said(caught.value)


# -- failures that pass ---------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["hub", "cdn"])
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_failure_that_passes_is_survived(hub, open_hub, origin, status):
    hub.fail(Failure(status=status, times=2, origin=origin))
    source = open_hub()
    assert read(source) == WEIGHTS[1_000:51_000]
    assert source._client.traffic.retries == 2


@pytest.mark.parametrize("asks", [{"retry_after": "1"}, {"rate_limit_reset": 0}])
def test_the_pause_the_hub_asks_for_is_kept(hub, open_hub, asks, monkeypatch):
    pauses: list[float] = []
    source = open_hub()
    monkeypatch.setattr(source._client.retry, "sleep", pauses.append)
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(source._client.retry, "clock", lambda: next(clock) * 0.0)
    hub.fail(Failure(status=429, times=1, **asks))
    assert read(source) == WEIGHTS[1_000:51_000]
    assert pauses
    assert min(pauses) >= 1.0


def test_a_pause_that_is_too_long_is_an_error(hub, open_hub):
    hub.fail(Failure(status=429, times=None, rate_limit_reset=290))
    with pytest.raises(RateLimited, match="asks us to wait 291 s, but at most 5 s are allowed") as caught:
        open_hub().files()
    assert "log in" in (caught.value.hint or "")
    assert hub.n_requests() == 1


def test_a_server_error_that_stays_is_an_error_after_all_retries(hub, open_hub):
    hub.fail(Failure(status=503, times=None))
    with pytest.raises(NetworkError, match="the server answered 503"):
        open_hub().files()
    assert hub.n_requests() == 3


def test_a_signed_address_that_ran_out_is_renewed_once(hub, open_hub):
    source = open_hub()
    read(source)
    hub.expire_urls()
    hub.reset()
    assert read(source) == WEIGHTS[1_000:51_000]
    assert [(record.origin, record.status) for record in hub.log] == [
        ("cdn", 403),
        ("hub", 302),
        ("cdn", 206),
    ]


def test_a_signed_address_that_never_works_is_refused_after_a_few_tries(hub, open_hub):
    hub.fail(Failure(status=403, times=None, origin="cdn"))
    with pytest.raises(AccessDenied, match="403"):
        read(open_hub())
    assert hub.n_requests("cdn") <= 3


def test_a_file_is_resolved_once_however_many_threads_read_it(hub, open_hub):
    source = open_hub()
    wanted = {BIG: [ByteRange(start, start + 100) for start in range(0, 300_000, 20_000)]}
    Fetcher(source, quick(max_gap=0, connections=8)).fetch(wanted)
    assert hub.n_requests("hub") == 2
    assert hub.n_requests("cdn") == 15


def test_connections_are_used_again(hub, open_hub):
    source = open_hub()
    for start in range(0, 100_000, 10_000):
        read(source, wanted=ByteRange(start, start + 100))
        read(source, "config.json", ByteRange(0, 5))
    for origin in ("hub", "cdn"):
        assert len({record.connection for record in hub.log if record.origin == origin}) == 1


# -- how many requests ----------------------------------------------------------------------------------


def test_a_sharded_model_costs_one_listing_one_index_and_each_shard_once(hub, open_hub):
    source = open_hub("org/shards")
    index = read_weights(Fetcher(source, quick()), head_bytes=128 * 1024).index
    assert len(index) > 10
    asked = [record.path.partition("?")[0].rpartition("/")[2] for record in hub.log if record.origin == "hub"]
    assert hub.n_requests("cdn") == 3
    # The index is a small file: the Hub sends it on to another address of its own.
    assert sorted(asked) == sorted(
        ["main", *["model.safetensors.index.json"] * 2]
        + [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
    )


def question(source: HubSource, store: RangeStore) -> bytes:
    with Fetcher(source, quick(), store=store) as fetcher:
        fetched = fetcher.fetch(
            {BIG: [WANTED, ByteRange(200_000, 200_100)], "config.json": [ByteRange(0, 5)]}
        )
        return bytes(fetched.view(BIG, WANTED))


def test_the_second_run_only_checks_the_revision(hub, open_hub, store):
    first = question(open_hub(store=store), store)
    hub.reset()
    second = open_hub(store=store)
    assert question(second, store) == first
    assert [record.path for record in hub.log] == [f"/api/models/{MODEL}/revision/main?blobs=true"]
    assert second.n_requests == 1


def test_the_second_run_of_a_commit_sends_nothing(hub, open_hub, store):
    commit = hub.commit(MODEL)
    first = question(open_hub(revision=commit, store=store), store)
    hub.reset()
    assert question(open_hub(revision=commit, store=store), store) == first
    assert hub.log == []


@pytest.mark.parametrize("how", ["options", "environment"])
def test_offline_mode_sends_nothing_and_uses_the_store(hub, open_hub, store, how, monkeypatch):
    first = question(open_hub(store=store), store)
    hub.reset()
    if how == "environment":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    offline = {} if how == "environment" else {"offline": True}
    assert question(open_hub(store=store, **offline), store) == first
    with pytest.raises(Offline, match="these bytes are not stored here"):
        read(open_hub(store=store, **offline), wanted=ByteRange(100_000, 100_100))
    with pytest.raises(Offline, match="nothing of this model is stored here") as caught:
        open_hub("org/shards", store=store, **offline).files()
    assert "HF_HUB_OFFLINE" in (caught.value.hint or "")
    assert hub.log == []


def test_options_can_go_online_against_the_environment(hub, open_hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert read(open_hub(offline=False)) == WEIGHTS[1_000:51_000]


# -- the Hub's own cache --------------------------------------------------------------------------------


def download(hub: HubServer, name: str, revision: str | None = None) -> Path:
    path = hf_hub_download(MODEL, name, revision=revision, endpoint=hub.url, token=False)
    close_session()
    return Path(path)


def test_a_file_that_huggingface_hub_downloaded_is_not_asked_for(hub, open_hub, store):
    download(hub, "config.json")  # sorts before the weights, and lies beside them
    download(hub, BIG)
    hub.reset()
    fetcher = Fetcher(open_hub(store=store), quick(), store=store)
    fetched = fetcher.fetch({BIG: [WANTED], "config.json": [ByteRange(0, 5)]})
    assert bytes(fetched.view(BIG, WANTED)) == WEIGHTS[1_000:51_000]
    assert [entry.origin for entry in fetcher.ledger.entries] == ["disk", "disk"]
    assert hub.n_requests() == 1
    assert store.info().n_objects == 0, "what is on disk is not kept a second time"


def test_a_downloaded_file_of_another_size_is_not_trusted(hub, open_hub):
    path = download(hub, BIG)
    path.resolve().write_bytes(b"cut")
    hub.reset()
    assert read(open_hub()) == WEIGHTS[1_000:51_000]
    assert hub.n_requests("cdn") == 1


def test_offline_mode_reads_what_huggingface_hub_downloaded(hub, open_hub, store):
    download(hub, "config.json")
    download(hub, BIG)
    hub.reset()
    source = open_hub(offline=True, store=store)
    assert source.location.revision == hub.commit(MODEL)
    assert list(source.files()) == ["config.json", BIG]
    assert read(source) == WEIGHTS[1_000:51_000]
    assert hub.log == []


# -- hostile answers ------------------------------------------------------------------------------------


SHA = "a" * 40


def listing(**changes: object) -> bytes:
    document = {"sha": SHA, "siblings": [{"rfilename": "config.json", "size": 2, "blobId": "b" * 40}]}
    return json.dumps(document | changes).encode()


def with_file(**changes: object) -> bytes:
    return listing(siblings=[{"rfilename": "config.json", "size": 2, "blobId": "b" * 40} | changes])


def open_answering(answer: Callable[[str], Answer]) -> tuple[Loopback, HubSource]:
    from tests.support.answers import send_answer

    server = Loopback(
        lambda connection, request: send_answer(
            answer(request.target), connection, request, origin="hub", log=None
        )
    )
    return server, HubSource(MODEL, None, quick(endpoint=server.url, token=TOKEN))


ODD_NAMES = (
    "Screenshot 12:30.png",
    "C:\\x",
    "a\x1b[2J",
    "\ud800.bin",
    "x" * 5_000,
    "~/x",
    "\U0001f469\u200d\U0001f4bb.md",
)


def test_odd_names_cost_no_model_and_are_remembered():
    siblings = [{"rfilename": name, "size": 1} for name in ("config.json", *ODD_NAMES)]
    body = json.dumps({"sha": SHA, "siblings": siblings}).encode()
    parsed = load_listing(body, revision=SHA, where="org/a")
    assert list(parsed.files) == ["config.json"]
    assert set(parsed.odd_names) == set(ODD_NAMES)
    assert parse_listing(parsed.to_record(), revision=SHA, where="org/a") == parsed


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "is not JSON"),
        (b"<html>", "is not JSON"),
        (b"[" * 100_000, "is not JSON|nested|more than"),
        (b"[]", "is not an object"),
        (b"{}", "expected a commit of 40 hexadecimal digits, got 'None'"),
        (listing(sha=None), "expected a commit"),
        (listing(sha="main"), "expected a commit"),
        (listing(sha=SHA + "/../.."), "expected a commit"),
        (listing(siblings=None), "names no files"),
        (listing(siblings={"a": 1}), "names no files"),
        (listing(siblings=[1]), "a file without a name"),
        (listing(siblings=[{}]), "a file without a name"),
        (with_file(rfilename=3), "a file without a name"),
        (with_file(rfilename="../../.ssh/id"), "contains '..'"),
        (with_file(rfilename="/etc/passwd"), "is absolute"),
        (with_file(rfilename="a//b"), "contains an empty part"),
        (with_file(rfilename="C:\\x/../a"), "contains the forbidden character"),
        (with_file(rfilename=""), "is empty"),
        (with_file(size=-1), "has no size"),
        (with_file(size=None), "has no size"),
        (with_file(size=True), "has no size"),
        (with_file(size=1 << 70), "has no size"),
        (with_file(size="12"), "has no size"),
        (with_file(lfs={"size": -5}), "has no size"),
        (
            listing(siblings=[{"rfilename": "a", "size": 1}] * 2),
            "names a file twice",
        ),
        (b'{"siblings":[' + b"{}," * 500_000 + b"{}]}", "more than 200,000 files"),
    ],
)
def test_a_listing_that_makes_no_sense_is_refused(body, message):
    server, source = open_answering(lambda target: text_answer(200, body.decode()))
    try:
        with pytest.raises(ListingError, match=message) as caught:
            source.files()
        assert caught.value.exit_code == 4
        assert len(str(caught.value)) < 400
        assert str(caught.value).isprintable()
    finally:
        source.close()
        server.close()


def test_a_listing_without_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(hub_module, "MAX_LISTING", 100_000)
    piece = b" " * 65_536

    def endless() -> Iterator[bytes]:
        while True:
            yield piece

    server, source = open_answering(lambda target: Answer(status=200, body=endless(), length=1 << 40))
    try:
        with pytest.raises(ListingError, match="longer than 100,000 bytes"):
            source.files()
        assert source._client.traffic.bytes_received <= 100_001
        assert source.n_requests == 1
    finally:
        source.close()
        server.close()


def test_a_listing_that_is_cut_short_is_asked_for_again():
    turns = iter([30, 0])
    text = listing()

    def serve(connection: Connection, request: Request) -> bool:
        missing = next(turns)
        connection.send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text))
        connection.send_raw(text[: len(text) - missing])
        return missing == 0

    server = Loopback(serve)
    source = HubSource(MODEL, None, quick(endpoint=server.url))
    assert list(source.files()) == ["config.json"]
    assert source._client.traffic.retries == 1
    source.close()
    server.close()


def test_another_commit_than_was_asked_for_is_refused():
    server, source = open_answering(lambda target: text_answer(200, listing().decode()))
    pinned = HubSource(MODEL, "c" * 40, quick(endpoint=server.url))
    try:
        with pytest.raises(
            ListingError, match=f"asked for commit {'c' * 40}, but the Hub answers with {SHA}"
        ):
            pinned.files()
    finally:
        source.close()
        pinned.close()
        server.close()


def test_a_renamed_repository_is_followed_inside_the_hub():
    def answer(target: str) -> Answer:
        if target.startswith(f"/api/models/{MODEL}/"):
            return text_answer(307, "", {"Location": target.replace(MODEL, "org/renamed")})
        if target.startswith("/api/models/org/renamed/"):
            return text_answer(200, with_file().decode())
        if target.startswith(f"/{MODEL}/resolve/"):
            return text_answer(307, "", {"Location": target.replace(MODEL, "org/renamed")})
        return Answer(status=206, headers={"Content-Range": "bytes 0-1/2"}, body=[b"{}"], length=2)

    server, source = open_answering(answer)
    try:
        assert read(source, "config.json", ByteRange(0, 2)) == b"{}"
    finally:
        source.close()
        server.close()


@pytest.mark.parametrize(
    "location",
    ["//evil.example/x", "https://evil.example/x", "http://127.0.0.1:1/x", "", "file:///etc/hostname"],
)
def test_a_listing_is_not_followed_out_of_the_hub(location):
    server, source = open_answering(lambda target: text_answer(302, "", {"Location": location}))
    try:
        with pytest.raises(NetworkError, match="the Hub answered 302"):
            source.files()
        assert source.n_requests == 1
    finally:
        source.close()
        server.close()


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"X-Linked-Etag": f'"{"d" * 64}"'}, "the listing has digest"),
        ({"X-Linked-Size": "3"}, "the listing has 2 bytes, but the file has '3'"),
    ],
)
def test_a_redirect_that_contradicts_the_listing_is_an_error(headers, message):
    body = with_file(lfs={"sha256": "e" * 64, "size": 2}).decode()

    def answer(target: str) -> Answer:
        if target.startswith("/api/"):
            return text_answer(200, body)
        return text_answer(302, "", {"Location": "/elsewhere", **headers})

    server, source = open_answering(answer)
    try:
        with pytest.raises(ChangedWhileReading, match=message):
            read(source, "config.json", ByteRange(0, 2))
    finally:
        source.close()
        server.close()


def test_a_file_of_another_size_than_listed_is_an_error():
    def answer(target: str) -> Answer:
        if target.startswith("/api/"):
            return text_answer(200, with_file().decode())
        return Answer(status=206, headers={"Content-Range": "bytes 0-1/99"}, body=[b"{}"], length=2)

    server, source = open_answering(answer)
    try:
        with pytest.raises(ChangedWhileReading, match="the file had size 2 at first and has 99 now"):
            read(source, "config.json", ByteRange(0, 2))
    finally:
        source.close()
        server.close()


def test_a_stored_listing_that_was_damaged_is_asked_for_again(hub, open_hub, store):
    commit = hub.commit(MODEL)
    open_hub(revision=commit, store=store).files()
    for path in (store.root / "v1" / "records").rglob("*.json"):
        path.write_text(path.read_text().replace("config.json", "../config.json"))
    hub.reset()
    assert "config.json" in open_hub(revision=commit, store=store).files()
    assert hub.n_requests() == 1


def test_credentials_in_the_endpoint_are_not_shown(hub):
    source = HubSource(MODEL, None, quick(endpoint=hub.url.replace("://", "://me:pass@")))
    assert "pass" not in repr(source.location)
    source.close()
