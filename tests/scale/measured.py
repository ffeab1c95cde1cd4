"""One row of the truth table on published weights, compared in a process of its own.

``python -m tests.scale.measured BASE ROW DEPTH`` prints what came out as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.scale.real_rows import DepthName, Expected, candidate_of, folder_of, rows_of

import modelkin as mk

Measured = dict[str, Any]
_ROOT = Path(__file__).parents[2]


def measure(model: str, row: str, depth: str) -> Measured:
    """Compare in a new process, with one thread, so that what is measured is of this row alone."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", "tests.scale.measured", model, row, depth],
        check=False,
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env={**os.environ, **threads, "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: Measured = json.loads(done.stdout)
    return found


def compared(model: str, name: str, depth: DepthName) -> Measured:
    """Compare one row in this process."""
    (row,) = [item for item in rows_of(model) if item.name == name]
    candidate = candidate_of(model, row).source(name)
    options = mk.CompareOptions(depth=depth, fetch=mk.FetchOptions(use_store=False))
    started = time.process_time()
    result = mk.compare(candidate=candidate, base=str(folder_of(model)), options=options)
    verdict = result.verdict
    return {
        "conclusion": verdict.conclusion.value,
        "related": verdict.related,
        "log10_p": None if verdict.log10_p is None else round(verdict.log10_p, 1),
        "effect": None if verdict.effect is None else round(verdict.effect.value, 3),
        "components": {
            key: {"conclusion": part.conclusion.value, "layers": list(part.layers), "basis": part.basis}
            for key, part in verdict.components.items()
            if part.n_tests
        },
        "faces": {str(layer): facing for layer, facing, _ in result.alignment.layers},
        "residual": result.alignment.residual,
        "units": result.alignment.units,
        "bytes": result.ledger.bytes_fetched,
        "cpu_seconds": round(time.process_time() - started, 1),
        "peak_mb": _peak_mb(),
    }


def _peak_mb() -> int:
    """Return the most memory of this program; the kernel's other count begins with that of its parent."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line]
    return int(line.split()[1]) // 1024


def problems(expected: Expected, found: Measured) -> list[str]:
    """Return what is not as it has to be, in words."""
    wrong = []
    if bool(found["related"]) != expected.related:
        wrong.append(f"related is {found['related']}, expected {expected.related}")
    parts = found["components"]
    for name, layers in expected.shared.items():
        part = parts.get(name)
        if part is None or not part["conclusion"].startswith("shared"):
            wrong.append(f"{name} was not found")
        elif isinstance(layers, int) and len(part["layers"]) < layers:
            wrong.append(f"{name} was found in layers {part['layers']}, expected {layers} of them")
        elif not isinstance(layers, int) and not layers <= set(part["layers"]):
            wrong.append(f"{name} was found in layers {part['layers']}, expected {sorted(layers)}")
    for name in expected.absent & set(parts):
        if parts[name]["conclusion"].startswith("shared"):
            wrong.append(f"{name} was found, and is not there")
    for layer, facing in expected.faces.items():
        if found["faces"].get(str(layer)) != facing:
            wrong.append(f"layer {layer} faces {found['faces'].get(str(layer))}, expected {facing}")
    if expected.residual not in (None, found["residual"]):
        wrong.append(f"the residual stream is paired by {found['residual']}, expected {expected.residual}")
    return wrong


if __name__ == "__main__":
    print(json.dumps(compared(sys.argv[1], sys.argv[2], "deep" if sys.argv[3] == "deep" else "standard")))
