"""Folders that tests read from, wherever a test itself is."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ZOO = ROOT / "tests" / "zoo"
LOOKALIKES = ROOT / "tests" / "lookalikes"
DATA = ROOT / "tests" / "data"
FORMATS = DATA / "formats"
