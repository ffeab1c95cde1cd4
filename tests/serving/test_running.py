"""The server as a process: it listens, answers, keeps the token, and ends when it is asked to."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from tests.registry.made import drawn

from modelkin.registry import create_registry

pytestmark = pytest.mark.more
TOKEN = "a-token-of-thirty-two-letters-xx"
BARE = ("--no-cards", "--claims-depth", "none", "--grow", "0", "--reports", "0", "--no-progress")


@pytest.fixture
def place(tmp_path):
    create_registry(str(tmp_path / "registry")).add([drawn("org/base", 1)])
    return str(tmp_path / "registry")


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def test_an_atlas_is_served_until_it_is_stopped(place, tmp_path):
    token = tmp_path / "token.txt"
    token.write_text(TOKEN + "\n")
    port = free_port()
    command = [sys.executable, "-m", "modelkin", "atlas", "serve", "--registry", place]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--token-file", str(token), *BARE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_PROXY": "*"},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert re.search(rf"http://127\.0\.0\.1:{port}/", line)
        page = asked(f"http://127.0.0.1:{port}/")
        assert "org/base" in page
        asked(f"http://127.0.0.1:{port}/scan.html", Authorization=f"Bearer {TOKEN}")
    finally:
        process.terminate()
        out, err = process.communicate(timeout=30)
    assert TOKEN not in out + err + line
    assert out == ""


def asked(address, **headers):
    """Ask until the server listens."""
    request = urllib.request.Request(address, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(200):
        try:
            with opener.open(request, timeout=10) as answer:
                return answer.read().decode()
        except (ConnectionError, urllib.error.URLError):
            time.sleep(0.05)
    raise AssertionError("no answer")
