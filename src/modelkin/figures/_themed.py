"""Drawings that follow the reader's light or dark theme: colours of the palette become classes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .theme import DARK, LIGHT, Theme

_STYLE = re.compile(r' style="([^"]*)"')
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)
_KINDS = {"fill": "f", "stroke": "k"}


def named_colours(theme: Theme) -> dict[str, str]:
    """Return the colours of a theme that a drawing is made of, by name."""
    return {
        "paper": theme.background,
        "line": theme.grid,
        "missing": theme.missing,
        **{str(name): colour for name, colour in theme.tones.items()},
    }


_NAMES: Mapping[str, str] = {colour: name for name, colour in named_colours(LIGHT).items()}


def themed(svg: str) -> str:
    """Turn a light drawing into one that follows the screen.

    Styles become attributes, which any reader of SVG knows, and a class for each colour of the palette: a
    rule for dark screens changes the class. Comments are removed: they repeat the drawn text.
    """
    text = _STYLE.sub(lambda found: _attributes(found[1]), _COMMENT.sub("", svg))
    head, end, body = text.partition("</style>")
    return f"{head}{_dark_rules()}{end}{body}" if end else text


def _attributes(style: str) -> str:
    found = dict(part.split(":", 1) for part in style.split(";") if ":" in part)
    written, classes = "", []
    for name, value in ((name.strip(), value.strip()) for name, value in found.items()):
        written += f' {name}="{value}"'
        if name in _KINDS and value in _NAMES:
            classes.append(f"{_KINDS[name]}-{_NAMES[value]}")
    return written + (f' class="{" ".join(classes)}"' if classes else "")


def _dark_rules() -> str:
    rules = "".join(
        f".{short}-{name}{{{kind}:{colour}}}"
        for name, colour in named_colours(DARK).items()
        for kind, short in _KINDS.items()
    )
    return f"@media(prefers-color-scheme:dark){{{rules}}}"
