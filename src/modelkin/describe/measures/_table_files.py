"""Tables of measures in files: as CSV, and as the rows of a JSON document, and back.

Every number is in full precision; a missing one is an empty cell or null. A reason or a note stands there
twice: as an English sentence for people, and as the code and values of its message, which is what is read.
A file of an older version has only the sentence, which is then quoted.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from modelkin.errors import FormatError
from modelkin.message import Message, coded, message_of, say
from modelkin.untrusted import JsonRefused, cell_text, csv_text, strict_json

from ._table import COLUMNS, FLOATS, LAYERS, NOTHING, SAID, TEXT, MeasureTable

CSV_COLUMNS = (*COLUMNS, *(f"{name}_{part}" for name in SAID for part in ("code", "values")))
"""Of a CSV: values are a JSON object, and empty if there are none."""
PLACED_COLUMNS = (*COLUMNS, *(f"{name}_message" for name in SAID))
"""Of rows that come with a list of messages: the place of the message in it, from 0."""
_OPTIONAL = (*LAYERS, *FLOATS, "reason")
_WHERE = "table"
_MOST = 1 << 62
"""Whole numbers are kept in 64 bits."""


def table_to_csv(table: MeasureTable) -> str:
    """Write a table; one line per row below a line of names."""
    told = {message: _code_cells(message) for message in table.messages()}
    beside = [[told.get(message, ("", "")) for message in table.column(name)] for name in SAID]
    rows = ((*cells, *sum(said, ())) for cells, *said in zip(table.cells(), *beside, strict=True))
    return csv_text(CSV_COLUMNS, rows)


def _code_cells(message: Message) -> tuple[str, str]:
    if message == NOTHING:
        return "", ""
    written = coded(message)
    values = json.dumps(written["values"], ensure_ascii=False) if "values" in written else ""
    return message.code, values


def table_from_csv(text: str) -> MeasureTable:
    """Read what `table_to_csv` wrote."""
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        lines = [[cell_text(cell) for cell in line] for line in reader]
    except csv.Error as error:
        raise FormatError(_WHERE, say("problem.no-csv", why=str(error))) from error
    names = tuple(lines[0]) if lines else ()
    if names not in (COLUMNS, CSV_COLUMNS):
        raise FormatError(_WHERE, say("problem.columns-expected", columns=", ".join(CSV_COLUMNS)))
    found = _columns(lines[1:], names)
    if names == COLUMNS:
        return _table(found, {})
    said = {
        name: [
            _message(code, values)
            for code, values in zip(found[f"{name}_code"], found[f"{name}_values"], strict=True)
        ]
        for name in SAID
    }
    return _table(found, said)


@lru_cache(maxsize=1024)
def _message(code: str, values: str) -> Message | None:
    try:
        held = strict_json(values) if values else {}
    except JsonRefused:
        return None
    return message_of({"code": code, "values": held}) if code else None


def placed_cells(table: MeasureTable) -> Iterator[tuple[Any, ...]]:
    """Yield rows as plain values; with each, the places of its messages among those of the table."""
    places = {message: place for place, message in enumerate(table.messages())}
    beside = [[places.get(message) for message in table.column(name)] for name in SAID]
    return ((*cells, *said) for cells, *said in zip(table.cells(), *beside, strict=True))


def table_from_cells(
    rows: Sequence[object], messages: Sequence[Message] = (), *, names: tuple[str, ...] = COLUMNS
) -> MeasureTable:
    """Make a table from the rows of a JSON document: what `placed_cells` yields, or only the cells.

    A row of another length, or a cell that its column does not allow, is a `FormatError`.
    """
    found = _columns(rows, names)
    said = {
        name: [
            None if place is None else _placed(messages, place, f"{name}_message", number)
            for number, place in enumerate(found[f"{name}_message"], start=1)
        ]
        for name in SAID
        if f"{name}_message" in found
    }
    return _table(found, said)


def _placed(messages: Sequence[Message], place: object, name: str, number: int) -> Message:
    if type(place) is not int or not 0 <= place < len(messages):
        raise _unexpected(number, name, place)
    return messages[place]


def _columns(rows: Sequence[object], names: tuple[str, ...]) -> dict[str, Sequence[Any]]:
    """Return rows by column: tables have many rows and few columns."""
    for number, cells in enumerate(rows, start=1):
        if not isinstance(cells, list) or len(cells) != len(names):
            raise FormatError(_WHERE, say("problem.row-cells", number=number, n=len(names)))
    columns: Any = zip(*rows, strict=True) if rows else ((),) * len(names)
    return dict(zip(names, columns, strict=True))


def _table(
    columns: Mapping[str, Sequence[Any]], said: Mapping[str, Sequence[Message | None]]
) -> MeasureTable:
    """Make a table of columns; what has no message in `said` is a sentence of unknown origin, and quoted."""
    found = {name: _read(name, columns[name]) for name in COLUMNS}
    for name in SAID:
        messages = said.get(name, [None] * len(found[name]))
        found[name] = [
            None if text is None else message or _quoted(text)
            for text, message in zip(found[name], messages, strict=True)
        ]
    for number, (value, reason) in enumerate(zip(found["value"], found["reason"], strict=True), start=1):
        if (value is None) == (reason is None):
            raise FormatError(_WHERE, say("problem.row-value", number=number))
    return MeasureTable.of_columns(found)


@lru_cache(maxsize=1024)
def _quoted(text: str) -> Message:
    return say("quoted", text=text) if text else NOTHING


def _read(name: str, cells: Sequence[Any]) -> list[Any]:
    """Read a column."""
    found: list[Any] = []
    for cell in cells:
        try:
            found.append(_cell(name, cell))
        except (TypeError, ValueError, OverflowError) as error:
            raise _unexpected(len(found) + 1, name, cell) from error
    return found


def _unexpected(number: int, name: str, cell: object) -> FormatError:
    return FormatError(_WHERE, say("problem.row-cell", number=number, name=name, cell=ascii(cell)[:60]))


def _cell(name: str, cell: object) -> object:
    """Read a cell as its column has it."""
    if name in _OPTIONAL and (cell is None or cell == ""):
        return None
    if name in TEXT or name in SAID:
        if isinstance(cell, str):
            return cell
        raise TypeError
    kinds = (int, str, float) if name in FLOATS else (int, str)
    if isinstance(cell, bool) or not isinstance(cell, kinds):
        raise TypeError
    value = float(cell) if name in FLOATS else int(cell)
    if not math.isfinite(value) or (name not in FLOATS and not 0 <= value < _MOST):
        raise ValueError
    return value
