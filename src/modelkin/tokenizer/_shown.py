"""How tokens are shown: strangers chose them, and many are no text at all."""

from __future__ import annotations

from modelkin.untrusted import visible

_LONGEST = 40


def shown(token: bytes) -> str:
    r"""Return a token as short printable text: ``' the'`` stays, a broken character becomes ``\xec\x95``.

    Examples
    --------
    >>> shown(b" the"), shown(b"\n"), shown(b"\xec\x95")
    (' the', '\\n', '\\xec\\x95')
    """
    text = visible(token[: 4 * _LONGEST].decode("utf-8", "backslashreplace"))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
