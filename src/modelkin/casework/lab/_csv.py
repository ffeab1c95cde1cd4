"""Records as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from modelkin.untrusted import safe_cell


def csv_text(rows: Iterable[Mapping[str, object]]) -> str:
    """Write at least one record, all with the same fields."""
    listed = list(rows)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(listed[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: safe_cell(value) for name, value in row.items()} for row in listed)
    return stream.getvalue()
