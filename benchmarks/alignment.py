"""What the deep stage costs: bytes, CPU seconds and memory of each step, at 7B, 70B and 110B shapes.

``python -m benchmarks.alignment [--quick] [--keep FILE] [--write docs/disguises.md]``
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.alignment_job import OWN_LAYERS, WHOLE
from benchmarks.alignment_subject import SUBJECTS
from benchmarks.peers_job import run_job
from benchmarks.tables import Table, megabytes, replace_section, seconds

MODULE = "benchmarks.alignment_job"
CEILING = 1_000_000_000
"""Bytes per model that ``--depth deep`` may read."""
METHODS = (
    "mlp-map",
    "attention-map",
    "residual-writers",
    "expert-map",
    "mlp-order",
    "mlp-matching",
    "router-matching",
    "head-matching",
    "unit-agreement",
)
COPIES = ("copy", "permuted copy", "rotated copy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One step on one pair of models."""

    subject: str
    kind: str
    step: str

    @property
    def key(self) -> str:
        """Its name in a file of results."""
        return f"{self.subject} / {self.kind} / {self.step}"

    @property
    def label(self) -> str:
        """Its name in the table."""
        return self.step if self.step in METHODS else f"{self.step}: {self.kind}"


def cases(subject: str) -> Iterator[Case]:
    """Yield the steps for one shape, cheap ones first."""
    for method in METHODS:
        yield Case(subject=subject, kind="strangers", step=method)
    turnable = SUBJECTS[subject]().hidden & (SUBJECTS[subject]().hidden - 1) == 0
    for kind in (*(COPIES if turnable else COPIES[:2]), "strangers"):
        yield Case(subject=subject, kind=kind, step="map from tokens")
    for kind in ("strangers", *(("hidden copy",) if turnable else ())):
        yield Case(subject=subject, kind=kind, step="map from keys")
    yield Case(subject=subject, kind="rotated copy" if turnable else "strangers", step="map from units")
    for kind in ("strangers", *(("hidden copy",) if turnable else ())):
        yield Case(subject=subject, kind=kind, step=OWN_LAYERS)
    yield Case(subject=subject, kind="strangers", step=WHOLE)
    if turnable:
        yield Case(subject=subject, kind="rotated copy", step=WHOLE)
        yield Case(subject=subject, kind="hidden copy", step=WHOLE)


def measure(case: Case) -> dict[str, Any]:
    """Measure one case in a fresh process with one thread for linear algebra."""
    # Waiting threads spin, and on a busy machine that would count as work.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    job = {"subject": case.subject, "kind": case.kind, "step": case.step}
    return run_job(MODULE, job, environment=environment)


def table(found: Mapping[Case, Mapping[str, Any]]) -> Table:
    """Return what was measured for one shape."""
    columns = [
        "step",
        "planned MB, candidate",
        "base",
        "read MB, candidate",
        "base",
        "CPU s",
        "peak MB",
        "outcome",
    ]
    rows = [
        [
            case.label,
            *(megabytes(n_bytes) for n_bytes in one["planned"]),
            *(megabytes(n_bytes) for n_bytes in one["read"]),
            seconds(one["cpu_seconds"]),
            f"{one['peak_bytes'] / 1e6:.0f}",
            one["result"],
        ]
        for case, one in found.items()
    ]
    return Table(columns, rows)


def run(*, quick: bool = False, keep: Path | None = None, as_is: bool = False) -> str:
    """Measure all shapes, or 7B only; return it as Markdown.

    Parameters
    ----------
    quick
        Leave out all shapes but the smallest.
    keep
        A file of results: what is in it is not measured again, and what is measured is added.
    as_is
        Measure nothing: show what is in the file, and name what is not.
    """
    known: dict[str, dict[str, Any]] = json.loads(keep.read_text()) if keep and keep.exists() else {}
    parts: list[str] = []
    for subject in ("7B",) if quick else SUBJECTS:
        found: dict[Case, Mapping[str, Any]] = {}
        missing = [case.label for case in cases(subject) if as_is and case.key not in known]
        for case in cases(subject):
            if case.label in missing:
                continue
            if case.key not in known:
                known[case.key] = measure(case)
                if keep is not None:
                    keep.write_text(json.dumps(known, indent=1))
            found[case] = known[case.key]
        parts += [f"### {subject}", table(found).markdown(), _most(found)] if found else []
        parts += [f"Not measured at {subject}: {'; '.join(missing)}."] if missing else []
    return "\n\n".join(parts)


def _most(found: Mapping[Case, Mapping[str, Any]]) -> str:
    most = max(max(one["all_read"]) for one in found.values())
    kept = "within" if most <= CEILING else "ABOVE"
    return (
        f"Most that was read of a model, headers and tokenizer included: {most:,} bytes, {kept} {CEILING:,}."
    )


def main() -> None:
    """Run what was requested."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alignment", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the 7B shape only")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="results; what is in it is not measured again"
    )
    parser.add_argument("--as-is", action="store_true", help="measure nothing: show what was kept")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables into this document")
    asked = parser.parse_args()
    text = run(quick=asked.quick, keep=asked.keep, as_is=asked.as_is)
    print(text)
    if asked.write is not None:
        replace_section(asked.write, "costs", text)


if __name__ == "__main__":
    main()
