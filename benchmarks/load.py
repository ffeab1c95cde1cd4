"""Many comparisons at once on one store and one flaky Hub: same answers, bounded resources."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any

from tests.support import HubOptions, HubProcess

import modelkin as mk
from benchmarks.load_worker import finding
from benchmarks.tables import Table
from modelkin.source import RangeStore

MODELS = ("base", "continued", "finetune-light", "twin-1", "moe-base", "moe-tuned", "norms-only")
PATIENCE = 900.0
"""Seconds after which a run counts as hanging."""
CONNECTIONS = 4
"""Per model: this many comparisons at once would otherwise need thousands of sockets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The outcome of one run."""

    n_processes: int
    n_comparisons: int
    fault_rate: float
    seconds: float
    median_seconds: float
    requests: int
    faults: int
    wrong: tuple[str, ...]
    """Comparisons that failed, differed from the same one alone, or read other bytes."""
    damaged: int
    """Stored ranges that do not have their digest, or are not the file's bytes."""
    memory: int
    """Largest resident set of a process."""
    sockets: int
    """Most sockets of a process at once."""
    left: int
    """Sockets that were open after everything was closed."""


def zoo(name: str) -> Path:
    """Return the folder of a model that comes with the package."""
    return Path(str(files("modelkin.demo").joinpath("zoo", name)))


def alone(pairs: set[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Compare each pair alone, from disk: what every comparison under load must say."""
    options = mk.CompareOptions(depth="standard")
    return {
        pair: finding(mk.compare(candidate=str(zoo(pair[0])), base=str(zoo(pair[1])), options=options))
        for pair in sorted(pairs)
    }


def measure(
    *, n_processes: int, n_comparisons: int, fault_rate: float, models: tuple[str, ...] = MODELS
) -> Load:
    """Run comparisons concurrently, and check each against the same comparison alone."""
    pairs = list(itertools.islice(itertools.cycle(itertools.permutations(models, 2)), n_comparisons))
    expected = alone(set(pairs))
    repos = {
        f"zoo/{name}": {path.name: path for path in zoo(name).iterdir() if path.name != "recipe.json"}
        for name in models
    }
    options = HubOptions(fault_rate=fault_rate, fault_seed=1)
    with HubProcess(repos, options) as hub, tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        began = time.monotonic()
        workers = [_started(hub.url, store, pairs[number::n_processes]) for number in range(n_processes)]
        reports = [_ended(worker) for worker in workers]
        seconds = time.monotonic() - began
        requests, faults = hub.n_requests(), hub.n_faults
        damaged = _damaged(store, models)
    found = [each for report in reports for each in report["found"]]
    return Load(
        n_processes=n_processes,
        n_comparisons=len(found),
        fault_rate=fault_rate,
        seconds=seconds,
        median_seconds=median(each["seconds"] for each in found),
        requests=requests,
        faults=faults,
        wrong=tuple(problem for each in found if (problem := _problem(each, expected))),
        damaged=damaged,
        memory=max(report["memory"] for report in reports),
        sockets=max(report["sockets"] for report in reports),
        left=max(report["left"] for report in reports),
    )


def _started(endpoint: str, store: Path, pairs: list[tuple[str, str]]) -> subprocess.Popen[str]:
    job = {
        "endpoint": endpoint,
        "store": str(store),
        "connections": CONNECTIONS,
        "pairs": [[f"zoo/{candidate}", f"zoo/{base}"] for candidate, base in pairs],
    }
    worker = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.load_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(job))
    worker.stdin.close()
    worker.stdin = None
    return worker


def _ended(worker: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        text, _ = worker.communicate(timeout=PATIENCE)
    finally:
        if worker.poll() is None:
            worker.kill()
    report: dict[str, Any] = json.loads(text)
    return report


def _problem(found: dict[str, Any], expected: dict[tuple[str, str], dict[str, Any]]) -> str | None:
    candidate, base = (name.removeprefix("zoo/") for name in found["pair"])
    truth = expected[candidate, base]
    if "error" in found:
        return f"{candidate} and {base}: {found['error']}"
    for part in ("conclusion", "log10_p", "effects"):
        if found[part] != truth[part]:
            return f"{candidate} and {base}: {part} is {found[part]}, alone {truth[part]}"
    sides = {"candidate": candidate, "base": base}
    for side, file, start, stop, digest in found["ranges"]:
        data = (zoo(sides[side]) / file).read_bytes()[start:stop]
        if hashlib.sha256(data).hexdigest() != digest:
            return f"{candidate} and {base}: bytes {start}-{stop} of {file} are not the file's"
    return None


def _damaged(folder: Path, models: tuple[str, ...]) -> int:
    """Count objects without their name's digest or of no served file, ranges without objects, and drafts."""
    served = [path.read_bytes() for name in models for path in zoo(name).iterdir()]
    objects = [path for path in (folder / "v1" / "objects").rglob("*") if path.is_file()]
    wrong = 0
    for path in objects:
        data = path.read_bytes()
        named = hashlib.sha256(data).hexdigest() == path.name
        wrong += not (named and any(data in whole for whole in served))
    held = {path.name for path in objects}
    markers = [path for path in (folder / "v1" / "ranges").rglob("*") if path.is_file()]
    lost = sum(path.name.rpartition("-")[2] not in held for path in markers)
    return wrong + lost + RangeStore(folder, limit=1 << 40).info().n_drafts


def run(*, quick: bool) -> str:
    """Return the table for the documentation."""
    cases = [(8, 200, 0.01), (8, 200, 0.1)] if not quick else [(2, 8, 0.05)]
    rows = []
    for n_processes, n_comparisons, rate in cases:
        found = measure(n_processes=n_processes, n_comparisons=n_comparisons, fault_rate=rate)
        for problem in found.wrong:
            print(problem)
        rows.append(
            (
                f"{found.n_comparisons} from {found.n_processes} processes, {rate:.0%} faults",
                f"{found.requests:,}",
                f"{found.faults:,}",
                str(len(found.wrong)),
                str(found.damaged),
                f"{found.seconds:.0f}",
                f"{found.median_seconds:.1f}",
                f"{found.memory / 1e6:.0f}",
                f"{found.sockets:,}",
                str(found.left),
            )
        )
    columns = (
        "comparisons at once",
        "requests",
        "faults",
        "wrong or failed",
        "damaged or lost",
        "seconds",
        "median s",
        "MB a process",
        "sockets a process",
        "left open",
    )
    return Table(columns, rows).markdown()
