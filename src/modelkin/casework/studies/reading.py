"""The types of options in study files: what values they take, and how each is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self, TypeVar

from msgspec import Meta
from msgspec.structs import asdict

from modelkin.describe import TOKEN_FILTERS
from modelkin.describe.matrix import BASELINES, parse_layer_list, parse_role
from modelkin.describe.measures import MEASURES, find_measure
from modelkin.errors import StudyError, UsageError
from modelkin.message import Message, say
from modelkin.structs import Fields, Refused, convert, inside, joined, meant, no_such_key
from modelkin.untrusted import visible

from .folder import FILE

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A study file, and the names that values may refer to at this point."""

    file: str
    models: tuple[str, ...] = ()
    experiments: Mapping[str, str] = field(default_factory=dict)
    """Id -> kind."""

    def read(self, value: object, kind: type[T], path: str = "") -> T:
        """Read a part of the file; the error has file, place, what was expected, what was found, a hint."""
        with self.at(path):
            return converted(value, kind, self)

    @contextmanager
    def at(self, path: str) -> Iterator[None]:
        """Turn a refusal within into an error of the file."""
        try:
            yield
        except Refused as refused:
            where = visible(joined(path, refused.inside))  # keys are the author's
            raise StudyError(
                self.file,
                say("error.said", where=where, problem=refused.reason) if where else refused.reason,
                hint=refused.hint,
            ) from None


def converted(value: object, kind: type[T], scope: Scope) -> T:
    """Convert plain data; raise `Refused` with the place in it."""
    return convert(value, kind, lambda part, found: part.read(found, scope))


def form(code: str, pattern: str) -> Meta:
    """Describe text of a given form."""
    return Meta(extra={"said": say(code, pattern=pattern)}, pattern=rf"\A(?:{pattern})\Z")


File = Annotated[str, form("part.path-form", FILE.pattern)]
"""A path inside the folder of a run."""
LayerNumber = Annotated[int, Meta(ge=0, le=9_999)]


class Text(str):
    """Text for people: not empty, not too long, and without invisible characters."""

    longest: ClassVar[int] = 4_000

    @classmethod
    def read(cls, value: object, scope: Scope) -> Self:
        if not isinstance(value, str) or not value.strip() or len(value) > cls.longest:
            raise Refused(say("part.text-of", most=cls.longest), value)
        if not all(letter.isprintable() or letter == "\n" for letter in value.strip()):
            raise Refused(say("part.no-controls"), value)
        return cls(value.strip())


class Reference(Text):
    """Where a model is."""

    longest = 500


class Label(Text):
    """A display name, in one line."""

    longest = 60

    @classmethod
    def read(cls, value: object, scope: Scope) -> Self:
        if "\n" in (found := super().read(value, scope)):
            raise Refused(say("part.one-line"), value)
        return found


class _Both(Fields):
    en: Text
    ko: Text


class Words(dict[str, str]):
    """Text for people in every language: one for all, or one for each."""

    @classmethod
    def read(cls, value: object, scope: Scope) -> Self:
        if isinstance(value, dict):
            return cls(asdict(converted(value, _Both, scope)))
        return cls(dict.fromkeys(_Both.__struct_fields__, Text.read(value, scope)))


# -- names of something --------------------------------------------------------------------------------


class NamedText(str):
    """The name of something known."""

    @classmethod
    def known(cls, scope: Scope) -> Sequence[str]:
        """Return all such names."""
        raise NotImplementedError

    @classmethod
    def read(cls, value: object, scope: Scope) -> Self:
        """Read it."""
        names = cls.known(scope)
        if value not in names:
            one = say("part.one-of", known=tuple(names)) if names else say("part.one-above")
            raise Refused(one, value, hint=meant(value, names))
        return cls(value)


class Alias(NamedText):
    """The alias of a model of the study."""

    @classmethod
    def known(cls, scope: Scope) -> Sequence[str]:
        return scope.models


class Earlier(NamedText):
    """The id of an experiment above."""

    kind: ClassVar[str] = ""
    """The kind of experiment that writes what is read; empty if the reader knows."""

    @classmethod
    def known(cls, scope: Scope) -> Sequence[str]:
        return tuple(scope.experiments)

    @classmethod
    def read(cls, value: object, scope: Scope) -> Self:
        found = super().read(value, scope)
        if cls.kind:
            found.demand(cls.kind, scope)
        return found

    def demand(self, kind: str, scope: Scope, figure: str = "") -> None:
        """Refuse an experiment whose data is not what is read, for a figure or otherwise."""
        if (given := scope.experiments[self]) == kind:
            return
        there = tuple(name for name, other in scope.experiments.items() if other == kind)
        said = say("part.data-for", kind=kind, figure=figure) if figure else say("part.data-of", kind=kind)
        got = say("part.data-given", name=repr(str(self)), kind=given)
        raise Refused(
            said=say("problem.expected-got", expected=said, got=got),
            hint=say("hint.there-are", names=there) if there else None,
        )


class SavedVectors(Earlier):
    """The id of an experiment above that saved vectors."""

    kind = "vectors"


class DrawnVectors(Earlier):
    """The id of an experiment above that drew vectors."""

    kind = "random-vectors"


class MatchedRouters(Earlier):
    """The id of an experiment above that matched routers."""

    kind = "routers"


class BaselineName(NamedText):
    """A baseline of `modelkin matrix`."""

    @classmethod
    def known(cls, scope: Scope) -> Sequence[str]:
        return tuple(BASELINES)


class TokenFilter(NamedText):
    """Which tokens are taken."""

    @classmethod
    def known(cls, scope: Scope) -> Sequence[str]:
        return TOKEN_FILTERS


class Aliases(tuple[str, ...]):
    """Aliases of models, each once."""

    least: ClassVar[int] = 1

    @classmethod
    def read(cls, value: object, scope: Scope) -> Self:
        kind: Any = Annotated[tuple[Alias, ...], Meta(min_length=cls.least, max_length=64)]
        return cls(_each_once(value, kind, scope))


class Controls(Aliases):
    """Aliases of models believed to be unrelated, or none."""

    least = 0


class AliasPair(tuple[str, str]):
    """Two models."""

    @classmethod
    def read(cls, value: object, scope: Scope) -> Self:
        return cls(_each_once(value, tuple[Alias, Alias], scope))


class RoleName(str):
    """A role under any of its names, as `modelkin matrix` knows them."""

    @classmethod
    def read(cls, value: object, scope: Scope) -> Self:
        try:
            return cls(parse_role(_short(value)).label)
        except UsageError as error:
            raise Refused(say("part.role-name"), value, hint=error.advice) from None


Roles = Annotated[tuple[RoleName, ...], Meta(min_length=1, max_length=40)]
NORM = (RoleName("attention_norm"),)


class MeasureName(str):
    """A measure or an alias of it, as it was written."""

    @classmethod
    def read(cls, value: object, scope: Scope) -> Self:
        try:
            find_measure(text := _short(value))
        except UsageError as error:
            raise Refused(say("part.measure-name", names=tuple(MEASURES)), value, hint=error.advice) from None
        return cls(text)


MeasureNames = Annotated[tuple[MeasureName, ...], Meta(min_length=1, max_length=2 * len(MEASURES))]
COSINE = MeasureName("cosine")


class Layers(str):
    """Layers such as ``0-10,20,30-35``; one number may stand alone."""

    @classmethod
    def read(cls, value: object, scope: Scope) -> Self:
        text = str(value) if type(value) is int and 0 <= value < 10**6 else _short(value, 200)
        try:
            parse_layer_list(text)
        except UsageError as error:
            raise Refused(say("part.layers-such"), value, hint=error.advice) from None
        return cls(text)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The layers one by one."""
        return parse_layer_list(self)


class LayersOf(dict[str, Any]):
    """Alias -> layers of this model."""

    kind: ClassVar[Any] = Layers
    what: ClassVar[Message] = say("part.layers-by-alias")

    @classmethod
    def read(cls, value: object, scope: Scope) -> Self:
        if not isinstance(value, dict):
            raise Refused(cls.what, value)
        found = cls()
        for alias, item in value.items():
            if alias not in scope.models:
                raise no_such_key(str(alias), scope.models)
            with inside(alias):
                found[alias] = converted(item, cls.kind, scope)
        return found


class LayerOf(LayersOf):
    """Alias -> one layer of this model."""

    kind = LayerNumber


class NamesOf(LayersOf):
    """Alias -> what a file calls this model."""

    kind = Label
    what = say("part.names-by-alias")


def _each_once(value: object, kind: type[T], scope: Scope) -> T:
    found: Any = converted(value, kind, scope)
    if len(set(found)) != len(found):
        raise Refused(say("part.each-once"), value)
    return found  # type: ignore[no-any-return]  # of that kind


def _short(value: object, longest: int = 60) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise Refused(say("part.text-of", most=longest), value)
    return value
