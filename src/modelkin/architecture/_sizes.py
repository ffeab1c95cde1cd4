"""How large each space is: from the config where it says so, else solved from the shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Final

from modelkin.message import Message, say

from .notation import Expression
from .spaces import SPACES
from .spec import Fusion, TensorSpec

_MAX_NUMBER: Final = 1 << 40  # no axis of any model is longer; larger numbers are mistakes or attacks
_MAX_SHOWN: Final = 40
"""Characters or digits of a wrong value that an error shows."""


def nested(config: object, path: str) -> object:
    """Return the value at a dotted path, or None."""
    for key in path.split("."):
        if not isinstance(config, Mapping):
            return None
        config = config.get(key)
    return config


class ConfigView:
    """Typed access to one config; a value of the wrong type counts as absent and is noted."""

    def __init__(self, data: Mapping[str, object]) -> None:
        self.data = data
        self.notes: dict[str, Message] = {}

    def has(self, path: str) -> bool:
        """Whether there is a value at a path."""
        return nested(self.data, path) is not None

    def shown(self, path: str) -> str:
        """Return the value at a path in a few characters, whatever it is."""
        return _shown(nested(self.data, path))

    def number(self, path: str) -> Fraction | None:
        """Return a positive number of sensible size, or None."""
        value = nested(self.data, path)
        if value is None:
            return None
        number = _as_number(value)
        if number is None and not _says_none(path, value):
            self.notes[path] = say("config-number", name=repr(path), value=_shown(value))
        return number

    def text(self, path: str) -> str | None:
        """Return a string, or None."""
        value = nested(self.data, path)
        return value if isinstance(value, str) else None

    def texts(self, path: str) -> tuple[str, ...]:
        """Return the strings of a list."""
        value = nested(self.data, path)
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()

    def has_value(self, path: str, expected: str | int | bool) -> bool:
        """Whether the value at a path is this one, of the same type."""
        value = nested(self.data, path)
        return type(value) is type(expected) and value == expected

    def mentions(self, words: tuple[str, ...]) -> bool:
        """Whether a key that is set, or a string, contains one of these lower-case words."""
        for key, value in self.data.items():
            if value and any(word in str(key).lower() for word in words):
                return True
            if isinstance(value, str) and any(word in value.lower() for word in words):
                return True
        return False


_COUNTS_OF_EXTRAS: Final = frozenset(
    {"num_nextn_predict_layers", "n_shared_experts", "n_routed_experts", "num_experts", "num_local_experts"}
)
"""What a model may state to have none of."""


def _says_none(path: str, value: object) -> bool:
    return type(value) is int and value == 0 and path.rpartition(".")[2] in _COUNTS_OF_EXTRAS


def _shown(value: object) -> str:
    """Return a value in a few characters, whatever it is."""
    if isinstance(value, str):
        return repr(value[:_MAX_SHOWN])
    if isinstance(value, int) and abs(value) >= 10**_MAX_SHOWN:
        return f"a number of more than {_MAX_SHOWN} digits"
    return repr(value) if isinstance(value, float | int) else type(value).__name__


def _as_number(value: object) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if not 0 < value <= _MAX_NUMBER:
        return None
    return Fraction(value).limit_denominator(1 << 20)


Monomial = tuple[str, ...]
Constraint = tuple[tuple[Monomial, ...], int]
"""The sum of these products of sizes is this number."""


@dataclass(slots=True)
class KnownSizes:
    """Sizes, and products of sizes whose factors cannot be told apart."""

    sizes: dict[str, int] = field(default_factory=dict)
    """By space."""
    products: dict[Monomial, int] = field(default_factory=dict)
    """For example heads times head dimension, when the config is missing."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Sizes that a family defines to be equal to another."""

    def reduce(self, spaces: Iterable[str]) -> tuple[int, Monomial]:
        """Return the known factor of a product of spaces, and the spaces that remain unknown."""
        names = [self.aliases.get(name, name) for name in spaces]
        if "kv_heads" in names and "heads_per_kv" in names:
            names.remove("kv_heads")
            names.remove("heads_per_kv")
            names.append("heads")
        factor = prod(self.sizes[name] for name in names if name in self.sizes)
        rest = tuple(sorted(name for name in names if name not in self.sizes))
        if rest in self.products:
            return factor * self.products[rest], ()
        return factor, rest

    def is_measured(self, space: str) -> bool:
        """Whether a space may have any size, because its size is read off the tensor itself."""
        return SPACES[space].measured

    def length(self, spaces: Iterable[str]) -> int | None:
        """Return the length of an axis, or None if it is not known."""
        factor, rest = self.reduce(spaces)
        return None if rest else factor

    def learn(self, constraint: Constraint) -> bool:
        """Solve one constraint if it has one unknown; return whether something new is known."""
        terms, total = constraint
        coefficients: dict[Monomial, int] = {}
        for term in terms:
            factor, rest = self.reduce(term)
            coefficients[rest] = coefficients.get(rest, 0) + factor
        left = total - coefficients.pop((), 0)
        if len(coefficients) != 1 or left <= 0:
            return False
        ((rest, coefficient),) = coefficients.items()
        if left % coefficient:
            return False
        if len(rest) == 1:
            self.sizes[rest[0]] = left // coefficient
        else:
            self.products[rest] = left // coefficient
        return True


def axis_terms(spaces: tuple[str, ...], fusion: Fusion | None) -> tuple[Monomial, ...]:
    """Return the products whose sum is the length of an axis; a fused axis has several."""
    if spaces != ("fused",) or fusion is None:
        return (spaces,)
    groups = (fusion.per,) if fusion.per else ()
    return tuple(groups + part.spaces for part in fusion.parts)


def _constraints(shaped: Iterable[tuple[TensorSpec, tuple[int, ...]]]) -> list[Constraint]:
    found: dict[Constraint, None] = {}
    for spec, shape in shaped:
        if len(shape) != len(spec.axes):
            continue
        for spaces, length in zip(spec.axes, shape, strict=True):
            terms = axis_terms(spaces, spec.fusion)
            if not any(SPACES[name].measured for term in terms for name in term):
                found[terms, length] = None
    return list(found)


def _aliases(candidates: Mapping[str, tuple[Expression, ...]]) -> dict[str, str]:
    """Return the sizes that are defined as nothing but another size."""
    return {
        name: options[0].text
        for name, options in candidates.items()
        if len(options) == 1 and options[0].text in candidates
    }


_STAGES: Final = (1, 2, 3)
"""Sizes from the config first, then those that follow from others, then constants of the family."""


def _stage(expression: Expression) -> int:
    if expression.config_keys:
        return 1
    return 3 if expression.is_constant else 2


def _evaluate(
    known: KnownSizes,
    name: str,
    options: list[Expression],
    number: Callable[[str], Fraction | None],
) -> bool:
    """Take the first option that has a value; return whether something new is known."""
    if name in known.sizes:
        return False
    for option in options:
        if (value := option.evaluate(known.sizes, number)) is not None:
            known.sizes[name] = value
            return True
    return False


def _nothing(path: str) -> Fraction | None:
    return None


def resolve_sizes(
    candidates: Mapping[str, tuple[Expression, ...]],
    config: ConfigView | None,
    shaped: Iterable[tuple[TensorSpec, tuple[int, ...]]],
    *,
    doubted: Set[str] = frozenset(),
) -> KnownSizes:
    """Find the sizes of all spaces from expressions per size, best first.

    What the config says outright comes first, then what follows from shapes, then the defaults of a family.
    Of two contradictory shapes, the first counts: the most common. Without a config that is trusted there are
    no defaults: only what shapes and definitions by other sizes force. The same holds for the sizes that keys
    of the config would tell that are `doubted`.
    """
    known = KnownSizes(sizes={"one": 1}, aliases=_aliases(candidates))
    constraints = _constraints(shaped)
    number = config.number if config is not None else _nothing
    stages = _STAGES if config is not None else _STAGES[:-1]
    for stage in (*stages, stages[-1]):  # once more: what shapes told last may define other sizes
        usable = {
            name: [option for option in options if _stage(option) <= stage]
            for name, options in candidates.items()
            if not any(
                option.config_keys if config is None else option.config_keys & doubted for option in options
            )
        }
        while any([_evaluate(known, name, options, number) for name, options in usable.items()]):
            pass
        while any([known.learn(constraint) for constraint in constraints]):
            pass
    for name, other in known.aliases.items():
        if other in known.sizes:
            known.sizes.setdefault(name, known.sizes[other])
    return known
