"""Tables as CSV and back: every number in full, what is missing as an empty cell."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from modelkin.errors import FormatError

from ._table import COLUMNS, Table

_WHERE = "table"


def table_to_csv(table: Table) -> str:
    """Write a table; one line for each row below a line of names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(table.cells())  # csv writes floats by repr, so that they come back as they were
    return text.getvalue()


def table_from_csv(text: str) -> Table:
    """Read what `table_to_csv` wrote.

    Raises
    ------
    FormatError
        It has other columns, or a cell that its column does not allow.
    """
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        lines = list(reader)
    except csv.Error as error:
        raise FormatError(_WHERE, f"expected CSV, got something else ({error})") from error
    if not lines or tuple(lines[0]) != COLUMNS:
        raise FormatError(_WHERE, f"expected the columns {', '.join(COLUMNS)}")
    return table_from_cells(lines[1:])


def table_from_cells(rows: list[list[Any]]) -> Table:
    """Make a table of rows of cells: text from CSV, or plain values from JSON.

    Raises
    ------
    FormatError
        A row of another length, or a cell that its column does not allow.
    """
    for number, cells in enumerate(rows, start=1):
        if not isinstance(cells, list) or len(cells) != len(COLUMNS):
            raise FormatError(_WHERE, f"row {number}: expected {len(COLUMNS)} cells")
    columns = zip(*rows, strict=True) if rows else ((),) * len(COLUMNS)
    found = {name: _read(name, cells) for name, cells in zip(COLUMNS, columns, strict=True)}
    for number, (value, reason) in enumerate(zip(found["value"], found["reason"], strict=True), start=1):
        if (value is None) == (reason is None):
            raise FormatError(_WHERE, f"row {number}: expected either a value or a reason")
    return Table.of_columns(found)


def _read(name: str, cells: Sequence[Any]) -> list[Any]:
    """Read a column: tables have many rows and few columns."""
    read = _READ[name]
    found: list[Any] = []
    try:
        for cell in cells:
            found.append(read(cell))
    except (TypeError, ValueError) as error:
        raise FormatError(
            _WHERE, f"row {len(found) + 1}, {name}: unexpected {ascii(cells[len(found)])[:60]}"
        ) from error
    return found


def _text(cell: object) -> str:
    if not isinstance(cell, str):
        raise TypeError
    return cell


def _optional_text(cell: object) -> str | None:
    return None if cell is None or cell == "" else _text(cell)


def _whole(cell: object) -> int:
    if isinstance(cell, bool) or not isinstance(cell, int | str):
        raise TypeError
    value = int(cell)
    if value < 0:
        raise ValueError
    return value


def _optional_whole(cell: object) -> int | None:
    return None if cell is None or cell == "" else _whole(cell)


def _optional_number(cell: object) -> float | None:
    if cell is None or cell == "":
        return None
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        raise TypeError
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError
    return value


_READ: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("measure", "role", "view", "model_a", "model_b", "note"), _text),
    **dict.fromkeys(("layer_a", "layer_b"), _optional_whole),
    **dict.fromkeys(("value", "expected", "expected_sd"), _optional_number),
    "reason": _optional_text,
    "n": _whole,
}
