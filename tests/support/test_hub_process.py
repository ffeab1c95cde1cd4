from __future__ import annotations

import base64
import json
import subprocess
import sys

import pytest
import urllib3
from tests.support import (
    Delays,
    Failure,
    HubOptions,
    HubProcess,
    HubRepo,
    LlamaShape,
    VirtualFile,
    virtual_llama,
)
from tests.support.hub_repo import read_spec

OPTIONS = HubOptions(tokens={"hf_member": {"org/private"}}, delays=Delays(hub=0.001, bandwidth=1e9))

FOLLOW = urllib3.Retry(5, connect=0, read=0, status=0, respect_retry_after_header=False)


def test_another_process_serves_the_same(tmp_path):
    files = virtual_llama(LlamaShape(), n_shards=1)
    (tmp_path / "notes").write_bytes(b"on disk")
    repo = HubRepo(files={**files, "notes.txt": tmp_path / "notes"}, private=True)
    with HubProcess({"org/private": repo}, OPTIONS) as server, urllib3.PoolManager(retries=FOLLOW) as pool:
        token = {"Authorization": "Bearer hf_member"}
        base = f"{server.url}/org/private/resolve/main"
        assert pool.request("GET", f"{base}/notes.txt").status == 401
        assert pool.request("GET", f"{base}/notes.txt", headers=token).data == b"on disk"
        server.reset()
        weights = files["model.safetensors"]
        assert isinstance(weights, VirtualFile)
        answer = pool.request("GET", f"{base}/model.safetensors", headers={**token, "Range": "bytes=90-99"})
        assert answer.data == weights.read(90, 100)
        assert (server.n_requests("hub"), server.n_requests("cdn"), server.n_requests()) == (1, 1, 2)
        assert server.bytes_sent("cdn") == 10
        assert [record.authorization for record in server.log] == ["Bearer hf_member", None]
        server.fail(Failure(status=503, times=None, origin="cdn"))
        assert pool.request("GET", f"{base}/model.safetensors", headers=token).status == 503
        address = server.url
    with urllib3.PoolManager(retries=False) as pool, pytest.raises(urllib3.exceptions.NewConnectionError):
        pool.request("GET", address)


def test_the_module_serves_a_specification_until_its_input_ends(tmp_path):
    file = {"base64": base64.b64encode(b"{}").decode()}
    (tmp_path / "spec.json").write_text(
        json.dumps({"repos": {"org/model": {"files": {"config.json": file}}}})
    )
    command = [sys.executable, "-m", "tests.support", "--spec", str(tmp_path / "spec.json")]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout).keys() == {"hub", "cdn"}
    assert done.stderr == ""


def test_a_specification_that_makes_no_sense_is_told():
    with pytest.raises(ValueError, match="a file must be given as base64, path, virtual or drawn"):
        read_spec({"repos": {"org/model": {"files": {"config.json": {"url": "x"}}}}})
