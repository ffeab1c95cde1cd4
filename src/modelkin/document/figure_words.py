"""Words inside figures, in the language of a report. Descriptions of figures are English, and stay so."""

from __future__ import annotations

import re
from collections.abc import Callable

from .language import ENGLISH, Language

_PLACE = re.compile(r"\\\{(\w+)\\\}")


def figure_words(language: Language) -> Callable[[str], str]:
    """Return a translator of a figure's words into a language; words without a text stay as they are.

    Figures also stay English if no font of this machine has the letters, which is checked here.
    """
    from modelkin.figures.pen import can_draw

    texts = language.table("figure")
    if language.code == ENGLISH.code or not can_draw("".join(texts.values())):
        return str
    patterns = [
        (re.compile(_PLACE.sub(r"(?P<\1>.+?)", re.escape(english))), texts[key])
        for key, english in ENGLISH.table("figure").items()
    ]

    def told(text: str) -> str:
        for pattern, words in patterns:
            found = pattern.fullmatch(text)
            if found is not None:
                places = found.groupdict()
                return words.format_map({name: _told_place(name, places[name]) for name in places})
        return language.word("component", text)

    def _told_place(name: str, value: str) -> str:
        return language.word("component", value) if name == "component" else value

    return told
