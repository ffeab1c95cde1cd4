"""HTML and SVG as values. Plain text becomes markup only by escaping: no caller can forget it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from modelkin.untrusted import visible

_VOID = frozenset(
    {"meta", "img", "br", "rect", "line", "path", "circle", "polyline", "col", "use", "image"}
    | {"link", "input"}
)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_POWER = re.compile(r"10\^(-?\d+)")
_LONG = re.compile(r"\S{18,}")
_MARKS = re.compile(r"(?<=[/_.:@=,;-])(?=\w)")
_CODE = re.compile(r"`([^`]+)`")
_EMPHASIS = re.compile(r"\*([^*]+)\*")


class Html(str):
    """Markup that is safe to put into the page."""

    __slots__ = ()


Child = str | None
Attribute = str | int | float | bool | None


def escaped(text: str) -> Html:
    """Show text as it is: nothing in it is markup, hides or reorders the page."""
    return Html(html.escape(visible(text), quote=True))


def joined(children: Iterable[Child]) -> Html:
    """Put children one after the other; texts among them are escaped."""
    return Html(
        "".join(
            child if isinstance(child, Html) else escaped(child) for child in children if child is not None
        )
    )


def element(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """Make an element of markup, texts (which are escaped), or None for nothing.

    Attributes are ``class_`` for ``class``, ``data_v`` for ``data-v``; True for one without a value, None or
    False for none at all.
    """
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID and not children:
        return Html(
            f"<{tag}{written}>"
            if tag in {"meta", "img", "br", "col", "link", "input"}
            else f"<{tag}{written}/>"
        )
    return Html(f"<{tag}{written}>{joined(children)}</{tag}>")


def _attribute(name: str, value: Attribute) -> str:
    name = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escaped(text)}"'


def name_of(text: str) -> Html:
    """Show an untrusted name, isolated from the direction of the text around it.

    A long one may break only after the separators used in paths and names.
    """
    if not _LONG.search(text):
        return element("bdi", text)
    return element("bdi", Html("<wbr>".join(map(escaped, _MARKS.split(visible(text))))))


def with_names(text: str, names: Iterable[str]) -> Html:
    """Show a sentence that contains untrusted names."""
    known = sorted({name for name in names if name}, key=len, reverse=True)
    if not known:
        return escaped(text)
    pieces = re.split(f"({'|'.join(re.escape(name) for name in known)})", text)
    return joined(name_of(piece) if number % 2 else piece for number, piece in enumerate(pieces))


def powers(text: str) -> str:
    """Write 10^-282 as 10⁻²⁸²: it stays a power when it is copied."""
    return _POWER.sub(lambda found: "10" + found[1].translate(_RAISED), text)


def own_text(text: str) -> Html:
    """Show our own text, with its *emphasis* and `code`."""
    marked = _CODE.sub(r"<code>\1</code>", escaped(text))
    return Html(_EMPHASIS.sub(r"<em>\1</em>", marked))
