"""Many fingerprints against many: z of all pairs of blocks by a few matrix products.

It only says which pairs are worth the exact test. A finding needs |z| of about 8 in a block or a sum; pairs
far below that in all of them cannot become one, and these are most pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ._value import Fingerprint
from .recipe import BLOCK_BYTES, DIMENSION_KINDS, N_FEATURES, SLOTS, UNIT_KINDS, Kind, slot_numbers

Numbers = npt.NDArray[np.float32]
WORTH_Z = 4.5
"""|z| of a block from which a pair is tested: one block in 150,000 of unrelated models reaches it. A
finding needs a bound below 10**-14, where a normal tail has |z| of 7.7."""
_WORTH_Z_ROUGHLY = 3.5
"""The same for sums, and for blocks whose units differ between the models: z is then only approximate."""
_FEWEST_UNITS = 8
"""As for the exact test."""
_GRAM_MARGIN = 0.01
"""Margin below the requested cosine: the exact test decides what is listed."""
_SUMS: tuple[tuple[Kind, ...], ...] = (UNIT_KINDS, ("val",), DIMENSION_KINDS)


@dataclass(frozen=True, slots=True, eq=False)
class _StackedBlocks:
    """The blocks of one slot of many fingerprints."""

    rows: Numbers
    """(fingerprints, units times features), centred over the used units."""
    covariances: Numbers
    used: Numbers
    """(fingerprints, units): 1 if a unit is used."""
    layers: npt.NDArray[np.int64]
    """Of each model; -1 without a block or a layer."""


class FingerprintStack:
    """Some fingerprints, ready to be compared with others all at once."""

    def __init__(self, made: Sequence[Fingerprint]) -> None:
        self.made = tuple(made)
        data = np.frombuffer(b"".join(item.data for item in self.made), np.int8)
        self._data = data.reshape(len(self.made), -1)
        self._blocks = [self._stacked(number) for number in range(len(SLOTS))]
        self._grams = self._data[:, BLOCK_BYTES:].astype(np.float32)
        has = np.array([item.token_gram for item in self.made], np.bool_)
        sizes = np.linalg.norm(self._grams, axis=1)
        self._grams *= np.where(has & (sizes > 0.0), 1.0 / np.where(sizes > 0.0, sizes, 1.0), 0.0)[:, None]

    def _stacked(self, number: int) -> _StackedBlocks:
        slot = SLOTS[number]
        rows = self._data[:, slot.start : slot.stop].astype(np.float32)
        rows = rows.reshape(len(self.made), slot.n_units, N_FEATURES)
        used: Numbers = np.asarray(rows.any(axis=2), np.float32)
        counts = used.sum(axis=1)
        means = rows.sum(axis=1) / np.maximum(counts, 1.0)[:, None]
        rows -= means[:, None, :] * used[:, :, None]
        covariances = np.matmul(rows.transpose(0, 2, 1), rows)
        layers = [item.slots[number].layer for item in self.made]
        return _StackedBlocks(
            rows.reshape(len(rows), -1),
            covariances.reshape(len(rows), -1),
            used,
            np.array([-1 if layer is None else layer for layer in layers], np.int64),
        )

    def worth(self, other: FingerprintStack, *, least_gram: float) -> npt.NDArray[np.bool_]:
        """Return which pairs (ours, theirs) are worth the exact test.

        From the cosine `least_gram` of Gram matrices of tokens on, a pair is always wanted.
        """
        found: npt.NDArray[np.bool_] = self._grams @ other._grams.T >= least_gram - _GRAM_MARGIN
        totals = {kinds: np.zeros(found.shape, np.float32) for kinds in _SUMS}
        counts = {kinds: np.zeros(found.shape, np.float32) for kinds in _SUMS}
        for kind in dict.fromkeys(slot.kind for slot in SLOTS):
            for first in slot_numbers(kind):
                for second in slot_numbers(kind):
                    mine, theirs = self._blocks[first], other._blocks[second]
                    z, same_units = _scores(mine, theirs)
                    size = np.abs(z)
                    found |= size >= np.where(same_units, WORTH_Z, _WORTH_Z_ROUGHLY)
                    facing = (mine.layers[:, None] == theirs.layers) & (size > 0.0)
                    for kinds in _SUMS:
                        if kind in kinds:
                            totals[kinds] += np.where(facing, z, 0.0)
                            counts[kinds] += facing
        for total, count in (
            *((totals[kinds], counts[kinds]) for kinds in _SUMS),
            (sum(totals.values()), sum(counts.values())),
        ):
            found |= np.abs(total) >= _WORTH_Z_ROUGHLY * np.sqrt(np.maximum(count, 1.0))
        return found


def _scores(mine: _StackedBlocks, theirs: _StackedBlocks) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return z of all pairs of two stacks of blocks, and whether it is exact: over the same units."""
    common = mine.used @ theirs.used.T
    squares = mine.covariances @ theirs.covariances.T
    tested = (common >= _FEWEST_UNITS) & (squares > 0.0)
    scale = np.sqrt(np.where(tested, common - 1.0, 0.0) / np.where(tested, squares, 1.0))
    n_mine, n_theirs = mine.used.sum(axis=1), theirs.used.sum(axis=1)
    same = (common == n_mine[:, None]) & (common == n_theirs)
    return np.asarray((mine.rows @ theirs.rows.T) * scale, np.float32), same
