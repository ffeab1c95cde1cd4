"""One command of modelkin in a process of its own: what it took and what it printed."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import Any

from benchmarks.peers_job import answer_job


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run a command line."""
    from modelkin.cli.app import app

    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    code = 0
    with contextlib.redirect_stdout(said):
        try:
            app.main(args=list(job["arguments"]), prog_name="modelkin")
        except SystemExit as done:
            code = int(done.code or 0)
    said.seek(0)
    return {"exit_code": code, "printed": said.read()}


if __name__ == "__main__":
    answer_job(work)
