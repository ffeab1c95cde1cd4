"""English that is left in Korean texts: in pages, documents and figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from msgspec import Struct

from modelkin.document import load_language
from modelkin.figures import Animation, Figure, alt_of

KOREAN = load_language("ko")
NAME = re.compile(r"[\w.-]*[\d_./@-][\w./@-]*")
"""A reference, a tensor, a method, a version: it has a mark or a digit in it."""
ENGLISH = re.compile(r"(?:[A-Za-z]{2,}[,;:]? ){3,}[A-Za-z]{2,}")
"""Four words in a row."""
KNOWN = re.compile(r"modelkin compare|modelkin study run \w+|--\w+ \w+")


class Texts(HTMLParser):
    """The texts of a page, without its script and its style."""

    def __init__(self, page):
        super().__init__()
        self.open = [""]
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.open += [tag] if tag not in {"meta", "img", "br"} else []
        self.found += [value for name, value in attrs if name in ("data-note", "title", "aria-label", "alt")]

    def handle_endtag(self, tag):
        self.open.pop()

    def handle_data(self, data):
        self.found += [data] if self.open[-1] not in ("script", "style", "code") else []


def english(texts):
    """Return what is left of texts in English once names are taken out."""
    bare = (NAME.sub("~", KNOWN.sub("~", text)) for text in texts)
    return [found[0] for text in bare for found in ENGLISH.finditer(text)]


def prose(text):
    """Return the lines of a Markdown document without its code."""
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL).replace("`", "").splitlines()


def words_of(made: Figure | Animation) -> list[str]:
    """Return every word of a figure as it is told in Korean, with its alt text."""
    frames = made.frames[:: max(1, len(made.frames) - 1)] if isinstance(made, Animation) else (made,)
    return [alt_of(made, KOREAN), *(KOREAN.wording(text) for frame in frames for text in _texts(frame))]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            if name != "alt":
                yield from _texts(getattr(value, name))
