"""Run benchmarks: ``python -m benchmarks [NAME ...] [--quick] [--write docs/benchmarks.md]``."""

from __future__ import annotations

import argparse
import importlib
import time
from pathlib import Path

from benchmarks.tables import replace_section

BENCHMARKS = {
    "startup": "Start",
    "decode": "Decoding",
    "reading": "Reading from a Hub",
    "gap": "Joining ranges",
    "connections": "Connections and pieces",
    "memory": "Memory",
    "streaming": "Counting every value of two models",
    "matrix": "Measures over all pairs of layers",
    "studies": "Studies and deep comparisons at true size",
    "controls": "Controls of a deep comparison",
    "references": "Published methods at 7B shape",
    "scan": "Scans",
    "cluster": "Many machines",
    "load": "Load",
}
"""Name of a module here, and what its part of the report is called."""
USUAL = ("startup", "decode", "reading", "memory")
"""What runs by default, in about seven minutes; the others justify defaults and change only with them."""


def main() -> None:
    """Run what was requested."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"any of: {', '.join(BENCHMARKS)}; or all; by default {', '.join(USUAL)}",
    )
    parser.add_argument("--quick", action="store_true", help="fewer and smaller cases, one minute in all")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this document")
    asked = parser.parse_args()
    chosen = tuple(BENCHMARKS) if asked.names == ["all"] else tuple(asked.names) or USUAL
    if unknown := sorted(set(chosen) - set(BENCHMARKS)):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    for name in chosen:
        began = time.monotonic()
        text = importlib.import_module(f"benchmarks.{name}").run(quick=asked.quick)
        print(
            f"## {BENCHMARKS[name]}\n\n{text}\n\n({name} took {time.monotonic() - began:.0f} s)\n", flush=True
        )
        if asked.write is not None:
            replace_section(asked.write, name, text)


if __name__ == "__main__":
    main()
