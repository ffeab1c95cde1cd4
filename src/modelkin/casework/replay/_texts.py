"""Words of the replay: loaded data, the same keys in every language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from modelkin.document import LANGUAGES, read_texts
from modelkin.errors import UsageError


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
    return Texts(code=code, by_key=read_texts("modelkin.casework.replay", "texts", f"{code}.toml"))
