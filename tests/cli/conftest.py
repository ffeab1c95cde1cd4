"""A way to run the command in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from modelkin._cli import failures
from modelkin._cli.app import app

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function from arguments to exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["modelkin", *arguments])
        status = failures.run(app)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call
