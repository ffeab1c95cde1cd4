"""Untrusted names as plain text: no control characters, no markup, no surprises."""

from __future__ import annotations

import re
import textwrap

from modelkin.untrusted import visible

_WIDE = re.compile(r"[\u1100-\uffdc]")
"""Hangul and Han: about twice as wide as other letters."""
_ROOM = "\x00"
"""Stands for the other half of a wide letter; what is drawn has none."""


def readable(text: str) -> str:
    """Show what cannot be seen as escapes; line breaks stay."""
    return visible(text, keep="\n")


def breadth(text: str) -> int:
    """Return how many letters of ordinary width a text takes."""
    return len(text) + len(_WIDE.findall(text))


def shortened(text: str, width: int) -> str:
    """Shorten a long name in its middle, where it says least."""
    if breadth(text) <= width:
        return text
    width = max(2, width * len(text) // breadth(text))
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def wrapped(text: str, width: int) -> list[str]:
    """Break text into lines, keeping the breaks that it has."""
    wide = _WIDE.sub(rf"\g<0>{_ROOM}", text)
    lines = [line for part in wide.split("\n") for line in textwrap.wrap(part, max(width, 8)) or [""]]
    return [line.replace(_ROOM, "") for line in lines]
