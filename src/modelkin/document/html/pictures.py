"""Drawings put into a page: as markup that follows its theme, without anything active."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from xml.etree import ElementTree

from modelkin.errors import UsageError
from modelkin.figures.theme import SERIES
from modelkin.message import say

from .markup import Html, element

_TYPES = {"png": "image/png", "gif": "image/gif"}
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_TAGS = frozenset(
    {"g", "path", "use", "defs", "clipPath", "rect", "image", "pattern", "circle", "line", "text"}
)
_ATTRIBUTES = frozenset(
    {
        *(
            "d",
            "x",
            "y",
            "width",
            "height",
            "transform",
            "class",
            "id",
            "clip-path",
            "opacity",
            "viewBox",
            "rx",
        ),
        *("fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-opacity", "stroke-linejoin"),
        *("stroke-linecap", "stroke-dasharray", "stroke-dashoffset", "patternUnits", "x1", "x2", "y1", "y2"),
        *("cx", "cy", "r", "points", "preserveAspectRatio", "stroke-miterlimit", "text-anchor"),
    }
)


def picture_markup(file: str, data: bytes, *, alt: str, number: int) -> Html:
    """Return a picture: SVG as markup of the page, with its own ids; everything else as an image."""
    ending = file.rpartition(".")[2]
    if ending == "svg":
        return _inline(file, data, alt=alt, prefix=f"f{number}-")
    source = f"data:{_TYPES[ending]};base64,{base64.b64encode(data).decode()}"
    return element("img", src=source, alt=alt)


def drawing_rules() -> str:
    """Return the rules that give drawings the colours of the page."""
    names = {"paper": "surface", "line": "line", "missing": "untested", "ink": "ink", "muted": "muted"}
    names |= {tone: f"s{place}" for place, tone in enumerate(SERIES)}
    return "".join(
        f".f-{name} {{ fill: var(--{variable}); }} .k-{name} {{ stroke: var(--{variable}); }}\n"
        for name, variable in names.items()
    )


def _inline(file: str, data: bytes, *, alt: str, prefix: str) -> Html:
    try:
        root = ElementTree.fromstring(data)  # noqa: S314  written by modelkin; the parser refuses bombs
    except ElementTree.ParseError as error:
        raise UsageError(file, say("problem.no-svg-drawing", why=str(error))) from error
    return element(
        "svg",
        *_children(root, prefix),
        viewBox=root.get("viewBox"),
        class_="drawing",
        role="img",
        aria_label=alt,
    )


def _children(node: ElementTree.Element, prefix: str) -> Iterator[Html]:
    """Yield what is drawn: known elements with known attributes, and references only within the drawing."""
    for child in node:
        tag = child.tag.removeprefix(_SVG)
        if tag not in _TAGS:
            continue
        attributes = {
            name: _value(name, value, prefix) for name, value in child.attrib.items() if name in _ATTRIBUTES
        }
        link = child.get(_LINK, child.get("href", ""))
        if link.startswith("#"):
            attributes["href"] = f"#{prefix}{link[1:]}"
        elif tag == "image" and link.startswith("data:image/png;base64,"):
            attributes["href"] = link
        yield element(tag, child.text if tag == "text" else None, *_children(child, prefix), **attributes)


def _value(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}{value}"
    return value.replace("url(#", f"url(#{prefix}")
