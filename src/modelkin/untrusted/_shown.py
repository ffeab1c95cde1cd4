"""How text of unknown authors is shown: what cannot be seen becomes an escape, what is long is cut."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LONGEST_NAME = 120
"""Letters shown of a name, so that a message stays a line or two."""
_LONGEST_PLAIN = 1024
"""Letters of a path that is shown as it is."""


def visible(text: str, *, keep: str = "") -> str:
    r"""Show control, invisible and direction-changing characters as escapes: ``\x1b``, ``\u202e``.

    Unescaped, they could clear the screen, hide a line or reverse it.

    Characters in `keep`, such as line breaks, stay as they are.

    Examples
    --------
    >>> visible("a\u202eb")
    'a\\u202eb'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else escaped(letter) for letter in text)


_SAYS_NOTHING = re.compile(
    r"(pytorch_)?(adapter_)?model(\.\w+)*|consolidated[.\w]*|checkpoint|snapshots?|weights?|resolve|main|[0-9a-f]{40}",
    re.IGNORECASE,
)
"""Names of files and folders that all models have."""


def short_names(refs: Sequence[str]) -> tuple[str, ...]:
    """Return the shortest suffixes of references that still tell them apart; equal ones stay equal.

    Examples
    --------
    >>> short_names(["org/base", "./runs/child"])
    ('base', 'child')
    >>> short_names(["one/llama", "two/llama"])
    ('one/llama', 'two/llama')
    """
    pieces = {ref: [half.rstrip("/").split("/") for half in ref.split("::")] for ref in refs}
    longest = max((len(half) for halves in pieces.values() for half in halves), default=1)
    for extra in range(longest):
        named = {ref: "::".join(_end(half, extra) for half in halves) for ref, halves in pieces.items()}
        if len(set(named.values())) == len(named) and all(named.values()):
            return tuple(named[ref] for ref in refs)
    return tuple(refs)


def _end(pieces: Sequence[str], extra: int) -> str:
    """Join the last meaningful piece, what follows it, and `extra` pieces before it."""
    telling = [place for place, piece in enumerate(pieces) if piece and not _SAYS_NOTHING.fullmatch(piece)]
    start = telling[-1] if telling else len(pieces) - 1
    return "/".join(pieces[max(0, start - extra) :])


def escaped(letter: str) -> str:
    """Return a character as its escape in ASCII."""
    return letter.encode("unicode_escape").decode("ascii")


def quoted(text: str, limit: int = _LONGEST_NAME) -> str:
    """Return text in quotes, escaped and cut, so that it can neither flood nor colour a terminal."""
    if len(text) <= limit:
        return repr(text)
    return f"{text[:limit]!r}... ({len(text)} characters)"


def plain(text: str) -> str:
    """Return text as it is if it is printable and not too long, otherwise as `quoted` does."""
    return text if text.isprintable() and len(text) <= _LONGEST_PLAIN else quoted(text)
