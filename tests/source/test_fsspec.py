"""Object stores through fsspec: a real S3 API on this machine, and backends that fail in their own ways."""

from __future__ import annotations

import sys

import fsspec
import pytest

from modelkin.errors import (
    AccessDenied,
    BadReference,
    ListingError,
    MissingExtra,
    NetworkError,
    NotFound,
    Offline,
    SourceError,
    WrongBytes,
)
from modelkin.source import ByteRange, Fetcher
from modelkin.source import fsspec_source as fsspec_module
from modelkin.source.fsspec_source import FsspecSource

from .support import FILES, everything_said, quick


@pytest.fixture
def bucket(s3):
    s3.create_bucket(Bucket="models")
    for name, data in FILES.items():
        s3.put_object(Bucket="models", Key=f"one/{name}", Body=data)
    yield s3
    for entry in s3.list_objects_v2(Bucket="models").get("Contents", []):
        s3.delete_object(Bucket="models", Key=entry["Key"])
    s3.delete_bucket(Bucket="models")


def read(source: FsspecSource, name: str = "model.safetensors", stop: int = 100) -> bytes:
    info = source.find(name)
    assert info is not None
    return source.read_range(info, ByteRange(0, stop))


@pytest.mark.more
def test_a_bucket_has_etags_and_is_stored_by_them(bucket, store):
    source = FsspecSource("s3://models/one", quick())
    etag = source.files()["config.json"].etag
    assert len(etag or "") == 32
    Fetcher(source, quick(), store=store).fetch({"config.json": [ByteRange(0, 10)]})
    again = FsspecSource("s3://models/one", quick())
    with Fetcher(again, quick(), store=store) as fetcher:
        fetcher.fetch({"config.json": [ByteRange(0, 10)]})
        assert fetcher.totals().cache_hits == 1
        assert again.n_requests == 1, "the listing only"
    bucket.put_object(Bucket="models", Key="one/config.json", Body=b"new contents")
    assert FsspecSource("s3://models/one", quick()).files()["config.json"].etag != etag


def test_beside_a_single_file_nothing_is_listed(bucket, monkeypatch):
    source = FsspecSource("s3://models/one/model.safetensors", quick())
    monkeypatch.setattr(source._system, "find", None)
    assert list(source.files()) == ["model.safetensors"]
    assert read(source, "config.json", 5) == FILES["config.json"][:5]
    assert source.find("nothing.json") is None
    assert list(source.files()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("url", ["s3://models/nothing", "s3://nobucket/one"])
def test_what_is_not_there_is_not_found(bucket, url):
    with pytest.raises((NotFound, AccessDenied), match=url):
        FsspecSource(url, quick()).files()


def test_a_file_that_was_removed_meanwhile_is_not_found(bucket):
    source = FsspecSource("s3://models/one", quick())
    source.files()
    bucket.delete_object(Bucket="models", Key="one/config.json")
    with pytest.raises(NotFound, match=r"s3://models/one/config\.json: nothing was found there"):
        read(source, "config.json", 5)


def test_a_file_that_was_shortened_meanwhile_is_noticed(bucket):
    source = FsspecSource("s3://models/one", quick())
    source.files()
    bucket.put_object(Bucket="models", Key="one/model.safetensors", Body=b"short")
    with pytest.raises(
        SourceError, match=r"expected 100 bytes, but the object store sent 5|the object store failed"
    ):
        read(source)


def test_without_credentials_access_is_denied(monkeypatch, s3_url):
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_url)
    with pytest.raises(AccessDenied, match="the object store needs credentials") as caught:
        FsspecSource("s3://models/one", quick()).files()
    assert caught.value.hint


def test_a_store_that_does_not_answer_is_a_network_error(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3-secret-value")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(NetworkError, match="the object store failed: EndpointConnectionError") as caught:
        FsspecSource("s3://models/one", quick()).files()
    assert "s3-secret-value" not in everything_said(caught.value)


def test_an_unknown_kind_of_store_is_refused():
    with pytest.raises(BadReference, match="fsspec cannot open this"):
        FsspecSource("nosuchstore://x/y", quick())


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtra, match="fsspec") as caught:
        FsspecSource("s3://bucket/x", quick())
    assert "modelkin[cloud]" in (caught.value.hint or "")


def test_offline_mode_asks_nobody():
    source = FsspecSource("memory://x", quick(offline=True))
    with pytest.raises(Offline, match="offline mode is on"):
        source.files()
    assert source.n_requests == 0


class Broken:
    """A backend that fails as it likes."""

    def __init__(self, **answers: object) -> None:
        self._answers = answers
        self.calls: list[str] = []

    def __getattr__(self, name: str):
        def call(*_: object, **__: object) -> object:
            self.calls.append(name)
            answer = self._answers[name]
            if isinstance(answer, list):
                answer = answer.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


@pytest.fixture
def broken(monkeypatch):
    def open_(**answers: object) -> tuple[FsspecSource, Broken]:
        system = Broken(**{"isfile": False, **answers})
        monkeypatch.setattr(fsspec.core, "url_to_fs", lambda *_, **__: (system, "root"))
        return FsspecSource("x://root", quick()), system

    return open_


FILE = {"root/a": {"size": 200, "type": "file", "ETag": '"e"'}}


class OwnError(Exception):
    """What some client library raises."""


@pytest.mark.parametrize(
    "error", [OwnError("boom https://h/x?sig=secret"), OSError("boom"), RuntimeError("boom")]
)
def test_whatever_a_backend_raises_is_tried_again_and_then_put_in_our_words(broken, error):
    source, system = broken(find=error)
    with pytest.raises(NetworkError, match=f"the object store failed: {type(error).__name__}") as caught:
        source.files()
    assert system.calls.count("find") == fsspec_module._MOST_ATTEMPTS
    assert "secret" not in everything_said(caught.value)


def test_a_failure_that_passes_is_survived_and_paid_once(broken):
    source, _ = broken(find=FILE, cat_file=[OwnError("boom"), b"x" * 100])
    assert read(source, "a") == b"x" * 100
    assert source.budget.spent == 100


@pytest.mark.parametrize("sent", [b"", b"x" * 99, b"x" * 101])
def test_other_bytes_than_were_asked_for_are_an_error(broken, sent):
    source, _ = broken(find=FILE, cat_file=sent)
    with pytest.raises(WrongBytes, match=f"expected 100 bytes, but the object store sent {len(sent)}"):
        read(source, "a")


@pytest.mark.parametrize(
    "entries",
    [
        {"root/../a": {"size": 1}},
        {"root/a": {"size": None}},
        {"root/a": {"size": -1}},
        {"elsewhere:/a": {"size": 1}},
    ],
)
def test_a_listing_that_makes_no_sense_is_refused(broken, entries):
    source, _ = broken(find=entries)
    with pytest.raises(ListingError, match="the object store lists"):
        source.files()


def test_odd_names_below_a_prefix_are_left_out(broken):
    source, _ = broken(find={"root/a": {"size": 1}, "root/a\x1b": {"size": 1}, "root/12:30.png": {"size": 1}})
    assert list(source.files()) == ["a"]
    assert source.odd_names == ("12:30.png", "a\x1b")


def test_a_prefix_of_too_many_files_is_refused(broken, monkeypatch):
    monkeypatch.setattr(fsspec_module, "MAX_FILES", 1)
    source, _ = broken(find={**FILE, "root/b": {"size": 1}})
    with pytest.raises(ListingError, match="there are more than 1 files"):
        source.files()


@pytest.mark.parametrize(
    ("entry", "etag"),
    [
        ({"ETag": '"abc"'}, "abc"),
        ({"md5Hash": "abc"}, "abc"),
        ({"LastModified": "2026-01-01"}, None),
        ({"content_settings": object()}, None),
        ({}, None),
    ],
)
def test_versions_are_told_apart_by_what_the_store_gives(broken, entry, etag):
    source, _ = broken(find={"root/a": {"size": 200, **entry}})
    assert source.find("a").etag == etag
