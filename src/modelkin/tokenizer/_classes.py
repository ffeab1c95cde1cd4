"""The text of a token: how it is shown, and which script it is in."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from modelkin.untrusted import visible

CLASSES = (
    "ASCII letters",
    "Latin",
    "Cyrillic",
    "Greek",
    "Arabic",
    "Hebrew",
    "Devanagari",
    "Thai",
    "Han",
    "Kana",
    "Hangul",
    "other letters",
    "mixed letters",
    "digits",
    "punctuation",
    "whitespace",
    "bytes",
)
"""All classes. ``mixed letters`` has several scripts, ``bytes`` is part of a character: not valid UTF-8."""
_SCRIPTS = {
    "LATIN": "Latin",
    "CYRILLIC": "Cyrillic",
    "GREEK": "Greek",
    "ARABIC": "Arabic",
    "HEBREW": "Hebrew",
    "DEVANAGARI": "Devanagari",
    "THAI": "Thai",
    "CJK": "Han",
    "IDEOGRAPHIC": "Han",
    "HIRAGANA": "Kana",
    "KATAKANA": "Kana",
    "KATAKANA-HIRAGANA": "Kana",
    "HANGUL": "Hangul",
}
_WIDTHS = ("FULLWIDTH ", "HALFWIDTH ", "MODIFIER LETTER ")
_LONGEST = 40
"""Characters of a token that are shown, so that it fits a column of a table."""


def shown(token: bytes) -> str:
    r"""Return a token as short printable text: ``' the'`` stays, a broken character becomes ``\xec\x95``.

    Examples
    --------
    >>> shown(b" the"), shown(b"\n"), shown(b"\xec\x95")
    (' the', '\\n', '\\xec\\x95')
    """
    text = visible(token[: 4 * _LONGEST].decode("utf-8", "backslashreplace"))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def token_class(token: bytes) -> str:
    r"""Return the class of a token, one of `CLASSES`.

    Examples
    --------
    >>> token_class(" the".encode()), token_class("안녕".encode()), token_class(b"\xec\x95")
    ('ASCII letters', 'Hangul', 'bytes')
    """
    if token.isascii():
        return _ascii_class(token)
    try:
        text = token.decode("utf-8").strip()
    except UnicodeDecodeError:
        return "bytes"
    scripts = {script for character in text if (script := _script(character)) is not None}
    if not scripts:
        if not text:
            return "whitespace"
        return "digits" if all(character.isnumeric() for character in text) else "punctuation"
    if scripts == {"Han", "Kana"}:
        return "Kana"  # Japanese words are written with both
    if len(scripts) > 1:
        return "mixed letters"
    return scripts.pop()


def census(tokens: Iterable[bytes]) -> dict[str, int]:
    """Count tokens by class, in the order of `CLASSES`; classes without tokens are left out."""
    counts = Counter(map(token_class, tokens))
    return {name: counts[name] for name in CLASSES if counts[name]}


def _ascii_class(token: bytes) -> str:
    text = token.strip()
    if not text:
        # A single control character is a byte rather than text.
        return "whitespace" if token else "bytes"
    if any(65 <= byte <= 90 or 97 <= byte <= 122 for byte in text):
        return "ASCII letters"
    if text.isdigit():
        return "digits"
    return "bytes" if all(byte < 32 or byte == 127 for byte in text) else "punctuation"


@lru_cache(maxsize=1 << 16)
def _script(character: str) -> str | None:
    """Return the script of a letter; None for anything else. Marks belong to the letters they follow."""
    if not unicodedata.category(character).startswith("L"):
        return None
    name = unicodedata.name(character, "")
    for width in _WIDTHS:
        name = name.removeprefix(width)
    return _SCRIPTS.get(name.split(" ", 1)[0], "other letters")
