"""What the scale suite measured, kept for the table of the documentation (`docs/scale.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.places import ROOT

RECORDS = ROOT / ".cache" / "scale"


def record(table: str, **measured: Any) -> None:
    """Keep a row. A line for each, in a file for each test, so that several processes may write."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() else "-" for letter in f"{table}-{measured['name']}")
    Path(RECORDS, f"{name}.json").write_text(json.dumps({"table": table, **measured}, sort_keys=True))
