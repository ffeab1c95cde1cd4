"""How text of unknown authors is shown: what cannot be seen becomes an escape, what is long is cut."""

from __future__ import annotations

_LONGEST_NAME = 120
_LONGEST_PLAIN = 1024


def visible(text: str, *, keep: str = "") -> str:
    r"""Show control, invisible and direction-changing characters as escapes: ``\x1b``, ``\u202e``.

    Unescaped they could clear a screen, hide a line or reverse it.

    Parameters
    ----------
    keep
        Characters that stay as they are, such as line breaks.

    Examples
    --------
    >>> visible("a\u202eb")
    'a\\u202eb'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else escaped(letter) for letter in text)


def escaped(letter: str) -> str:
    """Return a character as its escape in ASCII."""
    return letter.encode("unicode_escape").decode("ascii")


def quoted(text: str, limit: int = _LONGEST_NAME) -> str:
    """Return text in quotes, escaped and cut, so that it can neither flood nor colour a terminal."""
    if len(text) <= limit:
        return repr(text)
    return f"{text[:limit]!r}... ({len(text)} characters)"


def plain(text: str) -> str:
    """Return text as it is when it is printable and not too long, otherwise as `quoted` does."""
    return text if text.isprintable() and len(text) <= _LONGEST_PLAIN else quoted(text)
