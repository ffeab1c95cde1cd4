"""Files that are computed while they are read: a model of any size costs neither disk nor memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from ._bfloat16 import to_bfloat16

Fill = Literal["zeros", "BF16", "F16", "F32"]
"""What the data are: zeros, or normally distributed weights of a dtype."""

# Four times a prime: whole elements of every dtype, and no tensor whose size is a power of two meets the same
# phase again, so that two layers do not hold equal numbers.
_PERIOD = 4 * 1_048_583
# The usual initialiser_range of language models; its square is far from the underflow of float16.
_DEVIATION = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualFile:
    """A file of `size` bytes: `head` as given, then data that depend on `fill`, `seed` and position only.

    The data repeat every 4 MB. Two files are equal when all their fields are.
    """

    size: int
    head: bytes = b""
    fill: Fill = "BF16"
    seed: int = 0
    phase: int = 0
    """How many bytes of the data come before this file, so that shards go on where others end."""

    def __post_init__(self) -> None:
        if self.size < len(self.head):
            raise ValueError(f"size must be at least len(head) = {len(self.head)}, got {self.size}")

    def pieces(self, start: int, stop: int) -> Iterator[memoryview]:
        """Yield the bytes from `start` to before `stop`, in pieces that are views, not copies."""
        stop = min(stop, self.size)
        if start < len(self.head):
            yield memoryview(self.head)[start : min(stop, len(self.head))]
            start = len(self.head)
        if start >= stop:
            return
        block = memoryview(_block(self.fill, self.seed))
        while start < stop:
            at = (start - len(self.head) + self.phase) % len(block)
            piece = block[at : at + stop - start]
            yield piece
            start += len(piece)

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from `start` to before `stop`."""
        return b"".join(self.pieces(start, stop))

    @property
    def sha256(self) -> str:
        """An identity that looks like a digest. It is made from the fields: the bytes would take too long."""
        fields = (self.size, hashlib.sha256(self.head).hexdigest(), self.fill, self.seed, self.phase)
        return hashlib.sha256(repr(fields).encode()).hexdigest()


@lru_cache(maxsize=32)
def _block(fill: Fill, seed: int) -> bytes:
    if fill == "zeros":
        return bytes(_PERIOD)
    itemsize = 4 if fill == "F32" else 2
    weights = np.random.default_rng(seed).standard_normal(_PERIOD // itemsize, dtype=np.float32)
    weights *= np.float32(_DEVIATION)
    match fill:
        case "BF16":
            return to_bfloat16(weights).tobytes()
        case "F16":
            return weights.astype("<f2").tobytes()
        case "F32":
            return weights.astype("<f4").tobytes()
