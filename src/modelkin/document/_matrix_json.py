"""A matrix as JSON and back. Rows of the table are lists, as there can be very many of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NoReturn

from modelkin.describe.matrix import (
    MATRIX_SCHEMA,
    KnownRelation,
    MatrixModel,
    MatrixOptions,
    MatrixResult,
    ReadRecord,
    TensorRecord,
)
from modelkin.describe.measures import COLUMNS, Baseline, chosen_measures, table_from_cells
from modelkin.errors import FormatError, UsageError

from ._json import plain, to_json
from ._message_json import companions, read_messages
from ._read_json import _record

_WHERE = "matrix"
_KEYS = ("models", "options", "measures", "table", "tensors", "baselines", "notes", "read", "modelkin")
_RECORDS = {"models": MatrixModel, "tensors": TensorRecord, "baselines": Baseline}


def matrix_document(result: MatrixResult) -> dict[str, object]:
    """Return the document as plain values."""
    kept = {
        item.name: getattr(result.options, item.name)
        for item in fields(MatrixOptions)
        if item.name != "fetch"
    }
    cards = [
        {
            "name": measure.name,
            "meaning": str(measure.meaning),
            "cannot_say": str(measure.cannot_say),
            "symmetric": measure.symmetric,
            "low": measure.low,
            "high": measure.high,
        }
        for measure in chosen_measures(result.options.measures)
    ]
    messages = result.table.messages()
    return {
        "schema": MATRIX_SCHEMA,
        "models": plain(result.models),
        "options": plain(kept),
        "measures": cards,
        "table": {
            "columns": list(COLUMNS),
            "rows": [list(cells) for cells in result.table.cells()],
            "messages": plain(messages),
            **companions("messages", messages),
        },
        "tensors": plain(result.tensors),
        "baselines": plain(result.baselines),
        "notes": plain(result.notes),
        **companions("notes", result.notes),
        "read": plain(result.read),
        "modelkin": result.modelkin,
    }


def matrix_json(result: MatrixResult) -> str:
    """Write a matrix as one JSON document; each row of the table in a line of its own."""
    document = matrix_document(result)
    table = document["table"]
    assert isinstance(table, dict)
    lines = [json.dumps(row, ensure_ascii=True, allow_nan=False) for row in table["rows"]]
    mark = "@rows@"
    text = to_json(document | {"table": table | {"rows": mark}})
    # The mark stands where the rows belong; only the first is ours, as the table comes before other texts.
    return text.replace(f'"rows": "{mark}"', '"rows": [\n' + ",\n".join(lines) + "\n]", 1)


def matrix_from_json(text: str) -> MatrixResult:
    """Read what `matrix_json` wrote.

    Raises
    ------
    FormatError
        It is no JSON, follows another schema, or has keys or values that the schema does not allow.
    """
    try:
        document = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FormatError(_WHERE, f"expected a JSON document, got something else ({error})") from error
    if not isinstance(document, dict) or document.pop("schema", None) != MATRIX_SCHEMA:
        raise FormatError(
            _WHERE, f"expected the schema {MATRIX_SCHEMA}", hint="Only `modelkin matrix` writes it."
        )
    notes = document.pop("notes_codes", None)
    if document.keys() != set(_KEYS):
        raise FormatError(_WHERE, f"expected the keys {', '.join(_KEYS)}")
    lists = {key: _listed(document, key) for key in (*_RECORDS, "notes")}
    table = document["table"]
    if not isinstance(table, dict) or table.get("columns") != list(COLUMNS):
        raise FormatError(_WHERE, f"table: expected the columns {', '.join(COLUMNS)}")
    said = [str(text) for text in table.get("messages", ())]
    meant = read_messages(said, table.get("messages_codes"))
    try:
        return MatrixResult(
            models=tuple(_record(MatrixModel, item, "models") for item in lists["models"]),
            options=_options(document["options"]),
            table=table_from_cells(_listed(table, "rows"), dict(zip(said, meant, strict=True))),
            tensors=tuple(_record(TensorRecord, item, "tensors") for item in lists["tensors"]),
            baselines=tuple(_record(Baseline, item, "baselines") for item in lists["baselines"]),
            notes=read_messages(map(str, lists["notes"]), notes),
            read=_record(ReadRecord, document["read"], "read"),
            modelkin=str(document["modelkin"]),
        )
    except (FormatError, UsageError) as error:
        raise FormatError(_WHERE, error.problem) from error


def _options(value: object) -> MatrixOptions:
    names = {item.name for item in fields(MatrixOptions)} - {"fetch"}
    if not isinstance(value, Mapping) or value.keys() != names:
        raise FormatError(_WHERE, f"options: expected the keys {', '.join(sorted(names))}")
    found: dict[str, Any] = {
        key: tuple(item) if isinstance(item, list) else item for key, item in value.items()
    }
    found["known"] = tuple(_record(KnownRelation, item, "options.known") for item in _listed(value, "known"))
    found["groups"] = {str(name): tuple(map(str, members)) for name, members in dict(value["groups"]).items()}
    try:
        return MatrixOptions(**found)
    except (TypeError, ValueError, AttributeError) as error:
        raise FormatError(_WHERE, f"options: {error}") from error


def _listed(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list):
        raise FormatError(_WHERE, f"{key}: expected a list")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
