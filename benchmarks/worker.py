"""One reading in a process of its own: job in (JSON on standard input), measurement out (JSON).

Imports come first and are timed separately; the clock then covers only the reading. A fresh process means
that no way inherits another's connections, caches or memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import touch_memory
from benchmarks.subject import REPO, Selection
from benchmarks.ways import Target, make_way, stored_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one reading cost the client."""

    seconds: float
    cpu_seconds: float
    import_seconds: float
    digest: str
    n_bytes: int


def read_in_process(
    way: str,
    *,
    endpoint: str,
    selection: Selection,
    home: Path,
    fetch_options: Mapping[str, Any] | None = None,
) -> Reading:
    """Run a way in a fresh interpreter and return what it measured."""
    job = {
        "way": way,
        "endpoint": endpoint,
        "tensors": selection.tensors,
        "touched": 64 * 2**20 + 6 * selection.n_bytes,
        "home": str(home),
        "fetch_options": dict(fetch_options or {}),
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.worker"],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        env=environment(home, endpoint),
        cwd=Path(__file__).parents[1],
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{way} failed:\n{done.stderr[-2000:]}")
    return Reading(**json.loads(done.stdout.splitlines()[-1]))


def environment(home: Path, endpoint: str = "") -> dict[str, str]:
    """Return an environment in which `huggingface_hub` finds neither the user's cache nor the real Hub."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    return {
        **kept,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        **({"HF_ENDPOINT": endpoint} if endpoint else {}),
    }


def measure(job: Mapping[str, Any]) -> Reading:
    """Read once and measure it."""
    began = time.perf_counter()
    way = make_way(job["way"], **job["fetch_options"])
    target = Target(endpoint=job["endpoint"], repo=REPO, home=Path(job["home"]))
    imported = time.perf_counter()
    touch_memory(job["touched"])
    ready, ready_cpu = time.perf_counter(), time.process_time()
    values = way.read(target, job["tensors"])
    done, done_cpu = time.perf_counter(), time.process_time()
    digest = hashlib.sha256()
    n_bytes = 0
    for name in sorted(values):
        data = stored_bytes(values[name])
        n_bytes += len(data)
        digest.update(name.encode() + b"\0" + data)
    return Reading(
        seconds=done - ready,
        cpu_seconds=done_cpu - ready_cpu,
        import_seconds=imported - began,
        digest=digest.hexdigest(),
        n_bytes=n_bytes,
    )


if __name__ == "__main__":
    print(json.dumps(asdict(measure(json.load(sys.stdin)))))
