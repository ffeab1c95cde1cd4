"""modelkin's own verdict on a pair, next to AWM's; what ``make disguises`` has stored is not recomputed."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

from benchmarks.awm_cases import Case
from benchmarks.awm_score import Skipped
from modelkin.casework.lab.checkpoint import Checkpoint

OwnVerdict = Callable[[Case, Checkpoint, Checkpoint], bool | Skipped]
"""Whether candidate and base of a case have a common origin, by a rule that is fixed beforehand."""

_SCRIPT = Path(__file__).parents[1] / "docs" / "disguises.py"
_FOUND = ("exact", "ranked")


def modelkin_verdict(depth: str, kept: Mapping[str, bool | Skipped] | None = None) -> OwnVerdict:
    """Return modelkin's own verdict at a depth, from files in memory; it uses controls where these count.

    Stored verdicts are not recomputed.
    """
    import modelkin as mk
    from modelkin.comparison.controls import worth_calibrating

    def verdict(case: Case, candidate: Checkpoint, base: Checkpoint) -> bool | Skipped:
        def compared(controls: Sequence[str]) -> mk.Comparison:
            return mk.compare(
                candidate=mk.MemorySource(candidate.files("F32"), name="candidate"),
                base=mk.MemorySource(base.files("F32"), name="base"),
                options=mk.CompareOptions(depth=depth),  # type: ignore[arg-type]  # the options check it
                controls=controls,
            )

        known = (kept or {}).get(key_of(case.name, related=case.related))
        if known is not None:
            return known
        result = compared(())
        if not result.verdict.related and worth_calibrating(result.evidence):
            result = compared(case.controls())
        related = result.verdict.related
        return Skipped(reason="not testable") if related is None else related

    return verdict


def key_of(name: str, *, related: bool) -> str:
    """Return the key of the stored result of a row, or of plain strangers."""
    return f"{'relation' if related else 'strangers'}|{name}|"


@cache
def kept_verdicts(file: Path) -> Mapping[str, bool | Skipped]:
    """Read the verdicts that exactly this code has reached, by key."""
    code = _script().code_digest()
    rows = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return {row["key"]: _verdict(row) for row in rows if row["code"] == code}


def _verdict(row: Mapping[str, str]) -> bool | Skipped:
    if row["conclusion"] == "not-testable":
        return Skipped(reason="not testable")
    return row["outcome"] in _FOUND


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("disguises", _SCRIPT)
    if spec is None or spec.loader is None:
        raise ValueError(f"{_SCRIPT}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules["disguises"] = module  # dataclasses look for the module they are in
    spec.loader.exec_module(module)
    return module
