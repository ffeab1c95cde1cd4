"""Opening an ONNX file: ours against ``onnx.load``, and over a network against fetching it whole.

``python -m benchmarks.formats_onnx FILE.onnx [...]``
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.support import Delays, HubOptions, HubServer

import modelkin as mk
from benchmarks.tables import Table
from modelkin.options import FetchOptions

DELAYS = Delays(hub=0.1, cdn=0.05, connection=0.1, bandwidth=20e6)
"""Those of the reading benchmarks; each connection transfers 20 MB per second."""


def seconds_of(work: Callable[[], object], repeats: int) -> float:
    """Return the median time of some work."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def open_here(path: Path) -> None:
    """Open a local file and name its tensors."""
    with mk.open_model(str(path)) as model:
        assert model.index


def load_onnx(path: Path) -> None:
    """Open it with the reference library."""
    import onnx

    assert onnx.load(path).graph.initializer


def local_row(path: Path, repeats: int) -> list[str]:
    """Measure both on the local file."""
    ours = seconds_of(partial(open_here, path), repeats)
    theirs = seconds_of(partial(load_onnx, path), repeats)
    with mk.open_model(str(path)) as model:
        n_tensors, read = len(model.index), model.totals().bytes_fetched
    size = path.stat().st_size
    return [
        path.name,
        f"{size / 1e6:.1f} MB",
        str(n_tensors),
        f"{read / 1e6:.2f} MB",
        f"{1e3 * ours:.0f} ms",
        f"{1e3 * theirs:.0f} ms",
        f"{theirs / ours:.1f}",
    ]


def remote_row(path: Path) -> list[str]:
    """Open it from a Hub with usual network delays, and fetch it whole from the same."""
    files = {"model.onnx": path.read_bytes()}
    with HubServer({"org/model": files}, HubOptions(delays=DELAYS)) as hub:
        fetch = FetchOptions(use_store=False, endpoint=hub.url, token=False)
        began = time.perf_counter()
        with mk.open_model("org/model", fetch) as model:
            n_tensors = len(model.index)
            opened = time.perf_counter() - began
            totals = model.totals()
        wholes = [whole_seconds(fetch), whole_seconds(replace(fetch, connections=1))]
    return [
        path.name,
        f"{len(files['model.onnx']) / 1e6:.1f} MB",
        str(n_tensors),
        f"{totals.bytes_fetched / 1e6:.2f} MB",
        str(totals.requests),
        f"{opened:.2f} s",
        *(f"{whole:.2f} s" for whole in wholes),
    ]


def whole_seconds(fetch: FetchOptions) -> float:
    """Return the time of fetching the file whole."""
    began = time.perf_counter()
    with mk.open_model("org/model", fetch) as model:
        model.read_file("model.onnx", limit=1 << 40)
    return time.perf_counter() - began


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    columns = ["file", "size", "tensors", "read", "modelkin", "onnx.load", "ratio"]
    rows = [local_row(path, given.repeats) for path in given.files]
    print(Table(columns, rows).markdown())
    columns = ["file", "size", "tensors", "read", "requests", "open", "whole, 32 lines", "whole, one line"]
    print(Table(columns, [remote_row(path) for path in given.files]).markdown())


if __name__ == "__main__":
    main()
