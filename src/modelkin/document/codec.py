"""The only JSON codec: any record out, and back in by the types of its fields, strictly.

Numbers are plain, never NaN; missing is null. A field ``reason`` that holds a message becomes ``reason``
(the English sentence, for people), ``reason_code`` and, if it has any, ``reason_values``; a list ``flags`` of
messages becomes ``flags`` (sentences) and ``flags_codes``. A field with the metadata ``json=False`` is left
out; read back, it has its default. So has a field with the metadata ``later=True`` that a file of an older
version does not have. Files are not assumed to be ours.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from modelkin.errors import FormatError, UsageError
from modelkin.message import Message, Refusal, coded, message_of, said_by, say

_Record = TypeVar("_Record")

schemas: dict[type, str] = {}
"""Type of a result -> name of its schema, which its object begins with."""
writers: dict[type, Callable[[Any], object]] = {}
"""Types whose object is not made of their fields -> what is written for them."""
readers: dict[object, Callable[[Reader, object, str], object]] = {}
"""The same on the way back, by the type of a field: reader, value and path -> value of the field."""

_MOST_DIGITS = 300
"""Of an integer in a saved file: any such number fits a float too."""


# -- out -----------------------------------------------------------------------------------------------


def dumps(document: object, *, indent: int | None = 2) -> str:
    """Write plain values as JSON."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Half a surrogate pair, from the name of a tensor: files can hold it only as an escape.
        return json.dumps(document, indent=indent, ensure_ascii=True, allow_nan=False)
    return text


def plain(value: object) -> object:
    """Turn a record into what JSON can say. Whatever has a schema begins with its name, nested or not."""
    name = schemas.get(type(value))
    document = _plain(value)
    if name is not None and isinstance(document, dict):
        return {"schema": name, **document}
    return document


def _plain(value: object) -> object:
    if type(value) in writers:
        return plain(writers[type(value)](value))
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            if not math.isfinite(value):
                raise ValueError(f"a result must not hold {value}: what was not measured is None")
            return value
        case PurePath() | Message():
            return str(value)
        case Mapping():
            return dict(_members((str(plain(key)), item) for key, item in value.items()))
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case _ if is_dataclass(value):
            kind: Any = type(value)
            return dict(_members((item.name, getattr(value, item.name)) for item in _written(kind)))
        case _:
            raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _members(items: Iterable[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    for name, value in items:
        yield name, plain(value)
        if isinstance(value, Message):
            for part, held in coded(value).items():
                yield f"{name}_{part}", held
        elif isinstance(value, tuple) and value and all(isinstance(item, Message) for item in value):
            yield f"{name}_codes", [coded(item) for item in value]


@cache
def _written(kind: Any) -> tuple[Field[Any], ...]:  # noqa: ANN401  any record
    return tuple(item for item in fields(kind) if item.metadata.get("json", True))


@cache
def _added_later(kind: Any) -> frozenset[str]:  # noqa: ANN401  any record
    return frozenset(item.name for item in fields(kind) if item.metadata.get("later", False))


# -- in ------------------------------------------------------------------------------------------------


def parse(text: str, where: str) -> object:
    """Read a JSON document without repeated keys, NaN or infinities; anything else is a `FormatError`."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_number,
            parse_int=_whole_number,
            parse_float=_finite_number,
        )
    except (ValueError, RecursionError) as error:
        raise FormatError(where, say("problem.no-json", why=said_by(error))) from error


def from_json(kind: type[_Record], text: str, *, where: str, hint: Message | None = None) -> _Record:
    """Read a record that has a schema, strictly; `hint` is for a document that follows another schema."""
    return from_document(kind, parse(text, where), where=where, hint=hint)


def from_document(
    kind: type[_Record], document: object, *, where: str, hint: Message | None = None
) -> _Record:
    """Read a record that has a schema from JSON that was parsed strictly."""
    reader = Reader(where)
    if not isinstance(document, dict):
        reader.refuse("", say("part.an-object"), document)
    members = dict(document)
    name = members.pop("schema", None)
    if name != schemas[kind]:
        problem = say("problem.schema-expected", known=schemas[kind], got=_shown(name))
        raise FormatError(where, problem, hint=hint)
    found: _Record = reader.read(kind, members, "")
    return found


class Reader:
    """Reads values by types; errors name the place."""

    def __init__(self, where: str) -> None:
        self.where = where

    def read(self, kind: Any, value: object, path: str) -> Any:  # noqa: ANN401  any type of a field
        """Read a value of a type; JSON has fewer types than Python."""
        if kind in readers:
            return readers[kind](self, value, path)
        origin = get_origin(kind)
        if origin in (Union, types.UnionType):
            return self._one_of(get_args(kind), value, path)
        if origin is Literal:
            return value if value in get_args(kind) else self.refuse(path, _one_of(get_args(kind)), value)
        if origin is tuple:
            return self._tuple(get_args(kind), value, path)
        if origin is not None and issubclass(origin, Mapping):
            return self._mapping(get_args(kind)[1], value, path)
        if isinstance(kind, type) and issubclass(kind, Enum):
            known = {member.value: member for member in kind}
            return known[value] if _is_in(value, known) else self.refuse(path, _one_of(sorted(known)), value)
        if isinstance(kind, type) and is_dataclass(kind):
            return self.record(kind, value, path)
        return self._scalar(kind, value, path)

    def record(self, kind: type[_Record], value: object, path: str) -> _Record:
        """Make a dataclass from an object that has exactly its fields."""
        if not isinstance(value, dict):
            self.refuse(path, say("part.an-object"), value)
        made_of: Any = kind  # a type is hashable, which mypy does not know of a variable one
        hints, names = _hints(made_of), {item.name for item in _written(made_of)}
        said = {name for name in names if Message in _kinds(hints[name])}
        beside = {key for name in said for key in _companions(name)} - names
        place = path or say("part.document")
        if keys := value.keys() - names - beside:
            raise FormatError(self.where, say("problem.unknown-keys", path=place, listed=_listed(keys)))
        if keys := names - value.keys() - _added_later(made_of):
            raise FormatError(self.where, say("problem.missing-keys", path=place, listed=_listed(keys)))
        try:
            return kind(
                **{
                    name: self.said(hints[name], name, value, path)
                    if name in said
                    else self.read(hints[name], value[name], f"{path}.{name}".lstrip("."))
                    for name in names
                    if name in value
                }
            )
        except UsageError as error:
            raise FormatError(self.where, say("error.said", where=place, problem=error.said)) from error

    def _mapping(self, kind: Any, value: object, path: str) -> dict[str, object]:  # noqa: ANN401
        if not isinstance(value, dict):
            self.refuse(path, say("part.an-object"), value)
        if Message not in _kinds(kind):
            return {key: self.read(kind, item, f"{path}.{key}") for key, item in value.items()}
        told = {key for key in value if f"{key}_code" in value or f"{key}_codes" in value}
        beside = {key for name in told for key in _companions(name)}
        listed = get_origin(kind) is tuple
        rest: Any = None if listed else Union[tuple(item for item in get_args(kind) if item is not Message)]  # noqa: UP007
        return {
            key: self.said(kind, key, value, path)
            if listed or key in told
            else self.read(rest, item, f"{path}.{key}")
            for key, item in value.items()
            if key not in beside
        }

    def said(self, kind: Any, key: str, members: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401
        """Read what the core said: the sentence is for people, its code and values are the message."""
        value, place = members[key], f"{path}.{key}".lstrip(".")
        if value is None and type(None) in _kinds(kind):
            return None
        if get_origin(kind) is tuple:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                self.refuse(place, say("part.sentences"), value)
            codes = members.get(f"{key}_codes")
            beside = codes if isinstance(codes, list) and len(codes) == len(value) else [None] * len(value)
            return tuple(
                message_of(code) or say("quoted", text=text) for code, text in zip(beside, value, strict=True)
            )
        if not isinstance(value, str):
            self.refuse(place, say("part.sentence"), value)
        found = {"code": members.get(f"{key}_code"), "values": members.get(f"{key}_values", {})}
        return message_of(found) or say("quoted", text=value)

    def _scalar(self, kind: type, value: object, path: str) -> object:
        if kind is float and type(value) is int:
            value = float(value)
        # `type` and not isinstance: a bool is not a number here.
        if type(value) is not kind:
            self.refuse(path, kind.__name__, value)
        if isinstance(value, float) and not math.isfinite(value):
            self.refuse(path, say("part.finite-number"), value)
        return value

    def _one_of(self, kinds: tuple[Any, ...], value: object, path: str) -> object:
        if value is None and type(None) in kinds:
            return None
        exact = [kind for kind in kinds if type(value) is kind]
        if exact:
            return self._scalar(exact[0], value, path)
        rest = [kind for kind in kinds if kind is not type(None)]
        if isinstance(value, list):
            rest = [kind for kind in rest if get_origin(kind) is tuple]
        if len(rest) == 1:
            return self.read(rest[0], value, path)
        return self.refuse(path, " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds), value)

    def _tuple(self, kinds: tuple[Any, ...], value: object, path: str) -> tuple[object, ...]:
        if not isinstance(value, list):
            self.refuse(path, say("part.a-list"), value)
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            kinds = (kinds[0],) * len(value)
        if len(value) != len(kinds):
            self.refuse(path, say("part.items", n=len(kinds)), value)
        return tuple(
            self.read(kind, item, f"{path}[{number}]")
            for number, (kind, item) in enumerate(zip(kinds, value, strict=True))
        )

    def refuse(self, path: str, expected: str | Message, value: object) -> NoReturn:
        """Raise, saying what was expected at this place."""
        raise FormatError(
            self.where,
            say(
                "problem.codec-expected",
                path=path or say("part.document"),
                expected=expected,
                got=_shown(value),
            ),
        )


@cache
def _hints(kind: Any) -> dict[str, Any]:  # noqa: ANN401  any record
    return get_type_hints(kind)


def _kinds(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401  any type of a field
    """Return the types that a field may hold, one by one or in a list."""
    return (kind, *get_args(kind)) if get_origin(kind) is not Mapping else (kind,)


def _companions(name: str) -> tuple[str, ...]:
    """Return the keys that may accompany a message."""
    return f"{name}_code", f"{name}_values", f"{name}_codes"


def _is_in(value: object, known: Mapping[object, object]) -> bool:
    return isinstance(value, str) and value in known


def _one_of(known: Iterable[object]) -> Message:
    return say("part.one-of", known=", ".join(map(str, known)))


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(_shown(key) for key in sorted(keys)[:5])


def _shown(value: object) -> str:
    return ascii(value)[:60]


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise Refusal(say("problem.number-digits", n=len(digits), most=_MOST_DIGITS))
    return int(digits)


def _finite_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Refusal(say("problem.number-infinite", number=text[:40]))
    return number


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refusal(say("problem.key-named-twice"))
    return found


def _no_number(name: str) -> NoReturn:
    raise Refusal(say("problem.no-number-called", name=name))
