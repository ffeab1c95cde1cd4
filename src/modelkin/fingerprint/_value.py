"""The fingerprint of a model: a fixed number of bytes, and what must be known to read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from modelkin.errors import FormatError
from modelkin.message import Message, say

from .recipe import BLOCK_BYTES, CODE_BYTES, DATA_BYTES, N_FEATURES, RECIPE, SLOTS

FINGERPRINT_SCHEMA = "modelkin.fingerprint/1"
_LONGEST_NAME = 4_096
"""Characters of a reference: the longest path on most systems."""
_LONGEST_WORD = 256
"""Characters of anything else that is said about a model."""
_LARGEST = 2**53
"""Parameters, or whatever else is counted: what JSON and a 64-bit column hold exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRecord:
    """What one slot holds."""

    kind: str
    layer: int | None
    """Of the model; None for blocks outside layers, and for empty slots."""
    n_units: int
    """Units in use; 0 if there is no block."""
    marks: tuple[str, ...] = ()
    """``tied``, ``sorted``: signs that the order may not be arbitrary."""
    reason: Message | None = None
    """Why there is no block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FingerprintedModel:
    """Which model a fingerprint was made from."""

    ref: str
    kind: str
    revision: str | None
    family: str | None
    model_type: str | None
    layers: int | None
    hidden_size: int | None
    vocab_size: int | None
    parameters: int
    format: str

    def check(self, where: str) -> None:
        """Refuse what no registry can hold: this comes from whoever sends a fingerprint."""
        counts = (self.layers, self.hidden_size, self.vocab_size, self.parameters)
        if not all(count is None or 0 <= count < _LARGEST for count in counts):
            raise FormatError(where, say("problem.model-shape"))
        words = (self.kind, self.revision, self.family, self.model_type, self.format)
        if len(self.ref) > _LONGEST_NAME or any(len(word or "") > _LONGEST_WORD for word in words):
            raise FormatError(where, say("problem.model-words", most=_LONGEST_WORD))
        try:
            "".join(word or "" for word in (self.ref, *words)).encode()
        except UnicodeEncodeError as error:
            raise FormatError(where, say("problem.model-name-utf8")) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """A sketch of a model's weights that carries the exact test."""

    recipe: str
    model: FingerprintedModel
    slots: tuple[SlotRecord, ...]
    token_gram: bool
    """Whether there is a Gram matrix of tokens."""
    data: bytes = field(repr=False)
    """All blocks, then the Gram matrix of tokens: one signed byte per number."""

    @property
    def digest(self) -> str:
        """Identifies the numbers: equal for two models with the same sketch."""
        return blake2b(self.data, digest_size=16).hexdigest()

    @property
    def n_blocks(self) -> int:
        """Number of slots that hold a block."""
        return sum(slot.n_units > 0 for slot in self.slots)

    def block(self, number: int) -> npt.NDArray[np.int8]:
        """Return the block of a slot: units by features."""
        return slot_block(self.data, number)

    def gram(self) -> npt.NDArray[np.float32]:
        """Return the Gram matrix of tokens as one vector."""
        return np.frombuffer(self.data, np.int8)[BLOCK_BYTES:].astype(np.float32)

    def code(self) -> bytes:
        """Return the signs of all blocks, one bit each."""
        return code_of(self.data)

    def check(self, where: str) -> None:
        """Refuse a fingerprint made by another recipe, or damaged."""
        if self.recipe != RECIPE:
            raise FormatError(
                where,
                say("problem.fingerprint-recipe", recipe=RECIPE, got=repr(self.recipe[:20])),
                hint=say("hint.make-again"),
            )
        if len(self.data) != DATA_BYTES or len(self.slots) != len(SLOTS):
            raise FormatError(
                where,
                say(
                    "problem.fingerprint-bytes",
                    n=DATA_BYTES,
                    blocks=len(SLOTS),
                    got=len(self.data),
                    got_blocks=len(self.slots),
                ),
            )
        wrong = [slot.kind for slot, known in zip(self.slots, SLOTS, strict=True) if slot.kind != known.kind]
        if wrong:
            raise FormatError(
                where, say("problem.fingerprint-blocks", recipe=RECIPE, got=repr(wrong[0][:20]))
            )
        for slot, known in zip(self.slots, SLOTS, strict=True):
            layer = slot.layer is None or 0 <= slot.layer < _LARGEST
            if not (layer and 0 <= slot.n_units <= known.n_units and set(slot.marks) <= {"tied", "sorted"}):
                raise FormatError(where, say("problem.block-described", kind=repr(slot.kind)))
        self.model.check(where)


def slot_block(data: bytes | memoryview, number: int) -> npt.NDArray[np.int8]:
    """Return the block of a slot: units by features."""
    slot = SLOTS[number]
    return np.frombuffer(data, np.int8)[slot.start : slot.stop].reshape(slot.n_units, N_FEATURES)


def _above_median(block: npt.NDArray[np.int8], used: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Say which numbers are above the median of their feature: twice a number above the two in the middle."""
    ordered, n = np.sort(used, axis=0).astype(np.int16), len(used)
    return np.asarray(2 * block.astype(np.int16) > ordered[(n - 1) // 2] + ordered[n // 2])


def code_of(data: bytes) -> bytes:
    """Return which numbers are above the median of their feature, one bit each.

    A feature then has as many ones as zeros, so that half of the bits of unrelated blocks agree, however
    skewed their numbers are. A missing number has the bit 0.
    """
    numbers = np.frombuffer(data, np.int8)
    above = np.zeros(8 * CODE_BYTES, np.bool_)
    for number, slot in enumerate(SLOTS):
        block = slot_block(data, number)
        used = np.asarray(block.any(axis=1))
        if used.any():
            found = _above_median(block, block[used])
            above[slot.start : slot.stop] = (found & used[:, None]).reshape(-1)
    gram = numbers[BLOCK_BYTES:]
    if gram.any():
        above[BLOCK_BYTES:DATA_BYTES] = gram > np.median(gram)
    return np.packbits(above, bitorder="little").tobytes()
