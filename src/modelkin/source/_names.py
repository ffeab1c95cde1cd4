"""Which file names from a listing, an index or a user are safe to use."""

from __future__ import annotations

import re

MAX_NAME_LENGTH = 1024
# Control characters, marks that reorder or hide text, and halves of characters, which no URL can hold.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def name_problem(name: str) -> str | None:
    """Return why `name` must not be used as a relative path inside a model, or None when it is fine.

    A name is used to build URLs and paths, so it must stay below the folder it belongs to on every system.
    """
    if not name:
        return "is empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"is longer than {MAX_NAME_LENGTH} characters"
    if _CONTROL.search(name):
        return "contains control characters"
    if "\\" in name or ":" in name or name[0] in "/~":
        return "is not a plain relative path"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "has an empty, '.' or '..' part"
    return None


def shown(name: str, limit: int = 120) -> str:
    """Quote a name from outside so that it can neither flood nor colour a terminal."""
    text = repr(name)
    return text if len(text) <= limit else f"{text[: limit - 1]}…{text[-1]}"
