"""A job for another process: JSON in, measurement out. Only the standard library, for any interpreter."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Work = Callable[[Mapping[str, Any]], dict[str, Any]]


def run_job(
    module: str, job: Mapping[str, Any], *, environment: Mapping[str, str], python: str = sys.executable
) -> dict[str, Any]:
    """Run ``python -m module`` in a fresh process with a job and return its answer."""
    done = subprocess.run(
        [python, "-m", module],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        env=dict(environment),
        cwd=Path(__file__).parents[1],
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def answer_job(work: Work) -> None:
    """Do the work of the job on standard input, after its imports; print what it found and what it took."""
    job = json.load(sys.stdin)
    before, began, began_cpu = peak_bytes(), time.perf_counter(), time.process_time()
    found = work(job)
    took = {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
        "base_bytes": before,
        "peak_bytes": peak_bytes(),
    }
    print(json.dumps({**took, **found}))


def peak_bytes() -> int:
    """Return the most memory this process had. `getrusage` would count its parent's before the start, too."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
