"""What a token stands for, as bytes: so that tokenizers of different kinds can be compared."""

from __future__ import annotations

import re
from functools import cache

_SPACE = "▁"  # the sign with which SentencePiece writes a space
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def token_bytes(token: str, *, byte_level: bool) -> bytes | None:
    """Return the bytes a token stands for; None for an empty one."""
    if not token:
        return None
    if byte_level:
        try:
            return token.translate(_bytes_of_letters()).encode("latin-1")
        except UnicodeEncodeError:
            pass  # some letter stands for no byte
    if is_byte_token(token):
        return bytes([int(token[3:5], 16)])
    return token.replace(_SPACE, " ").encode("utf-8", "surrogatepass")


def is_byte_token(token: str) -> bool:
    """Say whether a token is SentencePiece's way to write one byte: ``<0x0A>``."""
    return _BYTE_TOKEN.fullmatch(token) is not None


@cache
def byte_alphabet() -> dict[str, int]:
    """Return the printable stand-ins that byte-level BPE uses for the 256 bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {
        **{chr(byte): byte for byte in plain},
        **{chr(256 + number): byte for number, byte in enumerate(others)},
    }


@cache
def _bytes_of_letters() -> dict[int, int]:
    """Return the alphabet for `str.translate`; what is not in it becomes, or stays, more than a byte."""
    alphabet = {ord(letter): byte for letter, byte in byte_alphabet().items()}
    return {**dict.fromkeys(range(256), 0xFFFF), **alphabet}
