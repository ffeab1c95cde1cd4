"""How names from files are judged and shown. Paths of shards have further rules, in `_shards`."""

from __future__ import annotations

import unicodedata

# The longest names in public models are near 150 characters.
MAX_NAME_LENGTH = 1024

_SHOWN_LENGTH = 80

# Control, format (which includes the marks that reverse the direction of text), lone surrogate, line and
# paragraph separator: none is visible, and each can make two names look alike or garble a terminal.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def quoted(text: str) -> str:
    """Return text in quotes, escaped and shortened, so that it can neither flood nor colour a terminal."""
    if len(text) <= _SHOWN_LENGTH:
        return repr(text)
    return f"{text[:_SHOWN_LENGTH]!r}... ({len(text)} characters)"


def plain(text: str) -> str:
    """Return text as it is when it is short and printable, otherwise as `quoted` does."""
    return text if text.isprintable() and len(text) <= MAX_NAME_LENGTH else quoted(text)


def name_problem(name: str) -> str | None:
    """Say what is wrong with a name: empty, too long, or with characters nobody can see."""
    if not name:
        return "is empty"
    if len(name) > MAX_NAME_LENGTH:
        return f"has {len(name)} characters, more than {MAX_NAME_LENGTH}"
    if name.isascii() and name.isprintable():
        return None
    for character in name:
        if unicodedata.category(character) in _INVISIBLE:
            return f"holds the invisible character U+{ord(character):04X}"
    return None
