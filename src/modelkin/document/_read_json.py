"""From JSON back to a record: by the types of its fields, and strict. A file is not trusted to be ours."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from modelkin.comparison import SCHEMA, Comparison
from modelkin.comparison.methods import Evidence
from modelkin.errors import FormatError
from modelkin.message import Message

from ._message_json import companion_names, read_message, read_messages
from .evidence import EvidenceRow, evidence_of

_Record = TypeVar("_Record")
_WHERE = "comparison"


def comparison_from_json(text: str) -> Comparison:
    """Read what `to_json` wrote; the record is equal to the one that was written.

    Raises
    ------
    FormatError
        It is no JSON, follows another schema, or has keys or values that the schema does not allow.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FormatError(_WHERE, f"expected a JSON document, got something else ({error})") from error
    if not isinstance(document, dict):
        _refuse("", "an object", document)
    name = document.pop("schema", None)
    if name != SCHEMA:
        raise FormatError(
            _WHERE,
            f"expected the schema {SCHEMA}, got {_shown(name)}",
            hint="Only results of `modelkin compare` can be read; another version may be needed.",
        )
    return _record(Comparison, document, "")


def _record(kind: type[_Record], value: object, path: str) -> _Record:
    """Make a dataclass of an object that has exactly its fields."""
    assert is_dataclass(kind)
    if not isinstance(value, dict):
        _refuse(path, "an object", value)
    hints = get_type_hints(kind)
    said = {name for name, hint in hints.items() if Message in _kinds(hint)}
    beside = {key: value.pop(key) for name in said for key in companion_names(name) if key in value}
    names = {item.name for item in fields(kind)}
    for problem, keys in (("unknown", value.keys() - names), ("missing", names - value.keys())):
        if keys:
            listed = ", ".join(_shown(key) for key in sorted(keys)[:5])
            raise FormatError(_WHERE, f"{path or 'the document'}: {problem} keys {listed}")
    return kind(
        **{
            key: _said(hints[key], key, item, beside, path)
            if key in said
            else _read(hints[key], item, f"{path}.{key}".lstrip("."))
            for key, item in value.items()
        }
    )


def _said(kind: Any, key: str, value: object, beside: Mapping[str, object], path: str) -> Any:  # noqa: ANN401
    """Read what the core said: the sentence is for people, its code and values are the message."""
    if value is None and type(None) in _kinds(kind):
        return None
    if get_origin(kind) is tuple:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            _refuse(f"{path}.{key}".lstrip("."), "a list of sentences", value)
        return read_messages(value, beside.get(f"{key}_codes"))
    if not isinstance(value, str):
        _refuse(f"{path}.{key}".lstrip("."), "a sentence", value)
    return read_message(value, beside.get(f"{key}_code"), beside.get(f"{key}_values"))


def _kinds(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401  any type of a field
    """Return the types that a field may hold, one by one or in a list."""
    return (kind, *get_args(kind)) if get_origin(kind) is not Mapping else (kind,)


def _read(kind: Any, value: object, path: str) -> Any:  # noqa: ANN401  any type of a field
    """Read a value of a type; JSON has fewer types than Python."""
    if kind == Evidence:
        return _evidence(value, path)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), value, path)
    if origin is Literal:
        return value if value in get_args(kind) else _refuse(path, f"one of {get_args(kind)}", value)
    if origin is tuple:
        return _tuple(get_args(kind), value, path)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            _refuse(path, "an object", value)
        return _mapping(get_args(kind)[1], value, path)
    if isinstance(kind, type) and issubclass(kind, Enum):
        known = {member.value: member for member in kind}
        if not isinstance(value, str) or value not in known:
            _refuse(path, f"one of {sorted(known)}", value)
        return known[value]
    if isinstance(kind, type) and is_dataclass(kind):
        return _record(kind, value, path)
    return _scalar(kind, value, path)


def _evidence(value: object, path: str) -> Evidence:
    found = evidence_of(_record(EvidenceRow, value, path))
    return found if found is not None else _refuse(path, "the numbers of one kind of evidence", value)


def _mapping(kind: Any, value: dict[str, object], path: str) -> dict[str, object]:  # noqa: ANN401
    if Message not in _kinds(kind):
        return {key: _read(kind, item, f"{path}.{key}") for key, item in value.items()}
    coded = {key for key in value if f"{key}_code" in value or f"{key}_codes" in value}
    beside = {key: value[key] for name in coded for key in companion_names(name) if key in value}
    listed = get_origin(kind) is tuple
    rest: Any = None if listed else Union[tuple(item for item in get_args(kind) if item is not Message)]  # noqa: UP007
    return {
        key: _said(kind, key, item, beside, path)
        if listed or key in coded
        else _read(rest, item, f"{path}.{key}")
        for key, item in value.items()
        if key not in beside
    }


def _scalar(kind: type, value: object, path: str) -> object:
    if kind is float and type(value) is int:
        value = float(value)
    # `type` and not isinstance: a bool is no number here.
    if type(value) is not kind:
        _refuse(path, kind.__name__, value)
    if isinstance(value, float) and not math.isfinite(value):
        _refuse(path, "a finite number", value)
    return value


def _one_of(kinds: tuple[Any, ...], value: object, path: str) -> object:
    if value is None and type(None) in kinds:
        return None
    exact = [kind for kind in kinds if type(value) is kind]
    rest = [kind for kind in kinds if kind is not type(None) and kind not in exact]
    if exact:
        return _scalar(exact[0], value, path)
    if len(rest) == 1:
        return _read(rest[0], value, path)
    return _refuse(path, " or ".join(kind.__name__ for kind in kinds), value)


def _tuple(kinds: tuple[Any, ...], value: object, path: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        _refuse(path, "a list", value)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(value) != len(kinds):
        _refuse(path, f"{len(kinds)} items", value)
    return tuple(
        _read(kind, item, f"{path}[{number}]")
        for number, (kind, item) in enumerate(zip(kinds, value, strict=True))
    )


def _refuse(path: str, expected: str, value: object) -> NoReturn:
    raise FormatError(_WHERE, f"{path or 'the document'}: expected {expected}, got {_shown(value)}")


def _shown(value: object) -> str:
    return ascii(value)[:60]


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object names a key twice")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
