"""Names of strangers as plain text: what cannot be seen is shown as an escape."""

from __future__ import annotations


def visible(text: str, *, keep: str = "") -> str:
    r"""Show control, invisible and direction-changing characters as escapes: ``\x1b``, ``\u202e``.

    Names of tensors, files, tokens and models are written by strangers. Unescaped they could clear a screen,
    hide a line or reverse it.

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
