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
        alphabet = byte_alphabet()
        if all(character in alphabet for character in token):
            return bytes(alphabet[character] for character in token)
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
