"""The recipe of a fingerprint: which blocks it has, where each lies, and the public signs it projects with.

Everything here is part of what a fingerprint means. A change makes fingerprints incomparable with older ones,
so it gets a new number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import shake_256
from typing import Literal

import numpy as np
import numpy.typing as npt

RECIPE = "1"
Kind = Literal["mlp", "tok", "gram", "val", "experts", "norms", "emb", "head"]
Signs = npt.NDArray[np.float32]

N_LAYERS = 5
"""Layers that have blocks."""
N_UNITS, N_FEATURES = 64, 16
"""A block of 64 by 16 finds a shared cosine of 0.3 in one layer; half of both would lose weak relatives."""
N_DIMENSIONS = 128
"""Residual dimensions of gains, embedding and head."""
N_TOKENS = 256
"""Rows of each table: 2 MB of a 7B model."""
FIRST_TOKEN = 259
"""Rows of tokens begin here: after special tokens and single bytes, where vocabularies built by counting have
common pieces."""
N_BUNDLES = 64
"""Four tokens in each, so that a tokenizer with other tokens among them keeps most bundles alike."""
N_COMPONENTS = 4
"""Principal components removed from the Gram matrix of tokens: all language models have those."""
GRAM_BYTES = N_BUNDLES * (N_BUNDLES - 1) // 2
"""Numbers above the diagonal of the Gram matrix of tokens."""

LAYER_KINDS: tuple[Kind, ...] = ("mlp", "tok", "gram", "val")
UNIT_KINDS: tuple[Kind, ...] = ("mlp", "tok", "gram")
"""Blocks of one layer over the same units."""
DIMENSION_KINDS: tuple[Kind, ...] = ("norms", "emb", "head")
"""Blocks over the same dimensions of the residual stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place for one block."""

    kind: Kind
    place: int
    """Which of the chosen layers; 0 for blocks outside layers."""
    n_units: int
    start: int
    """Its first byte."""

    @property
    def n_bytes(self) -> int:
        """Numbers of the block, of one byte each."""
        return self.n_units * N_FEATURES

    @property
    def stop(self) -> int:
        """Just after its last byte."""
        return self.start + self.n_bytes


def _slots() -> tuple[Slot, ...]:
    wanted = [(kind, place, N_UNITS) for place in range(N_LAYERS) for kind in LAYER_KINDS]
    wanted.append(("experts", 0, N_UNITS))
    wanted += [(kind, 0, N_DIMENSIONS) for kind in DIMENSION_KINDS]
    slots, start = [], 0
    for kind, place, n_units in wanted:
        slots.append(Slot(kind=kind, place=place, n_units=n_units, start=start))
        start = slots[-1].stop
    return tuple(slots)


SLOTS = _slots()
BLOCK_BYTES = SLOTS[-1].stop
"""Bytes of all blocks together; the Gram matrix of tokens follows."""
DATA_BYTES = BLOCK_BYTES + GRAM_BYTES
CODE_BYTES = BLOCK_BYTES // 8 + 256
"""The signs of all numbers, one bit each; those of the Gram matrix of tokens are padded to 256 bytes."""


def slot_numbers(kind: Kind) -> tuple[int, ...]:
    """Return the numbers of the slots of a kind."""
    return tuple(number for number, slot in enumerate(SLOTS) if slot.kind == kind)


def chosen_layers(n_layers: int) -> tuple[int, ...]:
    """Choose layers at absolute and relative depths, so that some survive a changed depth.

    >>> chosen_layers(32), chosen_layers(4)
    ((0, 1, 2, 16, 31), (0, 1, 2, 3))
    """
    if n_layers <= N_LAYERS:
        return tuple(range(n_layers))
    return 0, 1, 2, n_layers // 2, n_layers - 1


def reading_order(n_places: int) -> tuple[int, ...]:
    """Return places of chosen layers, starting with those that are read if bytes are short."""
    return tuple(sorted(range(n_places), key=lambda place: (0, 3, 2, 4, 1).index(place)))


@lru_cache(maxsize=16)
def number_signs(label: str, count: int) -> Signs:
    """Return public signs for numbered things: (count, features).

    A longer table begins with a shorter one.
    """
    digest = shake_256(f"modelkin-fingerprint-{RECIPE}|{label}".encode()).digest(count * N_FEATURES // 8)
    return _signs(digest).reshape(count, N_FEATURES)


def text_signs(texts: tuple[bytes, ...]) -> Signs:
    """Return public signs for things with a text, such as tokens: (texts, features)."""
    rows = [_signs(_hashed("token", text, N_FEATURES // 8)) for text in texts]
    return np.stack(rows) if rows else np.zeros((0, N_FEATURES), np.float32)


def text_bundles(texts: tuple[bytes, ...]) -> tuple[npt.NDArray[np.intp], Signs]:
    """Return which bundle each text belongs to, and the sign that it has there."""
    hashed = [_hashed("bundle", text, 2) for text in texts]
    places = np.array([item[0] % N_BUNDLES for item in hashed], np.intp)
    return places, np.array([1.0 if item[1] & 1 else -1.0 for item in hashed], np.float32)


def _hashed(label: str, text: bytes, n_bytes: int) -> bytes:
    return shake_256(f"modelkin-fingerprint-{RECIPE}|{label}|".encode() + text).digest(n_bytes)


def _signs(digest: bytes) -> Signs:
    bits = np.unpackbits(np.frombuffer(digest, np.uint8), bitorder="little")
    return bits.astype(np.float32) * np.float32(2) - np.float32(1)
