"""What the scale suite measured, kept so that a stopped run goes on and the documentation has its tables."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.places import ROOT

RECORDS = ROOT / ".cache" / "scale"
Kept = dict[str, Any]
_TELLING = {"document", "cli", "figures", "casework"}
"""Rooms that tell results and change none; what derives models is in `casework.lab`, and counts."""


@cache
def code_digest() -> str:
    """Return a digest of everything that can change a result."""
    digest = hashlib.sha256()
    source = ROOT / "src" / "modelkin"
    paths = [
        *(path for path in source.rglob("*") if not _TELLING & {*path.relative_to(source).parts}),
        *(source / "casework" / "lab").rglob("*.py"),
        *(ROOT / "tests" / "scale").rglob("*.py"),
        *(ROOT / "tests" / "comparison").glob("[!t]*.py"),
    ]
    for path in sorted(paths):
        if path.suffix in (".py", ".toml") and not path.name.startswith("test_"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def record(table: str, **measured: Any) -> Kept:
    """Keep a row: a file for each, so that several processes may write. Return it as it is kept."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    made = {"table": table, "code": code_digest(), **measured}
    _path(table, str(measured["name"])).write_text(json.dumps(made, sort_keys=True))
    return made


def recorded(table: str, name: str) -> Kept | None:
    """Return the row that this code has measured; None if it has not."""
    path = _path(table, name)
    kept: Kept | None = json.loads(path.read_text()) if path.is_file() else None
    return kept if kept is not None and kept["code"] == code_digest() else None


def all_recorded() -> list[Kept]:
    """Return every row, whichever code measured it."""
    return [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))]


def _path(table: str, name: str) -> Path:
    plain = "".join(letter if letter.isalnum() else "-" for letter in f"{table}-{name}")
    return RECORDS / f"{plain}.json"
