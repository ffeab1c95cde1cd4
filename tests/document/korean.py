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
        self.goes_on = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "wbr":  # a name goes on
            self.goes_on = True
            return
        self.open += [tag] if tag not in {"meta", "img", "br"} else []
        self.found += [value for name, value in attrs if name in ("data-note", "title", "aria-label", "alt")]

    def handle_endtag(self, tag):
        self.open.pop()

    def handle_data(self, data):
        if self.goes_on:
            self.found[-1:] = ["".join((*self.found[-1:], data))]
            self.goes_on = False
            return
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


TERMS = frozenset(
    (
        *("rho", "ulp", "ulps", "norm", "expert", "value", "scale", "config", "cos"),
        *("modelkin", "safetensors", "transformers", "fsspec", "mergekit", "repr"),
        *("peft", "onnx", "python", "numpy", "matplotlib"),
        *("true", "false", "null", "architectures"),  # in configs
        *("quick", "standard", "deep", "shared"),  # depths and conclusions, as options take them
        *("embedding", "router", "gate", "down", "head"),  # roles
        *("cosine", "pearson", "spearman"),  # measures
        *("llama", "mixtral", "bert"),  # families
        *("anchors", "mdir", "awm", "pdf", "spectra", "reef", "logits", "behaviour"),  # published methods
        *("linear", "slerp", "ties", "dare", "della", "breadcrumbs", "sce"),  # methods of merging
    )
)
"""Names, and words that Korean engineers write in Latin letters too."""
_QUOTED = re.compile(r"“[^”]*”|'[^']*'|`[^`]*`|\"[^\"]*\"")
_REFERENCE = re.compile(r"\b[a-z]+:[\w./-]+")
_SMALL = re.compile(r"(?<![A-Za-z])[a-z]{3,}(?![A-Za-z])")


def foreign(texts, terms=TERMS):
    """Return every English word that is left in texts; names, quotes and the terms are none."""
    bare = (NAME.sub("~", _REFERENCE.sub("~", _QUOTED.sub("~", KNOWN.sub("~", text)))) for text in texts)
    return [word for text in bare for word in _SMALL.findall(text) if word not in terms]
