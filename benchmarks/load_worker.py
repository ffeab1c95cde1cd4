"""Some comparisons at once in a process of its own: job in (JSON on standard input), findings out (JSON)."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import modelkin as mk
from benchmarks.peers_job import peak_bytes
from modelkin.errors import ModelkinError

_SAMPLED_EVERY = 0.02


class Sockets:
    """Counts this process's open sockets again and again, and keeps the largest count."""

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Sockets:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLED_EVERY):
            self.most = max(self.most, open_sockets())


def open_sockets() -> int:
    """Return how many sockets this process has open; 0 if the system does not say."""
    count = 0
    for entry in Path("/proc/self/fd").glob("*"):
        try:
            count += os.readlink(entry).startswith("socket:")
        except OSError:
            continue
    return count


def finding(result: mk.Comparison) -> dict[str, Any]:
    """Return what must not depend on load: verdict, numbers, and the ranges with their digests."""
    document = json.loads(result.to_json())
    ledger = document["ledger"]
    return {
        "conclusion": document["verdict"]["conclusion"],
        "log10_p": [item.get("log10_p") for item in document["evidence"]],
        "effects": [(item.get("effect") or {}).get("value") for item in document["evidence"]],
        "ranges": sorted(
            {(r["model"], r["file"], r["start"], r["stop"], r["sha256"]) for r in ledger["ranges"]}
        ),
    }


def main() -> None:
    """Run the comparisons of one job, all at once."""
    job: Mapping[str, Any] = json.load(sys.stdin)
    fetch = mk.FetchOptions(
        endpoint=job["endpoint"], token=False, store_dir=Path(job["store"]), connections=job["connections"]
    )
    options = mk.CompareOptions(depth="standard", fetch=fetch)
    begin = threading.Barrier(len(job["pairs"]))

    def compare(pair: list[str]) -> dict[str, Any]:
        begin.wait()
        began = time.monotonic()
        try:
            result = mk.compare(candidate=pair[0], base=pair[1], options=options)
        except ModelkinError as error:
            return {"pair": pair, "error": str(error), "seconds": time.monotonic() - began}
        return {"pair": pair, "seconds": time.monotonic() - began, **finding(result)}

    with Sockets() as sockets, ThreadPoolExecutor(len(job["pairs"])) as pool:
        found = list(pool.map(compare, job["pairs"]))
    memory = peak_bytes()
    left = open_sockets()
    json.dump({"found": found, "memory": memory, "sockets": sockets.most, "left": left}, sys.stdout)


if __name__ == "__main__":
    main()
