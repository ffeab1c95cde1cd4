"""Files that people write, read by the types they are declared with.

A refusal says where, what the declared type expects, and what was found.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec import inspect as declared

from modelkin.errors import SpecError
from modelkin.message import Message, Refusal, said_by, say

T = TypeVar("T")

_SHOWN = 60
"""Letters shown of a value that is refused."""
_LISTED = 24
"""With more known words than this, only the nearest one is named."""


class Refused(Refusal):
    """A value that is not what it must be; raised while plain data is converted.

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
    """Convert plain data; raise `Refused` with the place in it.

    What is refused is up to msgspec; the place is found by converting the parts one by one.
    """
    try:
        return msgspec.convert(value, kind, dec_hook=hook or _made)
    except msgspec.ValidationError as error:
        for step, part, part_kind in _parts(value, _alternatives(kind)):
            with inside(step):
                convert(part, part_kind, hook)
        raise _refusal(error.__cause__, value, kind) from None


def _made(kind: Any, value: object) -> Any:  # noqa: ANN401
    if not isinstance(value, str):
        raise Refused(say("part.a-text"), value)
    return kind(value)


def _alternatives(kind: Any) -> list[Any]:  # noqa: ANN401
    """Return the types that a declared type consists of, without their limits."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [part for item in get_args(kind) for part in _alternatives(item)]
    return [kind]


def _parts(value: object, kinds: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts of a value, each with the step to it and its declared type."""
    structs = [kind for kind in kinds if isinstance(kind, msgspec.StructMeta)]
    if isinstance(value, dict) and structs:
        yield from _fields(value, structs)
    for kind in kinds:
        types = get_args(kind)
        if isinstance(value, dict) and get_origin(kind) is dict:
            for key, part in _texts(value).items():
                step = key if key.isidentifier() else f"[{key!r}]"
                yield from ((step, key, types[0]), (step, part, types[1]))
        if isinstance(value, list) and get_origin(kind) in (list, tuple, frozenset):
            fixed = get_origin(kind) is tuple and ... not in types
            for number, part in enumerate(value if not fixed or len(value) == len(types) else ()):
                yield f"[{number}]", part, types[number if fixed else 0]


def _texts(value: dict[Any, Any]) -> dict[str, Any]:
    if not all(isinstance(key, str) for key in value):
        raise Refused(say("part.text-keys"), value)
    return value


def _fields(value: dict[str, Any], structs: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts of a table with fixed keys; refuse a key that is not among them, or missing."""
    chosen, tag = structs[0], structs[0].__struct_config__.tag_field
    if tag in value:
        named = {item.__struct_config__.tag: item for item in structs}
        yield tag, value[tag], Literal[tuple(named)]
        chosen = named[value[tag]]
    elif len(structs) > 1:
        raise missing(tag)
    known = {item.encode_name: item for item in msgspec.structs.fields(chosen)}
    for key, part in _texts(value).items():
        if key in known:
            yield key, part, known[key].type
        elif key != tag:
            raise no_such_key(key, _keys(chosen))
    for key, item in known.items():
        if item.required and key not in value:
            raise missing(key)


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


def _refusal(cause: BaseException | None, value: object, kind: object) -> Refused:
    """Say what is wrong with a value whose parts are right."""
    if isinstance(cause, Refused):
        return cause
    if cause is not None:
        return Refused(said=say("problem.file-odd", why=said_by(cause)))
    node = _plain(declared.type_info(kind))
    words = _words(node)
    hint = meant(value, words)
    few = hint is None or len(words) <= _LISTED
    return Refused(_expected(node) if few else say("part.known-words", n=len(words)), value, hint=hint)


def _plain(node: declared.Type) -> declared.Type:
    """Return the type without its option to be missing."""
    if isinstance(node, declared.UnionType):
        some = [item for item in node.types if not isinstance(item, declared.NoneType)]
        return some[0] if len(some) == 1 else node
    return node


def _words(node: declared.Type) -> tuple[str, ...]:
    match node:
        case declared.LiteralType(values=values):
            return tuple(map(str, values))
        case declared.EnumType(cls=kind):
            return tuple(str(member.value) for member in kind)
    return ()


def _keys(kind: type[Struct]) -> list[str]:
    tag = kind.__struct_config__.tag_field
    return [*([tag] if tag else ()), *kind.__struct_encode_fields__]


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
        case declared.StructType(cls=kind):
            return say("part.fields", names=tuple(_keys(kind)))
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
