"""The results that are documents: their schemas, and the objects that do not follow from their fields."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import fields
from importlib import resources
from typing import TypeVar

from modelkin.atlas import ATLAS_SCHEMA, Atlas
from modelkin.comparison import DIFF_SCHEMA, Comparison, ModelDiff
from modelkin.comparison import SCHEMA as COMPARISON_SCHEMA
from modelkin.comparison.methods import Agreement, Contrast, Evidence, Likeness, Skipped, Tested
from modelkin.describe import (
    CONFIGS_SCHEMA,
    EMBEDDINGS_SCHEMA,
    INSPECTION_SCHEMA,
    REPOSITORIES_SCHEMA,
    ConfigComparison,
    EmbeddingComparison,
    Inspection,
    RepositoryComparison,
)
from modelkin.describe.matrix import MATRIX_SCHEMA, MatrixResult
from modelkin.describe.measures import (
    COLUMNS,
    PLACED_COLUMNS,
    MeasureTable,
    chosen_measures,
    placed_cells,
    table_from_cells,
)
from modelkin.errors import FormatError
from modelkin.fingerprint import FINGERPRINT_SCHEMA, Fingerprint
from modelkin.lineage import MERGE_SCHEMA, TREE_SCHEMA, FamilyForest, MergeResult
from modelkin.lineage.cards import CHECK_SCHEMA, CardCheck
from modelkin.message import Message, say
from modelkin.registry import (
    PAIRS_SCHEMA,
    SCAN_SCHEMA,
    RegistryCheck,
    RegistryInfo,
    RegistryPairs,
    ScanResult,
    SyncResult,
)
from modelkin.source import BytePlan, StoreInfo
from modelkin.tokenizer import TOKENIZERS_SCHEMA, TokenizerComparison

from . import codec
from .evidence import EvidenceRow, evidence_class, evidence_of, evidence_row

Kind = TypeVar("Kind")

codec.schemas |= {
    Atlas: ATLAS_SCHEMA,
    CardCheck: CHECK_SCHEMA,
    Comparison: COMPARISON_SCHEMA,
    ConfigComparison: CONFIGS_SCHEMA,
    EmbeddingComparison: EMBEDDINGS_SCHEMA,
    Inspection: INSPECTION_SCHEMA,
    MatrixResult: MATRIX_SCHEMA,
    MergeResult: MERGE_SCHEMA,
    ModelDiff: DIFF_SCHEMA,
    FamilyForest: TREE_SCHEMA,
    RepositoryComparison: REPOSITORIES_SCHEMA,
    TokenizerComparison: TOKENIZERS_SCHEMA,
    BytePlan: "modelkin.plan/1",
    StoreInfo: "modelkin.store/1",
    Fingerprint: FINGERPRINT_SCHEMA,
    ScanResult: SCAN_SCHEMA,
    RegistryInfo: "modelkin.registry-info/1",
    RegistryCheck: "modelkin.registry-check/1",
    RegistryPairs: PAIRS_SCHEMA,
    SyncResult: "modelkin.registry-sync/1",
}


def to_json(result: object) -> str:
    """Write a result as one JSON document, with the name of its schema first."""
    document = codec.plain(result)
    if not isinstance(result, MatrixResult):
        return codec.dumps(document)
    # In a matrix, each row of the table is on its own line: there can be very many of them.
    assert isinstance(document, dict)
    lines = [json.dumps(row, ensure_ascii=True, allow_nan=False) for row in document["table"]["rows"]]
    mark = "@rows@"
    text = codec.dumps(document | {"table": document["table"] | {"rows": mark}})
    # The mark is where the rows belong; only the first is ours, as the table comes before other texts.
    return text.replace(f'"rows": "{mark}"', '"rows": [\n' + ",\n".join(lines) + "\n]", 1)


def plain(value: object) -> object:
    """Turn a result into what JSON can say. Whatever has a schema begins with its name, nested or not."""
    return codec.plain(value)


def plain_object(value: object) -> dict[str, object]:
    """Turn a result that is made of fields into a JSON object."""
    found = plain(value)
    assert isinstance(found, dict)
    return found


def schema(name: str) -> dict[str, object]:
    """Return a shipped JSON Schema, such as ``modelkin.inspection/1``."""
    file = name.replace("modelkin.", "").replace("/", "-") + ".json"
    text = resources.files("modelkin.document").joinpath("schema", file).read_text(encoding="utf-8")
    loaded: dict[str, object] = json.loads(text)
    return loaded


_COMMANDS: dict[type, str] = {
    Atlas: "atlas",
    CardCheck: "check",
    FamilyForest: "tree",
    MatrixResult: "matrix",
    MergeResult: "merge",
    ModelDiff: "diff",
}
"""Which command writes it."""


def from_json(kind: type[Kind], text: str) -> Kind:
    """Read what `to_json` wrote; the record is equal to the one that was written."""
    if kind is Comparison:
        hint = say("hint.compare-writes")
        return codec.from_json(kind, text, where="comparison", hint=hint)
    command = _COMMANDS[kind]
    return codec.from_json(kind, text, where=command, hint=say("hint.command-writes", command=command))


def fingerprint_from_json(text: str, *, where: str = "fingerprint") -> Fingerprint:
    """Read what `to_json` wrote of a fingerprint; one that was made by another recipe is refused."""
    return fingerprint_from_document(codec.parse(text, where), where=where)


def fingerprint_from_document(document: object, *, where: str = "fingerprint") -> Fingerprint:
    """Read a fingerprint from JSON that was parsed strictly, as part of another document for example."""
    hint = say("hint.command-writes", command="fingerprint")
    made = codec.from_document(Fingerprint, document, where=where, hint=hint)
    made.check(where)
    return made


# -- objects that are not made of fields ---------------------------------------------------------------


def _plan(plan: BytePlan) -> dict[str, object]:
    return {
        "bytes_needed": plan.bytes_needed,
        "bytes_stored": plan.bytes_stored,
        "bytes_to_fetch": plan.bytes_to_fetch,
        "requests": [{"file": file, "start": item.start, "stop": item.stop} for file, item in plan.requests],
    }


def _evidence_members(test: Evidence) -> dict[str, object]:
    """Return the members of a row, and its class, which cannot be a field name in Python."""
    row = evidence_row(test)
    members = {item.name: getattr(row, item.name) for item in fields(row)}
    return {**members, "class": evidence_class(test)}


def _evidence(reader: codec.Reader, value: object, path: str) -> Evidence:
    if not isinstance(value, dict):
        reader.refuse(path, say("part.an-object"), value)
    members = dict(value)
    said = members.pop("class", None)
    found = evidence_of(reader.record(EvidenceRow, members, path))
    if found is None or said not in (None, evidence_class(found)):
        reader.refuse(path, say("part.evidence-numbers"), value)
    return found


_MATRIX = ("models", "options", "measures", "table", "tensors", "baselines", "notes", "read", "modelkin")
_CARD = ("name", "meaning", "cannot_say", "symmetric", "low", "high")


def _matrix(result: MatrixResult) -> dict[str, object]:
    """Return the fields of a matrix and, for readers of the document, what its measures are."""
    cards = [
        {name: codec.plain(getattr(measure, name)) for name in _CARD}
        for measure in chosen_measures(result.options.measures)
    ]
    return {name: cards if name == "measures" else getattr(result, name) for name in _MATRIX}


def _read_matrix(reader: codec.Reader, value: object, path: str) -> MatrixResult:
    if not isinstance(value, dict) or "measures" not in value:
        reader.refuse(path, say("part.the-keys", known=", ".join(_MATRIX)), value)
    return reader.record(MatrixResult, {key: item for key, item in value.items() if key != "measures"}, path)


def _table(table: MeasureTable) -> dict[str, object]:
    rows = [list(cells) for cells in placed_cells(table)]
    return {"columns": PLACED_COLUMNS, "rows": rows, "messages": table.messages()}


def _read_table(reader: codec.Reader, value: object, path: str) -> MeasureTable:
    """Read a table; rows of an older version do not say which message is theirs."""
    names = value.get("columns") if isinstance(value, dict) else None
    if not isinstance(value, dict) or names not in (list(PLACED_COLUMNS), list(COLUMNS)):
        reader.refuse(path, say("part.the-columns", known=", ".join(PLACED_COLUMNS)), value)
    rows = value.get("rows")
    if not isinstance(rows, list):
        reader.refuse(f"{path}.rows", say("part.a-list"), rows)
    has = "messages" in value
    messages = reader.said(tuple[Message, ...], "messages", value, path) if has else ()
    try:
        return table_from_cells(rows, messages, names=tuple(names))
    except FormatError as error:
        raise FormatError(reader.where, error.said) from error


def _bytes(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _read_bytes(reader: codec.Reader, value: object, path: str) -> bytes:
    if not isinstance(value, str):
        reader.refuse(path, say("part.base64"), value)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        reader.refuse(path, say("part.base64"), value[:40])


codec.writers |= {
    bytes: _bytes,
    BytePlan: _plan,
    MatrixResult: _matrix,
    MeasureTable: _table,
    **dict.fromkeys((Tested, Agreement, Contrast, Likeness, Skipped), _evidence_members),
}
codec.readers |= {
    bytes: _read_bytes,
    Evidence: _evidence,
    MatrixResult: _read_matrix,
    MeasureTable: _read_table,
}
