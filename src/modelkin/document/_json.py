"""Results as JSON: plain numbers, no NaN, missing is null; and the schemas they follow."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import resources
from pathlib import PurePath

from modelkin.comparison import SCHEMA as COMPARISON_SCHEMA
from modelkin.comparison import Comparison
from modelkin.comparison.methods import Agreement, Likeness, Skipped, Tested
from modelkin.describe import (
    CONFIGS_SCHEMA,
    EMBEDDINGS_SCHEMA,
    INSPECTION_SCHEMA,
    ConfigComparison,
    EmbeddingComparison,
    Inspection,
)
from modelkin.message import Message
from modelkin.source import BytePlan, StoreInfo
from modelkin.tokenizer import TOKENIZERS_SCHEMA, TokenizerComparison

from ._message_json import companions
from .evidence import evidence_row

_SCHEMAS: dict[type, str] = {
    Comparison: COMPARISON_SCHEMA,
    ConfigComparison: CONFIGS_SCHEMA,
    EmbeddingComparison: EMBEDDINGS_SCHEMA,
    Inspection: INSPECTION_SCHEMA,
    TokenizerComparison: TOKENIZERS_SCHEMA,
    BytePlan: "modelkin.plan/1",
    StoreInfo: "modelkin.store/1",
}


def to_json(result: object) -> str:
    """Write a result as one JSON document, with the name of its schema first."""
    document = plain(result)
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Half a surrogate pair, from the name of a tensor: no file can hold it but as an escape.
        return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False)
    return text


def schema(name: str) -> dict[str, object]:
    """Return a shipped JSON Schema, such as ``modelkin.inspection/1``."""
    file = name.replace("modelkin.", "").replace("/", "-") + ".json"
    text = resources.files("modelkin.document").joinpath("schema", file).read_text(encoding="utf-8")
    loaded: dict[str, object] = json.loads(text)
    return loaded


def plain(value: object) -> object:
    """Turn a result into what JSON can say. Whatever has a schema begins with its name, nested or not."""
    name = _SCHEMAS.get(type(value))
    document = _plain(value)
    if name is not None and isinstance(document, dict):
        return {"schema": name, **document}
    return document


def _plain(value: object) -> object:
    match value:
        case BytePlan():
            return {
                "bytes_needed": value.bytes_needed,
                "bytes_stored": value.bytes_stored,
                "bytes_to_fetch": value.bytes_to_fetch,
                "requests": [
                    {"file": file, "start": item.start, "stop": item.stop} for file, item in value.requests
                ],
            }
        case Tested() | Agreement() | Likeness() | Skipped():
            return plain(evidence_row(value))
        case Enum():
            return plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            if not math.isfinite(value):
                raise ValueError(f"a result must not hold {value}: what was not measured is None")
            return value
        case PurePath():
            return str(value)
        case Message():
            return str(value)
        case Mapping():
            return _members((str(plain(key)), item) for key, item in value.items())
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case _ if is_dataclass(value):
            return _members((item.name, getattr(value, item.name)) for item in fields(value))
        case _:
            raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _members(items: Iterable[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in items:
        found |= {name: plain(value), **companions(name, value)}
    return found
