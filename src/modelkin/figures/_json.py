"""Descriptions as JSON and back, without loss: a figure is drawn from a file as from memory."""

from __future__ import annotations

import json
import types
from dataclasses import fields, is_dataclass
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from modelkin.errors import FormatError

from ._figure import Figure

SCHEMA = "modelkin.figure/1"


def figure_to_json(figure: Figure) -> str:
    """Write a description as JSON (schema ``modelkin.figure/1``)."""
    return json.dumps({"schema": SCHEMA, "figure": _plain(figure)}, ensure_ascii=False, allow_nan=False)


def figure_from_json(text: str) -> Figure:
    """Read what `figure_to_json` wrote; the description is equal to the one that was written.

    Raises
    ------
    FormatError
        It is no JSON, or not such a description.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError("figure", f"expected a JSON document, got something else ({error})") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise FormatError("figure", f"expected a document of the schema {SCHEMA}")
    read = _read(Figure, document.get("figure"), "figure")
    assert isinstance(read, Figure)
    return read


def _plain(value: object) -> object:
    if is_dataclass(value):
        plain = {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
        return {"mark": _tag(type(value)), **plain}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _read(hint: Any, value: object, path: str) -> object:  # noqa: ANN401  any type of a field
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union or origin is types.UnionType:
        return _choose(arguments, value, path)
    if origin is Literal:
        return value if value in arguments else _refuse(path, f"one of {arguments}")
    if origin is tuple:
        return _tuple(arguments, value, path)
    if is_dataclass(hint):
        return _record(hint, value, path)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if type(value) is hint:
        return value
    return _refuse(path, str(getattr(hint, "__name__", hint)))


def _choose(kinds: tuple[Any, ...], value: object, path: str) -> object:
    if value is None and type(None) in kinds:
        return None
    records = {_tag(kind): kind for kind in kinds if is_dataclass(kind)}
    if records:
        name = value.get("mark") if isinstance(value, dict) else None
        if name not in records:
            _refuse(path, "a mark that is known")
        return _record(records[name], value, path)
    kind = next(kind for kind in kinds if kind is not type(None))
    return _read(kind, value, path)


def _tuple(kinds: tuple[Any, ...], value: object, path: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        _refuse(path, "a list")
    if kinds[-1] is Ellipsis:
        return tuple(_read(kinds[0], item, path) for item in value)
    if len(value) != len(kinds):
        _refuse(path, f"{len(kinds)} items")
    return tuple(_read(kind, item, path) for kind, item in zip(kinds, value, strict=True))


def _record(kind: Any, value: object, path: str) -> object:  # noqa: ANN401  any record of ours
    names = {item.name for item in fields(kind)}
    if not isinstance(value, dict) or value.keys() != names | {"mark"} or value["mark"] != _tag(kind):
        _refuse(path, f"the fields of {_tag(kind)}")
    hints = get_type_hints(kind)
    return kind(**{name: _read(hints[name], value[name], f"{path}.{name}") for name in names})


def _tag(kind: Any) -> str:  # noqa: ANN401  any record of ours
    return str(kind.__name__).removesuffix("Mark")


def _refuse(path: str, expected: str) -> NoReturn:
    raise FormatError("figure", f"{path}: expected {expected}")
