"""Words of the replay: loaded data, the same keys in every language."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from modelkin.errors import UsageError

LANGUAGES = ("en", "ko")


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Texts of one language, with places for numbers and how these are written."""

    code: str
    by_key: Mapping[str, str] = field(repr=False)

    def say(self, key: str, values: Mapping[str, object] | None = None) -> str:
        """Return a text with its places filled."""
        return self.by_key[key].strip().format_map(values or {})

    def paragraphs(self, key: str, values: Mapping[str, object]) -> tuple[str, ...]:
        """Return a longer text, paragraph by paragraph."""
        return tuple(self.say(key, values).split("\n\n"))

    def word(self, name: str) -> str:
        """Return what a name in a table is called; other names stay as they are."""
        return self.by_key.get(f"word.{name}", name)


@cache
def load_texts(code: str) -> Texts:
    """Read a language.

    Raises
    ------
    UsageError
        There are no texts in this language.
    """
    if code not in LANGUAGES:
        raise UsageError(code, f"expected a language of the replay, one of {', '.join(LANGUAGES)}")
    file = resources.files("modelkin.replay").joinpath("texts", f"{code}.toml")
    return Texts(code=code, by_key=dict(_flat(tomllib.loads(file.read_text("utf-8")))))


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)
