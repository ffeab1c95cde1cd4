"""What the tests of sources share: servers, quick options, short pauses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from modelkin.source import retry as retry_module
from modelkin.source.store import RangeStore


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off is tested with a clock of its own; elsewhere it would only cost time."""
    monkeypatch.setattr(retry_module, "FIRST_WAIT", 0.005)


@pytest.fixture
def store(tmp_path) -> RangeStore:
    return RangeStore(tmp_path / "store", limit=1 << 30)


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """Address of a real S3 API on this machine."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_url: str, monkeypatch: pytest.MonkeyPatch):
    """A client with credentials in the environment, where the store's own tools look for them."""
    import boto3

    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATESTKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3-secret-value")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return boto3.client("s3")
