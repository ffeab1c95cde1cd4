"""One language of reports: every text under a key, with named placeholders."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from modelkin.document import particles
from modelkin.errors import UsageError
from modelkin.message import Message, Phrase, Value, say

LANGUAGES = ("en", "ko")


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """Texts of one language by ``table.key``; its code, such as ``en``, is also the ``lang`` of a page."""

    code: str
    texts: Mapping[str, str] = field(repr=False)

    def say(self, key: str, **values: str) -> str:
        """Return a text with its placeholders filled; of a single thing, if there is a text for one."""
        return self._filled(self._counted(key, values), values)

    def of(self, table: str) -> Callable[..., str]:
        """Return `say` for the keys of one table; an empty key (a column without a title) has no text."""

        def said(key: str, **values: str) -> str:
            return self.say(f"{table}.{key}", **values) if key else ""

        return said

    def told(self, message: Message | None) -> str:
        """Return a message as text; empty if there is none."""
        return "" if message is None else self.tell(message)

    def tell(self, message: Message) -> str:
        """Return a message as text in this language, including every message in it."""
        key = message.code if "." in message.code else f"message.{message.code}"
        values = {name: self._shown(value) for name, value in message.values}
        return self._filled(self._counted(key, values), values)

    def _counted(self, key: str, values: Mapping[str, object]) -> str:
        """Return the key of the text for one thing, where it has its own: languages differ in plurals."""
        n = values.get("n", values.get("number"))
        return f"{key}-one" if n in (1, "1") and f"{key}-one" in self.texts else key

    def _filled(self, key: str, values: Mapping[str, object]) -> str:
        text = self.texts[key]
        return particles.filled(text, values) if self.code == "ko" else text.format_map(values)

    def wording(self, text: str) -> str:
        """Return words of a figure in this language; a name stays as it is."""
        return self.tell(text.said) if isinstance(text, Phrase) else text

    def _shown(self, value: Value) -> object:
        if isinstance(value, Message | Phrase):
            return self.tell(value.said if isinstance(value, Phrase) else value)
        return _Several(str(self._shown(item)) for item in value) if isinstance(value, tuple) else value

    def word(self, table: str, name: str) -> str:
        """Return what a name of the record is called; untranslated names stay as they are."""
        return self.texts.get(f"{table}.{name}", name)

    def table(self, name: str) -> Mapping[str, str]:
        """Return all texts of one table, by their keys in it."""
        prefix = f"{name}."
        return {key.removeprefix(prefix): text for key, text in self.texts.items() if key.startswith(prefix)}


class _Several(tuple[str, ...]):
    """Several texts in one placeholder: ``{names}`` lists them, ``{sentences: }`` joins by spaces."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return (spec or ", ").join(self)

    def __str__(self) -> str:
        # Not as Python writes a tuple: quotes inside quotes double with every level.
        return format(self)


@cache
def load_language(code: str) -> Language:
    """Read a language; `UsageError` if there are no texts in it."""
    if code not in LANGUAGES:
        raise UsageError(code, say("problem.report-language", known=", ".join(LANGUAGES)))
    return Language(code=code, texts=read_texts("modelkin.document", "texts", f"{code}.toml"))


def read_texts(package: str, *path: str) -> dict[str, str]:
    """Read texts that come with a package: ``table.key`` -> text."""
    file = resources.files(package).joinpath(*path)
    return dict(_flat(tomllib.loads(file.read_text(encoding="utf-8"))))


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)


ENGLISH = load_language("en")
