"""A place in a study file: its value, where it stands, and the only ways to read it."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from modelkin.errors import StudyError
from modelkin.untrusted import YamlRefused, strict_yaml

MAX_BYTES = 256 * 1024
"""The longest shipped study has some 20 kB."""
LONGEST_TEXT = 4_000
_SHOWN = 60
LANGUAGES = ("en", "ko")
Words = Mapping[str, str]
"""Language -> text."""


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a study file."""

    value: object
    path: str
    """Such as ``experiments[2].layers``; empty for the whole file."""
    file: str

    @classmethod
    def of_file(cls, data: bytes, file: str) -> Node:
        """Parse a file.

        Raises
        ------
        StudyError
            It is too long or no plain YAML.
        """
        if len(data) > MAX_BYTES:
            raise StudyError(file, f"expected at most {MAX_BYTES:,} bytes, got {len(data):,}")
        try:
            return cls(strict_yaml(data), "", file)
        except YamlRefused as error:
            raise StudyError(file, f"not read, {error}", hint=_HINT) from error

    def fail(self, expected: str, *, hint: str | None = None) -> NoReturn:
        """Say where, what was expected, and what came."""
        where = f"{self.path}: " if self.path else ""
        raise StudyError(self.file, f"{where}expected {expected}, got {_shown(self.value)}", hint=hint)

    def at(self, key: str, value: object) -> Node:
        """Return a place inside."""
        return Node(
            value,
            f"{self.path}.{key}" if self.path and not key.startswith("[") else self.path + key,
            self.file,
        )

    # -- what has parts --------------------------------------------------------------------------------

    def fields(self, required: Collection[str] = (), optional: Collection[str] = ()) -> dict[str, Node]:
        """Read a mapping with these keys and no others."""
        if not isinstance(self.value, dict):
            self.fail(f"fields ({', '.join([*required, *optional])})")
        known = [*required, *optional]
        for key in self.value:
            if key not in known:
                close = difflib.get_close_matches(str(key), known, n=1)
                hint = f"Did you mean {close[0]!r}?" if close else f"There are {', '.join(known)}."
                inside = self.at(str(key)[:_SHOWN], key)
                raise StudyError(self.file, f"{inside.path}: there is no such key", hint=hint)
        for key in required:
            if key not in self.value:
                raise StudyError(self.file, f"{self.at(key, None).path}: expected it, and it is missing")
        return {key: self.at(key, value) for key, value in self.value.items() if value is not None}

    def entries(self, *, key: re.Pattern[str], most: int) -> dict[str, Node]:
        """Read a mapping with free keys of a form."""
        if not isinstance(self.value, dict) or not 0 < len(self.value) <= most:
            self.fail(f"1 to {most} entries by name")
        for name in self.value:
            if not isinstance(name, str) or not key.fullmatch(name):
                self.at(str(name)[:_SHOWN], name).fail(f"a name of the form {key.pattern}")
        return {name: self.at(name, value) for name, value in self.value.items()}

    def items(self, *, most: int, least: int = 0) -> list[Node]:
        """Read a list."""
        if not isinstance(self.value, list) or not least <= len(self.value) <= most:
            self.fail(f"a list of {least} to {most}")
        return [self.at(f"[{number}]", value) for number, value in enumerate(self.value)]

    # -- what has none ---------------------------------------------------------------------------------

    def text(self, *, form: re.Pattern[str] | None = None, what: str = "a text", longest: int = 400) -> str:
        """Read a text."""
        if not isinstance(self.value, str) or not self.value.strip() or len(self.value) > longest:
            self.fail(f"{what} of at most {longest} characters")
        text = self.value.strip()
        if not all(letter.isprintable() or letter == "\n" for letter in text):
            self.fail("a text without control characters")
        if form is not None and not form.fullmatch(text):
            self.fail(f"{what} of the form {form.pattern}")
        return text

    def words(self) -> Words:
        """Read a text for people: one for all languages, or one for each."""
        if isinstance(self.value, dict):
            parts = self.fields(required=LANGUAGES)
            return {name: part.text(longest=LONGEST_TEXT) for name, part in parts.items()}
        return dict.fromkeys(LANGUAGES, self.text(longest=LONGEST_TEXT))

    def choice(self, names: Sequence[str]) -> str:
        """Read one of some words."""
        if self.value not in names:
            close = difflib.get_close_matches(str(self.value), names, n=1)
            self.fail(f"one of {', '.join(names)}", hint=f"Did you mean {close[0]!r}?" if close else None)
        return str(self.value)

    def choices(self, names: Sequence[str], *, least: int = 1, most: int = 64) -> tuple[str, ...]:
        """Read some of some words, each once."""
        found = tuple(item.choice(names) for item in self.items(most=most, least=least))
        if len(set(found)) != len(found):
            self.fail("each name once")
        return found

    def whole(self, *, low: int, high: int) -> int:
        """Read a whole number."""
        if type(self.value) is not int or not low <= self.value <= high:
            self.fail(f"a whole number from {low:,} to {high:,}")
        return self.value

    def number(self, *, low: float, high: float) -> float:
        """Read a number."""
        if type(self.value) not in (int, float):
            self.fail("a number")
        value = float(self.value)  # type: ignore[arg-type]  # checked above
        if not math.isfinite(value) or not low <= value <= high:
            self.fail(f"a number from {low:g} to {high:g}")
        return value

    def flag(self) -> bool:
        """Read true or false."""
        if not isinstance(self.value, bool):
            self.fail("true or false")
        return self.value


_HINT = "A study is plain YAML; `modelkin study show original-claim` prints one that works."


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return f"a mapping of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
