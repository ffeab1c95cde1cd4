"""Which modules a pattern in an adapter's config matches, in time that no pattern can inflate.

Libraries hand such patterns to a backtracking regex engine: with patterns of unknown authors that can take
hours. Here all positions in a name are tracked together, as the bits of one number, and each part of a
pattern is one step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from modelkin.errors import ConfigError, UnsupportedFormat
from modelkin.message import say
from modelkin.untrusted import quoted

MAX_KEYS = 200_000
MAX_EXPRESSIONS = 64
_LONGEST = 512
_LONGEST_EXPRESSION = 128
_PLAIN = re.compile(r"[\w.\-]+", re.ASCII)
_ONE = r"(?:[\w.\-]|\\\.|\\d|\[0-9\])"
# Names, escaped dots, anchors, classes of digits, and one repeat at most.
_HARMLESS = re.compile(rf"(\^?)({_ONE}*?)(?:({_ONE})([*+])({_ONE}*))?\$?", re.ASCII)
_PARTS = re.compile(_ONE, re.ASCII)

Value = TypeVar("Value")


class NamePlaces:
    """A name, and the positions of each of its letters: bit `i` of a number is position `i`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.end = 1 << len(name)
        """The position after the last letter."""
        self._found = {".": self.end - 1}

    @cached_property
    def _letters(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for place, letter in enumerate(self._name):
            found[letter] = found.get(letter, 0) | 1 << place
        return found

    @cached_property
    def beginnings(self) -> int:
        """Where a part of the name begins: at its start, and after each dot."""
        return 1 | self._letters.get(".", 0) << 1

    def of(self, part: str) -> int:
        """Return the positions of letters that a part of a pattern accepts."""
        found = self._found.get(part)
        if found is None:
            found = self._found[part] = self._look_for(part)
        return found

    def _look_for(self, part: str) -> int:
        if part not in ("[0-9]", r"\d"):
            return self._letters.get(part[-1], 0)
        digits = (letter for letter in self._letters if letter.isdecimal())
        return sum(self._letters[letter] for letter in digits if letter.isascii() or part == r"\d")

    def through(self, start: int, part: str) -> int:
        """Return the positions reached after any number of letters of a kind, from all positions at once."""
        reached, run, step = start, self.of(part), 1
        while step < self.end.bit_length():
            reached |= (reached & run) << step
            run &= run >> step
            step *= 2
        return reached


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePattern:
    """A pattern: letters, possibly one kind of letter repeated, and letters again."""

    before: tuple[str, ...]
    repeated: str | None = None
    after: tuple[str, ...] = ()
    from_start: bool = False
    """Whether it must match the whole name, not just its last parts."""

    @classmethod
    def parse(cls, key: str) -> NamePattern | None:
        """Parse a pattern; None for one that needs more than this."""
        found = _HARMLESS.fullmatch(key) if len(key) <= _LONGEST_EXPRESSION else None
        if found is None:
            return None
        anchor, before, repeated, how, after = found.groups()
        once = [repeated] if how == "+" else []
        return cls(
            before=(*_PARTS.findall(before), *once),
            repeated=repeated,
            after=tuple(_PARTS.findall(after or "")),
            from_start=bool(anchor),
        )

    def fits(self, name: NamePlaces) -> bool:
        """Say whether the pattern matches the last parts of a name, or all of it."""
        places = 1 if self.from_start else name.beginnings
        for part in self.before:
            places = (places & name.of(part)) << 1
            if not places:
                return False
        if self.repeated is not None:
            places = name.through(places, self.repeated)
        for part in self.after:
            places = (places & name.of(part)) << 1
            if not places:
                return False
        return bool(places & name.end)


@dataclass(frozen=True, slots=True)
class Patterns(Generic[Value]):
    """Which value a module has. The first matching key counts."""

    plain: Mapping[str, tuple[int, Value]]
    """Position among all keys, and value, by the end of a name."""
    expressions: tuple[tuple[int, NamePattern, Value], ...] = ()

    @classmethod
    def of_items(cls, items: Mapping[str, Value], file: str) -> Patterns[Value]:
        """Take the keys in their order; too many, or an expression that is not evaluated, are refused."""
        if len(items) > MAX_KEYS:
            raise ConfigError(file, say("problem.patterns-most", most=MAX_KEYS, n=len(items)))
        plain: dict[str, tuple[int, Value]] = {}
        expressions: list[tuple[int, NamePattern, Value]] = []
        for place, (key, value) in enumerate(items.items()):
            if _PLAIN.fullmatch(key) and len(key) <= _LONGEST:
                plain[key] = place, value
                continue
            expression = NamePattern.parse(key)
            if expression is None or len(expressions) >= MAX_EXPRESSIONS:
                raise UnsupportedFormat(
                    file,
                    say("problem.pattern-expression", pattern=quoted(key, 80)),
                    hint=say("hint.modules-in-full"),
                )
            expressions.append((place, expression, value))
        return cls(plain, tuple(expressions))

    def of(self, module: str, default: Value) -> Value:
        """Return the value of the first key that matches a module, or the default."""
        parts = module.split(".")
        ends = (".".join(parts[first:]) for first in range(len(parts)))
        fitting = [self.plain[end] for end in ends if end in self.plain]
        if self.expressions:
            name = NamePlaces(module)
            fitting += [(place, value) for place, key, value in self.expressions if key.fits(name)]
        return min(fitting, key=lambda item: item[0])[1] if fitting else default
