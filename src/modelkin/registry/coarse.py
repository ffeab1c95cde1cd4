"""The first pass over all fingerprints: their signs alone, one bit a number, each row read once.

It only chooses who is looked at again: a score counts equal signs and is no p-value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.fingerprint import Fingerprint
from modelkin.fingerprint.recipe import (
    BLOCK_BYTES,
    CODE_BYTES,
    DIMENSION_KINDS,
    GRAM_BYTES,
    SLOTS,
    UNIT_KINDS,
    slot_numbers,
)

Words = npt.NDArray[np.uint64]
Scores = npt.NDArray[np.float32]

N_WORDS = CODE_BYTES // 8
LEAST_SCORE = 4.5
"""Of a block or a sum, in standard deviations of unrelated codes: one row in five thousand reaches it by
chance. What the exact test finds at 10**-14 has at least 9 at 8 bits, and about two thirds of it here."""
LEAST_GRAM = 0.33
"""Correlation of signs of the Gram matrices of tokens, as of a cosine of 0.5."""
TILE_ROWS = 2_048
"""7.6 MB of codes: they stay near the processor while all their blocks are looked at."""
_CROSSED = ("mlp",)
"""Kinds of blocks that are held against all layers, for models of changed depth. One is enough: a copy in
other coordinates comes through by its tokens."""
_GRAM_START = BLOCK_BYTES // 64
"""First word of the signs of the Gram matrix of tokens."""


def tiled(codes: bytes) -> bytes:
    """Turn whole codes, one after another, into tiles of rows: first words of all rows, second words, ...

    In this order one block of all rows of a tile is compared and counted along the memory, three times as
    fast as row by row. The last tile is as short as what is left.
    """
    rows = np.frombuffer(codes, np.uint64).reshape(-1, N_WORDS)
    return b"".join(
        np.ascontiguousarray(rows[start : start + TILE_ROWS].T).tobytes()
        for start in range(0, len(rows), TILE_ROWS)
    )


def tiles(table: npt.NDArray[np.uint64]) -> Iterator[Words]:
    """Yield the tiles of a table, (words, rows) each, without copying."""
    step = TILE_ROWS * N_WORDS
    for start in range(0, len(table), step):
        yield table[start : start + step].reshape(N_WORDS, -1)


@dataclass(frozen=True, slots=True, eq=False)
class _CoarseCell:
    slots: tuple[int, int]
    words: slice
    query: Words
    mask: Words | None
    n_bits: int
    sigma: float
    """Standard deviation of the score of unrelated blocks; above 1 where features go together."""


class _Workspace:
    """Memory of one thread, so that none is asked for inside the loop."""

    def __init__(self, n_rows: int) -> None:
        self.differ = np.empty((32, n_rows), np.uint64)
        self.counts = np.empty((32, n_rows), np.uint8)
        self.pairs = np.empty((16, n_rows), np.uint8)
        self.fours = np.empty((8, n_rows), np.uint16)

    def distance(self, rows: Words, query: Words, mask: Words | None) -> npt.NDArray[np.uint16]:
        """Count the bits in which rows differ from the query."""
        n, half, quarter = len(rows), len(rows) // 2, len(rows) // 4
        differ, counts = self.differ[:n], self.counts[:n]
        np.bitwise_xor(rows, query, out=differ)
        if mask is not None:
            np.bitwise_and(differ, mask, out=differ)
        np.bitwise_count(differ, out=counts)
        # Two counts fit into a byte, four do not.
        np.add(counts[:half], counts[half:], out=self.pairs[:half])
        np.add(self.pairs[:quarter], self.pairs[quarter:half], out=self.fours[:quarter], dtype=np.uint16)
        return np.asarray(np.add.reduce(self.fours[:quarter], axis=0, dtype=np.uint16))


class CodeQuery:
    """The code of one model, ready to be held against others."""

    def __init__(self, made: Fingerprint) -> None:
        code = np.frombuffer(made.code(), np.uint64)
        used = np.zeros(BLOCK_BYTES, np.bool_)
        for number, slot in enumerate(SLOTS):
            block = made.block(number)
            # A feature that models of this kind do not have would agree in all of them.
            both = np.asarray(block.any(axis=1))[:, None] & block.any(axis=0)
            used[slot.start : slot.stop] = both.reshape(-1)
        mask = np.packbits(used, bitorder="little").view(np.uint64)
        self._cells = list(_cells(code, mask, made))
        self._gram = code[_GRAM_START:, None] if made.token_gram else None

    def scores(self, tile: Words, space: _Workspace) -> tuple[Scores, Scores]:
        """Return the largest score of each row, and the correlation of its Gram matrix of tokens."""
        n_rows = tile.shape[1]
        nearest: dict[tuple[int, float], npt.NDArray[np.uint16]] = {}
        farthest: dict[tuple[int, float], npt.NDArray[np.uint16]] = {}
        sums = {kinds: np.zeros(n_rows, np.float32) for kinds in (UNIT_KINDS, DIMENSION_KINDS)}
        counted = dict.fromkeys(sums, 0)
        for cell in self._cells:
            distance = space.distance(tile[cell.words], cell.query, cell.mask)
            like = cell.n_bits, cell.sigma
            if like in nearest:
                np.minimum(nearest[like], distance, out=nearest[like])
                np.maximum(farthest[like], distance, out=farthest[like])
            else:
                nearest[like], farthest[like] = distance, distance.copy()
            if cell.slots[0] == cell.slots[1]:
                for kinds, total in sums.items():
                    if SLOTS[cell.slots[0]].kind in kinds:
                        total += _score(distance, *like)
                        counted[kinds] += 1
        best = np.zeros(n_rows, np.float32)
        for ends in (nearest, farthest):
            for like, distance in ends.items():
                np.maximum(best, np.abs(_score(distance, *like)), out=best)
        parts = [*((sums[kinds], counted[kinds]) for kinds in sums)]
        parts.append((sums[UNIT_KINDS] + sums[DIMENSION_KINDS], sum(counted.values())))
        for total, count in parts:
            if count > 1:
                np.maximum(best, np.abs(total) * np.float32(count**-0.5), out=best)
        if self._gram is None:
            return best, np.zeros(n_rows, np.float32)
        differ = space.distance(tile[_GRAM_START:], self._gram, None)
        return best, np.float32(1) - differ * np.float32(2 / GRAM_BYTES)


def _score(distance: npt.NDArray[np.uint16], n_bits: int, sigma: float) -> Scores:
    """Return by how many standard deviations more signs agree than half of them."""
    scale = np.float32(n_bits**-0.5 / sigma)
    return np.asarray((np.float32(n_bits) - np.float32(2) * distance) * scale)


def _sigma(block: npt.NDArray[np.int8]) -> float:
    """Return how much wider than that of independent features the scores of unrelated blocks scatter.

    Few layers have few gains, whose sums go together in all models of that depth.
    """
    used = block[block.any(axis=1)][:, block.any(axis=0)]
    signs = np.where(used > np.median(used, axis=0), 1.0, -1.0)
    together = signs.T @ signs / len(signs)
    # Chance alone makes correlations of 1/n.
    excess = float(np.sum(together**2)) / len(together) - (len(together) - 1) / len(signs)
    return float(round(max(1.0, excess) ** 0.5, 2))


def _cells(code: Words, mask: Words, made: Fingerprint) -> Iterator[_CoarseCell]:
    """Yield pairs of slots (ours, theirs), those with one of theirs together."""
    for number, slot in enumerate(SLOTS):
        mine = slot_numbers(slot.kind) if slot.kind in _CROSSED else (number,)
        for own in mine:
            if not made.slots[own].n_units:
                continue
            words = slice(SLOTS[own].start // 64, SLOTS[own].stop // 64)
            n_bits = int(np.bitwise_count(mask[words]).sum())
            sigma = _sigma(made.block(own))
            yield _CoarseCell(
                (own, number),
                slice(slot.start // 64, slot.stop // 64),
                (code[words] & mask[words])[:, None],
                None if n_bits == slot.n_bytes else mask[words][:, None],
                n_bits,
                sigma if sigma > 1.25 else 1.0,
            )


_Kept = tuple[npt.NDArray[np.intp], Scores, Scores]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoarseHits:
    """Rows that are worth a second look."""

    rows: npt.NDArray[np.intp]
    scores: Scores
    grams: Scores


def coarse_pass(
    query: CodeQuery, tables: Sequence[npt.NDArray[np.uint64]], *, n_threads: int = 2
) -> CoarseHits:
    """Hold a code against all rows of some tables, which may be memory-mapped. Each row is read once.

    Parameters
    ----------
    tables
        Codes in tiles, see `tiled`; rows are numbered through all of them.
    n_threads
        Threads that share the tiles.
    """
    jobs: list[tuple[int, Words]] = []
    first = 0
    for table in tables:
        for tile in tiles(table):
            jobs.append((first, tile))
            first += tile.shape[1]

    def look(some: Sequence[tuple[int, Words]]) -> list[_Kept]:
        found: list[_Kept] = []
        space: dict[int, _Workspace] = {}
        for start, tile in some:
            n_rows = tile.shape[1]
            if n_rows not in space:
                space[n_rows] = _Workspace(n_rows)
            scores, grams = query.scores(tile, space[n_rows])
            kept = np.flatnonzero((scores >= LEAST_SCORE) | (grams >= LEAST_GRAM))
            found.append((kept + start, scores[kept], grams[kept]))
        return found

    shares = [jobs[at::n_threads] for at in range(max(1, n_threads))]
    if len(jobs) < 2 or n_threads < 2:
        found = look(jobs)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            found = [item for made in pool.map(look, shares) for item in made]
    rows = np.concatenate([np.zeros(0, np.intp), *(item[0] for item in found)])
    scores, grams = (
        np.concatenate([np.zeros(0, np.float32), *(item[at] for item in found)]) for at in (1, 2)
    )
    order = np.argsort(rows, kind="stable")
    return CoarseHits(rows=rows[order], scores=scores[order], grams=grams[order])
