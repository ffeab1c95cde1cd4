"""Adds to a registry in separate processes that are killed, each one event later than the last.

``python -m tests.registry.killed FOLDER STEP``: prints one line a run, ``events outcome rows``.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any

from tests.registry.made import drawn

from modelkin.registry import open_registry


def add_and_die(folder: str, number: int, last: int) -> None:
    """Add two models; die at an event in the code that writes, if so many come."""
    seen = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal seen
        if frame.f_code.co_filename.endswith(("place.py", "store.py", "segments.py", "pathlib.py")):
            seen += 1
            if seen == last:
                os.kill(os.getpid(), signal.SIGKILL)

    registry = open_registry(folder)
    rows = [drawn(f"org/run-{number}-{at}", 1_000 * number + at) for at in range(2)]
    sys.setprofile(count)
    registry.add(rows)
    sys.setprofile(None)
    os._exit(0)


def main(folder: str, step: int) -> None:
    """Go on until a run is no longer killed."""
    last = 1
    for number in range(10_000):
        child = os.fork()
        if child == 0:
            add_and_die(folder, number, last)
        _, status = os.waitpid(child, 0)
        finished = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
        if not finished and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            raise SystemExit(f"run {number} ended with status {status}")
        names = {ref for ref, _ in open_registry(folder).known()}
        mine = sum(f"org/run-{number}-{at}" in names for at in range(2))
        print(last, "finished" if finished else "killed", mine, flush=True)
        if finished:
            return
        last += step


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
