"""Untrusted names as plain text: no control characters, no markup, no surprises."""

from __future__ import annotations

import textwrap

from modelkin.untrusted import visible


def readable(text: str) -> str:
    """Show what cannot be seen as escapes; line breaks stay."""
    return visible(text, keep="\n")


def shortened(text: str, width: int) -> str:
    """Shorten a long name in its middle, where it says least."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def wrapped(text: str, width: int) -> list[str]:
    """Break text into lines, keeping the breaks that it has."""
    return [line for part in text.split("\n") for line in textwrap.wrap(part, max(width, 8)) or [""]]
