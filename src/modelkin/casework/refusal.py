"""Refusals of files that people write: where, what was expected by the declared type, and what came."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import inspect as declared

_SHOWN = 60
_PLACE = re.compile(r" - at `(key` in `)?\$(.*)`\Z", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`\Z", re.DOTALL)


class Refused(ValueError):
    """A value that is not what it has to be; raised while msgspec converts, which adds the place."""

    def __init__(
        self,
        expected: str,
        value: object = None,
        *,
        said: str = "",
        inside: str = "",
        hint: str | None = None,
    ) -> None:
        super().__init__(said or f"expected {expected}, got {_shown(value)}")
        self.inside = inside
        self.hint = hint


def joined(path: str, inside: str) -> str:
    """Join two places."""
    return f"{path}.{inside}" if path and inside and not inside.startswith("[") else path + inside


def no_such_key(key: str, known: Sequence[str]) -> Refused:
    """Refuse a key, with the one that was meant or all there are."""
    hint = meant(key, known) or f"There are {', '.join(known)}."
    return Refused("", said="there is no such key", inside=key[:_SHOWN], hint=hint)


def meant(value: object, known: Iterable[str]) -> str | None:
    """Return a hint if something known is nearly written so."""
    close = difflib.get_close_matches(_shown(value).strip("'"), list(known), n=1)
    return f"Did you mean {close[0]!r}?" if close else None


def refusal(error: msgspec.ValidationError, value: Any, kind: object) -> Refused:  # noqa: ANN401  plain data
    """Say what msgspec refused, and where."""
    text, found = str(error), _PLACE.search(str(error))
    node, path = declared.type_info(kind), ""
    for name, number in _STEP.findall(found[2] if found else ""):
        node, path = _inside(node, value, name or int(number)), joined(path, name or f"[{number}]")
        value = value[name or int(number)]
    field = _FIELD.match(text[: found.start()] if found else text)
    if isinstance(error.__cause__, Refused):
        refused = error.__cause__
    elif field and field[1] == "missing required":
        refused = Refused("", said="expected it, and it is missing", inside=field[2])
    elif field:
        refused = no_such_key(field[2], _keys(_chosen(node, value)))
    elif found and found[1]:
        refused = Refused("keys that are texts", value)
    else:
        node = _plain(node)
        names = node.values if isinstance(node, declared.LiteralType) else ()
        refused = Refused(_expected(node), value, hint=meant(value, map(str, names)))
    refused.inside = joined(path, refused.inside)
    return refused


def _plain(node: declared.Type) -> declared.Type:
    """Take away that a value may be missing."""
    if isinstance(node, declared.UnionType):
        some = [item for item in node.types if not isinstance(item, declared.NoneType)]
        return some[0] if len(some) == 1 else node
    return node


def _chosen(node: declared.Type, value: Any) -> declared.Type:  # noqa: ANN401  plain data
    """Return the fields that a value is declared with: of several kinds the one that it names."""
    node = _plain(node)
    for item in node.types if isinstance(node, declared.UnionType) else ():
        if isinstance(item, declared.StructType) and value.get(item.tag_field) == item.tag:
            return item
    return node


def _inside(node: declared.Type, value: object, step: str | int) -> declared.Type:
    """Go one step down in a declared type."""
    match _chosen(node, value):
        case declared.StructType(fields=fields, tag=tag):
            return next((f.type for f in fields if f.encode_name == step), declared.LiteralType((tag,)))
        case declared.UnionType(types=types):  # no kind has this name
            tags = tuple(item.tag for item in types if isinstance(item, declared.StructType))
            return declared.LiteralType(tags)
        case declared.TupleType(item_types=types) if isinstance(step, int):
            return types[step]
        case declared.ListType(item_type=item) | declared.VarTupleType(item_type=item):
            return item
    return declared.AnyType()


def _keys(node: declared.Type) -> list[str]:
    assert isinstance(node, declared.StructType)
    return [*([node.tag_field] if node.tag_field else ()), *(item.encode_name for item in node.fields)]


def _expected(node: declared.Type) -> str:
    """Describe what a type takes."""
    match node:
        case declared.Metadata(type=inner, extra_json_schema=extra):
            return (extra or {}).get("title") or _expected(inner)
        case declared.UnionType(types=types):
            field = next(item.tag_field for item in types if isinstance(item, declared.StructType))
            return f"fields, among them {field}"
        case declared.StructType():
            return f"fields ({', '.join(_keys(node))})"
        case declared.DictType(min_length=least, max_length=most):
            return f"{least or 0} to {most} entries by name"
        case (
            declared.ListType(min_length=least, max_length=most)
            | declared.VarTupleType(min_length=least, max_length=most)
        ):
            return f"a list of {least or 0} to {most}"
        case declared.TupleType(item_types=types):
            return f"a list of {len(types)}"
        case declared.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case declared.IntType(ge=low, le=high):
            return f"a whole number from {low:,} to {high:,}"
        case declared.FloatType(ge=low, le=high):
            return f"a number from {low:g} to {high:g}"
        case declared.BoolType():
            return "true or false"
    return "a text"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return f"a mapping of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None:
        return "nothing"
    if type(value) is int and abs(value) >= 10**_SHOWN:
        return "a number of very many digits"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
