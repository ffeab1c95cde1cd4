"""CSV: what a spreadsheet would run as a formula is written as text, and read back as it was."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping

# A tab or a line break before a formula does not stop a spreadsheet.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n].", re.DOTALL)
_ESCAPED = re.compile(r"''*[=+\-@\t\r\n].", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?")


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Write a table: numbers in full precision, None as an empty cell, nothing that a spreadsheet runs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([safe_cell(column) for column in columns])
    # Floats are written by repr, so that they come back as they were.
    writer.writerows([safe_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def records_csv(rows: Iterable[Mapping[str, object]]) -> str:
    """Write at least one record, all with the same fields."""
    listed = list(rows)
    return csv_text(listed[0], (row.values() for row in listed))


def safe_cell(value: object) -> object:
    """Return a cell that no spreadsheet runs: text that begins like a formula gets an apostrophe in front.

    Examples
    --------
    >>> safe_cell("=HYPERLINK(...)"), safe_cell(-1.5), safe_cell("model.norm")
    ("'=HYPERLINK(...)", -1.5, 'model.norm')
    """
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def cell_text(text: str) -> str:
    """Return what `safe_cell` was given."""
    return text[1:] if _ESCAPED.match(text) else text
