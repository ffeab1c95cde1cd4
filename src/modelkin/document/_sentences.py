"""Sentences of the record in another language.

The record holds English sentences: the summary, limitations, reasons. Each of them was made from a template,
and the same template stands in ``en.toml``. A sentence is told in another language by finding the template
it fits and filling the other language's text with what stood in its places. What fits no template is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from modelkin.message import Message

from .language import ENGLISH, Language

_PLACE = re.compile(r"\{(\w+)\}")
_LONGEST = 2_000
"""Names of strangers stand in reasons; a longer text is not worth the search."""
_CLAUSES = re.compile("; ")
_SENTENCES = re.compile(r"(?<=\.) (?=[A-Z0-9])")
_PART = re.compile(r"\s*([\w-]+) \(layers ([\d, ]+) of those tested\)|([^,()]+)")


def sentence_text(text: str | Message, language: Language) -> str:
    """Tell a reason, a remark or a null hypothesis of the record in a language."""
    if isinstance(text, Message):
        return language.tell(text)
    if language.code == ENGLISH.code:
        return text
    told = _all_told(text, language)
    return told if told is not None else language.say("text.untranslated", text=text)


def known_sentence(text: str, language: Language) -> str:
    """Tell a value of the record in a language if it is a sentence of ours; leave anything else as it is."""
    if language.code == ENGLISH.code:
        return text
    told = _all_told(text, language)
    return told if told is not None else text


def _all_told(text: str, language: Language) -> str | None:
    """Tell a phrase, or several side by side; None if one of them is not known."""
    whole = _told(text, "message", None, language)
    if whole is not None:
        return whole
    for pattern, glue in ((_CLAUSES, "; "), (_SENTENCES, " ")):
        parts = [_told(part, "message", None, language) for part in pattern.split(text)]
        if len(parts) > 1 and None not in parts:
            return glue.join(part for part in parts if part is not None)
    return None


def limitation_text(text: str | Message, language: Language) -> str:
    """Tell a limitation of the verdict in a language."""
    if isinstance(text, Message):
        return language.tell(text)
    if language.code == ENGLISH.code:
        return text
    told = _told(text, "limitation", None, language)
    return told if told is not None else sentence_text(text, language)


def _told(text: str, table: str, keys: Iterable[str] | None, language: Language) -> str | None:
    if len(text) > _LONGEST:
        return None
    patterns = _patterns(table)
    for key in patterns if keys is None else keys:
        found = patterns[key].fullmatch(text)
        if found is not None:
            values = {name: _value(name, value, language) for name, value in found.groupdict().items()}
            return language.say(f"{table}.{key}", **values)
    return None


@cache
def _patterns(table: str) -> dict[str, re.Pattern[str]]:
    """Return the English templates as patterns, those with the most words first."""
    templates = ENGLISH.table(table)
    ordered = sorted(
        (key for key in templates if key != "quoted"), key=lambda key: -len(_PLACE.sub("", templates[key]))
    )
    return {key: _pattern(templates[key]) for key in ordered}


def _pattern(template: str) -> re.Pattern[str]:
    pieces = _PLACE.split(template)
    made = [re.escape(piece) if n % 2 == 0 else f"(?P<{piece}>.+?)" for n, piece in enumerate(pieces)]
    return re.compile("".join(made), re.DOTALL)


def _value(name: str, value: str, language: Language) -> str:
    """Translate what stands in a place, where it is a sentence or a word of ours."""
    change = _CHANGES.get(name)
    return change(value, language) if change is not None else value


def _parts(value: str, language: Language) -> str:
    if value == ENGLISH.say("summary.everything"):
        return language.say("summary.everything")
    words = []
    for part, layers, name in _PART.findall(value):
        word = language.word("component", (part or name).strip())
        words.append(language.say("summary.some_layers", part=word, layers=layers) if layers else word)
    return ", ".join(words)


_CHANGES: Mapping[str, Callable[[str, Language], str]] = {
    "reason": sentence_text,
    "parts": _parts,
    "rest": _parts,
    "part": lambda value, language: language.word("component", value),
    "other_part": lambda value, language: language.word("component", value),
    "side": lambda value, language: language.word("side", value),
}
