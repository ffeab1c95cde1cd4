"""What aligning costs: polar factors, assignments, best matches. ``python -m benchmarks.linear_algebra``.

Each measurement is the smallest CPU time of some runs with one thread in a separate process, so that other
work on the machine counts as little as possible; still, read the ratios. Packages that modelkin does not
install are measured with ``--python lap=/path/to/python``, an interpreter that has numpy and the package.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import linear_algebra_match as match
from benchmarks import linear_algebra_polar as polar
from benchmarks.peers_job import run_job
from benchmarks.tables import Table, megabytes, seconds, times

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
PATIENCE = 100.0
"""Seconds that a measurement may be expected to take; beyond, it is left out and the table says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    widths: Sequence[int] = (512, 1024, 2048, 4096)
    """Of polar factors; the rarer cases only for the first."""
    units: Sequence[int] = (1024, 4096, 11008)
    """Rows that are matched."""
    repeats: int = 2
    pythons: Mapping[str, str] | None = None
    """Interpreters by the package that is measured with them."""


QUICK = Plan(widths=(256,), units=(512,), repeats=1)


class Growing:
    """Runs one way for growing sizes, and stops when the next is expected to take too long."""

    def __init__(self, plan: Plan, *, say: Callable[[str], object]) -> None:
        self._plan, self._say = plan, say
        self._last: dict[tuple[str, ...], tuple[int, float]] = {}

    def run(self, module: str, size: int, key: tuple[str, ...], job: Mapping[str, Any]) -> dict[str, Any]:
        """Return the measurement, or what failed."""
        before, took = self._last.get(key, (size, 0.0))
        expected = took * (size / before) ** 3
        if expected > PATIENCE:
            return {"failed": f"not run, about {expected:.0f}"}
        python = (self._plan.pythons or {}).get(str(job["way"]), sys.executable)
        few = self._plan.repeats if expected < 10 else 1
        found = run_job(module, {**job, "repeats": few}, environment=_one_thread(), python=python)
        if "failed" not in found:
            self._last[key] = size, float(found["cpu"])
        self._say(f"{size} {' '.join(key)}: {found.get('failed') or seconds(found['cpu'])}")
        return found


def _one_thread() -> dict[str, str]:
    return {**os.environ, **dict.fromkeys(THREADS, "1")}


def polar_table(plan: Plan, growing: Growing, folder: Path) -> Table:
    """Measure every way to the polar factor."""
    rows: list[list[str]] = []
    for width in plan.widths:
        for case in polar.CASES if width == min(plan.widths) else polar.CASES[:1]:
            stored = str(polar.store_case(case, width, folder))
            group: list[tuple[str, str, dict[str, Any]]] = []
            for way in polar.WAYS:
                for dtype in ("float64", "float32"):
                    job = {"case": stored, "way": way, "dtype": dtype}
                    found = growing.run("benchmarks.linear_algebra_polar", width, (way, dtype, case), job)
                    group.append((way, dtype, found))
            unit = group[0][2]["cpu"]
            rows += [
                [f"{width}, {case}", way, dtype, *_polar_cells(found, unit)] for way, dtype, found in group
            ]
    return Table(
        ["matrix", "way", "numbers", "CPU s", "of SVD", "orthogonality", "distance", "fit lost", "MB"], rows
    )


def _polar_cells(found: Mapping[str, Any], unit: float) -> list[str]:
    if "failed" in found:
        return [str(found["failed"]), *["-"] * 5]
    errors = [f"{max(found[key], 0.0):.1g}" for key in ("orthogonality", "distance", "shortfall")]
    return [seconds(found["cpu"]), times(found["cpu"] / unit), *errors, megabytes(found["peak_bytes"])]


def match_table(plan: Plan, growing: Growing, _: Path) -> Table:
    """Measure every way to match, on precomputed cosines."""
    ways = [way for way in match.WAYS if way not in match.SOLVERS[1:] or way in (plan.pythons or {})]
    rows: list[list[str]] = []
    for n in plan.units:
        for case in match.CASES:
            group = {
                way: growing.run(
                    "benchmarks.linear_algebra_match", n, (way, case), {"n": n, "case": case, "way": way}
                )
                for way in ways
            }
            best = max((f["value"] for f in group.values() if f.get("one_to_one")), default=None)
            unit = group["best of each row"]["cpu"]
            rows += [[f"{n}, {case}", way, *_match_cells(found, unit, best)] for way, found in group.items()]
    columns = ["rows", "way", "CPU s", "of best of each row", "right", "wrong", "sum of best", "extra MB"]
    return Table(columns, rows)


def _match_cells(found: Mapping[str, Any], unit: float, best: float | None) -> list[str]:
    if "failed" in found:
        return [str(found["failed"]), *["-"] * 5]
    complete = best is not None and found["one_to_one"]
    return [
        f"{found['cpu']:.4f}" if found["cpu"] < 0.1 else seconds(found["cpu"]),
        times(found["cpu"] / unit),
        f"{100 * found['right']:.1f} %",
        f"{100 * found['wrong']:.1f} %",
        f"{found['value'] / best:.4f}" if complete and best else "not one to one",
        megabytes(found["extra_bytes"]),
    ]


def block_table(plan: Plan, growing: Growing, _: Path) -> Table:
    """Measure the best matches of rows and columns with and without all cosines in memory."""
    rows: list[list[str]] = []
    for n in plan.units:
        for case in ("cosine 0.7", "strangers"):
            job = {"n": n, "case": case}
            full, blocks = (
                growing.run("benchmarks.linear_algebra_match", n, (way, case), {**job, "way": way})
                for way in ("full matrix", "blocks")
            )
            same = full["value"] == blocks["value"] and full["right"] == blocks["right"]
            cells = [seconds(full["cpu"]), seconds(blocks["cpu"]), times(full["cpu"] / blocks["cpu"])]
            sizes = [megabytes(found["extra_bytes"]) for found in (full, blocks)]
            rows.append([f"{n}, {case}", *cells, *sizes, "yes" if same else "NO"])
    columns = ["rows", "full, CPU s", "blocks, CPU s", "faster by", "full, MB", "blocks, MB", "same answer"]
    return Table(columns, rows)


def run(plan: Plan, parts: Sequence[str], *, say: Callable[[str], object] = lambda line: None) -> str:
    """Measure some parts; return them as Markdown."""
    growing = Growing(plan, say=say)
    texts = [f"One thread, least CPU time of {plan.repeats} runs (of one where a run takes more than 10 s)."]
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            table = PARTS[part](plan, growing, Path(folder))
            texts.append(f"### {part.capitalize()}\n\n{table.markdown()}")
    return "\n\n".join(texts)


PARTS: Mapping[str, Callable[[Plan, Growing, Path], Table]] = {
    "polar factor": polar_table,
    "assignment": match_table,
    "blocks": block_table,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.linear_algebra", description=__doc__)
    parser.add_argument("--part", action="append", choices=list(PARTS), help="one part; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes only, a minute")
    parser.add_argument("--width", action="append", type=int, help="of a polar factor; repeat for several")
    parser.add_argument("--units", action="append", type=int, help="rows to match; repeat for several")
    parser.add_argument("--python", action="append", default=[], metavar="PACKAGE=PATH")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables to this file as well")
    asked = parser.parse_args()
    pythons = dict(pair.split("=", 1) for pair in asked.python)
    if unknown := pythons.keys() - set(match.SOLVERS):
        parser.error(f"no solver {', '.join(sorted(unknown))}; there are {', '.join(match.SOLVERS)}")
    size = QUICK if asked.quick else Plan()
    plan = Plan(
        widths=asked.width or size.widths,
        units=asked.units or size.units,
        repeats=size.repeats,
        pythons=pythons,
    )
    text = run(plan, asked.part or list(PARTS), say=lambda line: print(line, file=sys.stderr, flush=True))
    print(text)
    if asked.write is not None:
        asked.write.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
