"""What the tests of sources share: servers, quick options, short pauses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from modelkin.source import retry as retry_module
from modelkin.source.store import RangeStore

from .support import FILES


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


_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTKEY",
    "AWS_SECRET_ACCESS_KEY": "s3-secret-value",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@pytest.fixture(scope="session")
def s3_client(s3_url: str):
    """A client of it, made once: botocore takes a fifth of a second to read its own description."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=s3_url,
        aws_access_key_id=_CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        region_name=_CREDENTIALS["AWS_DEFAULT_REGION"],
    )


@pytest.fixture
def s3(s3_url: str, s3_client, monkeypatch: pytest.MonkeyPatch):
    """The client, with credentials in the environment, where the store's own tools look for them."""
    for name, value in {"AWS_ENDPOINT_URL": s3_url, **_CREDENTIALS}.items():
        monkeypatch.setenv(name, value)
    return s3_client


@pytest.fixture(scope="session")
def s3_model(s3_client) -> str:
    """A bucket with the four files, which nobody changes."""
    s3_client.create_bucket(Bucket="kept")
    for name, data in FILES.items():
        s3_client.put_object(Bucket="kept", Key=f"models/one/{name}", Body=data)
    return "s3://kept/models/one"
