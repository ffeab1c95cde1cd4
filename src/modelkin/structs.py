"""Files that people write, read by the types they are declared with.

A refusal says where, what the declared type expects, and what was found.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, dataclass_transform, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec import inspect as declared

from modelkin.errors import SpecError
from modelkin.message import Message, Refusal, said_by, say

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_SHOWN = 60
_LISTED = 24
"""With more known words than this, only the nearest one is named."""
_PLACE = re.compile(r" - at `(key` in `)?\$(.*)`\Z", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`\Z", re.DOTALL)


class Refused(Refusal):
    """A value that is not what it must be; raised while msgspec converts, which adds the place.

    What was expected is a message, `said` the whole reason where it is another.
    """

    def __init__(
        self,
        expected: Message | None = None,
        value: object = None,
        *,
        said: Message | None = None,
        inside: str = "",
        hint: Message | None = None,
    ) -> None:
        super().__init__(said or say("problem.expected-got", expected=expected, got=_shown(value)))
        self.inside = inside
        self.hint = hint


class _StrictMeta(msgspec.StructMeta):
    """Makes every class of fields frozen, filled by name, and strict."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: object
    ) -> _StrictMeta:
        """Make a class."""
        strict: dict[str, Any] = {"frozen": True, "kw_only": True, "forbid_unknown_fields": True, **config}
        return super().__new__(mcls, name, bases, namespace, **strict)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Fields(Struct, metaclass=_StrictMeta, frozen=True):
    """Fields of a file that people write; any other key is refused."""


class ByName(dict[K, V]):
    """A table with free keys, read entry by entry, so that a refusal names the entry."""


def read_toml(file: str, text: str, kind: type[T], check: Callable[[T], None] | None = None) -> T:
    """Read one of our TOML files, as `read` does; raise `SpecError` also if it is not TOML."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(file, say("problem.no-toml", why=str(error))) from error
    return read(file, table, kind, check)


def read(where: str, value: object, kind: type[T], check: Callable[[T], None] | None = None) -> T:
    """Read a part of one of our files as the declared type; `where` is its file and place.

    Classes that msgspec does not know are made from text. `check` raises `Refused` for what types cannot
    express. The `SpecError` has the place and, for a misspelt word, the nearest known one as a hint.
    """
    try:
        found = convert(value, kind)
        if check is not None:
            check(found)
    except Refused as refused:
        said = refused.reason
        if refused.inside:
            said = say("error.said", where=refused.inside, problem=said)
        raise SpecError(where, said, hint=refused.hint) from None
    return found


def convert(value: object, kind: type[T], hook: Callable[[Any, Any], Any] | None = None) -> T:
    """Convert plain data; raise `Refused` with the place in it."""
    try:
        return msgspec.convert(value, kind, dec_hook=hook or _made)
    except msgspec.ValidationError as error:
        raise refusal(error, value, kind) from None


def _made(kind: Any, value: object) -> Any:  # noqa: ANN401
    if get_origin(kind) is ByName:
        return _table(value, *get_args(kind))
    if not isinstance(value, str):
        raise Refused(say("part.a-text"), value)
    return kind(value)


def _table(value: object, key_kind: Any, kind: Any) -> ByName[Any, Any]:  # noqa: ANN401
    if not isinstance(value, dict):
        raise Refused(say("part.entries"), value)
    found: ByName[Any, Any] = ByName()
    for key, item in value.items():
        with inside(key if key.isidentifier() else f"[{key!r}]"):
            found[convert(key, key_kind)] = convert(item, kind)
    return found


@contextmanager
def inside(step: str) -> Iterator[None]:
    """Add a step to the place of any refusal raised within; any `ValueError` becomes a refusal."""
    try:
        yield
    except ValueError as error:
        refused = (
            error if isinstance(error, Refused) else Refused(said=say("problem.file-odd", why=said_by(error)))
        )
        refused.inside = joined(step, refused.inside)
        raise refused from None


def joined(path: str, inside: str) -> str:
    """Join two places."""
    return f"{path}.{inside}" if path and inside and not inside.startswith("[") else path + inside


def missing(key: str) -> Refused:
    """Return the refusal for a missing key."""
    return Refused(said=say("problem.file-missing-key"), inside=key)


def no_such_key(key: str, known: Sequence[str]) -> Refused:
    """Return the refusal for an unknown key, with the one that was meant or all there are."""
    hint = meant(key, known) or say("hint.there-are", names=tuple(known))
    return Refused(said=say("problem.file-no-key"), inside=key[:_SHOWN], hint=hint)


def meant(value: object, known: Iterable[str]) -> Message | None:
    """Return a hint if a known word is spelt almost like this one."""
    close = difflib.get_close_matches(_short(value).strip("'"), list(known), n=1)
    return say("hint.did-you-mean", name=repr(close[0])) if close else None


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
    elif error.__cause__ is not None:
        refused = Refused(said=say("problem.file-odd", why=said_by(error.__cause__)))
    elif field and field[1] == "missing required":
        refused = missing(field[2])
    elif field:
        refused = no_such_key(field[2], _keys(_chosen(node, value)))
    elif found and found[1]:
        refused = Refused(say("part.text-keys"), value)
    else:
        node = _plain(node)
        words = _words(node)
        hint = meant(value, words)
        few = hint is None or len(words) <= _LISTED
        expected = _expected(node) if few else say("part.known-words", n=len(words))
        refused = Refused(expected, value, hint=hint)
    refused.inside = joined(path, refused.inside)
    return refused


def _plain(node: declared.Type) -> declared.Type:
    """Return the type without its option to be missing."""
    if isinstance(node, declared.UnionType):
        some = [item for item in node.types if not isinstance(item, declared.NoneType)]
        return some[0] if len(some) == 1 else node
    return node


def _chosen(node: declared.Type, value: Any) -> declared.Type:  # noqa: ANN401  plain data
    """Return the fields that a value is declared with: of several kinds, the one it names."""
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
        case (
            declared.ListType(item_type=item)
            | declared.VarTupleType(item_type=item)
            | declared.FrozenSetType(item_type=item)
        ):
            return item
    return declared.AnyType()


def _words(node: declared.Type) -> tuple[str, ...]:
    match node:
        case declared.LiteralType(values=values):
            return tuple(map(str, values))
        case declared.EnumType(cls=kind):
            return tuple(str(member.value) for member in kind)
    return ()


def _keys(node: declared.Type) -> list[str]:
    assert isinstance(node, declared.StructType)
    return [*([node.tag_field] if node.tag_field else ()), *(item.encode_name for item in node.fields)]


def _expected(node: declared.Type) -> Message:
    """Describe what a type takes."""
    match node:
        case declared.Metadata(type=inner, extra=extra):
            said: Message | None = (extra or {}).get("said")
            return said or _expected(inner)
        case declared.UnionType(types=types):
            tags = [item.tag_field for item in types if isinstance(item, declared.StructType)]
            if tags:
                return say("part.fields-among", name=tags[0])
            return say("part.either", several=tuple(map(_expected, types)))
        case declared.StructType():
            return say("part.fields", names=tuple(_keys(node)))
        case declared.DictType(min_length=least, max_length=most):
            return say("part.entries-from", least=least or 0, most=most) if most else say("part.entries")
        case (
            declared.ListType(min_length=least, max_length=most)
            | declared.VarTupleType(min_length=least, max_length=most)
            | declared.FrozenSetType(min_length=least, max_length=most)
        ):
            return say("part.list-from", least=least or 0, most=most) if most else say("part.a-list")
        case declared.TupleType(item_types=types):
            return say("part.list-of", length=len(types))
        case declared.LiteralType() | declared.EnumType():
            words = _words(node)
            return say("part.one-of", known=words) if len(words) > 1 else say("part.word", word=words[0])
        case declared.IntType(ge=low, le=high):
            return say("part.whole-from", low=low or 0, high=high) if high else say("part.a-whole-number")
        case declared.FloatType(ge=low, le=high):
            return say("part.number-from", low=low or 0, high=high or 0)
        case declared.BoolType():
            return say("part.true-false")
    return say("part.a-text")


def _shown(value: object) -> Message | str:
    if isinstance(value, dict):
        return say("part.mapping-of", length=len(value))
    if isinstance(value, list):
        return say("part.list-of", length=len(value))
    if value is None:
        return say("part.nothing")
    if type(value) is int and abs(value) >= 10**_SHOWN:
        return say("part.many-digits")
    return _short(value)


def _short(value: object) -> str:
    if type(value) is int and abs(value) >= 10**_SHOWN:
        return ""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
