"""The first pass over all fingerprints: only their signs, one bit per number, each row read once.

It only chooses candidates for a second look: a score counts equal signs and is not a p-value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

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
    Kind,
    slot_numbers,
)

Words = npt.NDArray[np.uint64]
Scores = npt.NDArray[np.float32]
_Numbers = npt.NDArray[np.intp]

N_WORDS = CODE_BYTES // 8  # of 64 bits
LEAST_SCORE = 4.5
"""Of a block or a sum, in standard deviations of unrelated codes: one unrelated model of the zoo in 1,200
reaches it. What the exact test finds at 10**-14 has at least 8 at 8 bits, and about two thirds of it here;
the findings of the zoo have 10 and more."""
LEAST_GRAM = 0.33
"""Correlation of signs of the Gram matrices of tokens, as of a cosine of 0.5."""
TILE_ROWS = 8_192
"""30 MB of codes. The same word of that many rows is one run of memory: with 2,048 the pass takes 1.4 times
as long, and longer runs gain nothing."""
_LEAST_TILE = 4_096
"""Rows below which the rest of a table is combined with that of others: calls would cost more."""
_MOST_WORDS = 32
"""Words compared by one call; their differences stay in the caches until they are counted."""
_CROSSED: tuple[Kind, ...] = ("mlp",)
"""Kinds of blocks that are compared with all layers, for models of changed depth. One is enough: a copy in
other coordinates is found by its tokens."""
_CROSSED_WORDS = 8
"""Words of such a block, half of it: a fallback, as a copy keeps its embedding and gains in place."""
_CORRELATED = 1.25
"""Factor by which scores spread more because signs go together; less is what few codes show by chance."""
_GRAM_START = BLOCK_BYTES // 64
"""First word of the signs of the Gram matrix of tokens."""


def tiled(codes: bytes) -> bytes:
    """Turn consecutive whole codes into tiles of rows: first words of all rows, second words, ...

    In this order one block of all rows of a tile is contiguous in memory, which is three times as fast to
    compare as row by row. The last tile may be shorter.
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
class _CellGroup:
    """Some pairs of blocks that are compared by the same calls."""

    words: slice
    """Of a row."""
    query: Words
    """(pairs, words, 1)."""
    mask: Words | None
    crossed: bool
    """Whether all pairs are with one block of a row; otherwise each is with the next block."""


class Workspace:
    """Memory of one thread, so that none is allocated inside the loop."""

    def __init__(self) -> None:
        self._differ = np.empty(_MOST_WORDS * TILE_ROWS, np.uint64)
        self._counts = np.empty(_MOST_WORDS * TILE_ROWS, np.uint8)
        self._pairs = np.empty(_MOST_WORDS // 2 * TILE_ROWS, np.uint8)
        self._fours = np.empty(_MOST_WORDS // 4 * TILE_ROWS, np.uint16)

    def distance(self, tile: Words, group: _CellGroup) -> npt.NDArray[np.uint16]:
        """Count the bits in which the rows of a tile differ from the query: (pairs, rows)."""
        k, n, _ = group.query.shape
        n_rows = tile.shape[1]
        rows = tile[group.words].reshape(1 if group.crossed else k, n, n_rows)
        differ, counts, pairs, fours = (
            held[: k * words * n_rows].reshape(k, words, n_rows)
            for held, words in (
                (self._differ, n),
                (self._counts, n),
                (self._pairs, n // 2),
                (self._fours, n // 4),
            )
        )
        np.bitwise_xor(rows, group.query, out=differ)
        if group.mask is not None:
            np.bitwise_and(differ, group.mask, out=differ)
        np.bitwise_count(differ, out=counts)
        # Two counts fit into a byte, four do not.
        np.add(counts[:, : n // 2], counts[:, n // 2 :], out=pairs)
        np.add(pairs[:, : n // 4], pairs[:, n // 4 :], out=fours, dtype=np.uint16)
        return np.asarray(np.add.reduce(fours, axis=1, dtype=np.uint16))


class CodeQuery:
    """The code of one model, ready to be compared with others."""

    def __init__(self, made: Fingerprint) -> None:
        self.code = made.code()
        code = np.frombuffer(self.code, np.uint64)
        bits = np.unpackbits(code.view(np.uint8), bitorder="little")
        used = np.zeros(BLOCK_BYTES, np.bool_)
        sigmas: dict[int, float] = {}
        for number, slot in enumerate(SLOTS):
            block = made.block(number)
            units, features = np.asarray(block.any(axis=1)), np.asarray(block.any(axis=0))
            # A feature that models of this kind lack would agree in all of them.
            used[slot.start : slot.stop] = (units[:, None] & features).reshape(-1)
            if units.any():
                own = bits[slot.start : slot.stop].reshape(block.shape)
                sigmas[number] = _sigma(own[units][:, features])
        mask = np.packbits(used, bitorder="little").view(np.uint64)
        cells = [group for group in _slot_groups(made) if any(made.slots[own].n_units for own, _ in group)]
        self._groups = [_group(group, code, mask) for group in cells]
        pairs = [pair for group in cells for pair in group]
        scales = [_scale(mask, pair, sigmas.get(pair[0], 1.0)) for pair in pairs]
        # A score is how many bits over half agree, in standard deviations: linear in the distance.
        self._level = np.array([n * scale for n, scale in scales], np.float32)[:, None]
        self._slope = np.array([-2.0 * scale for _, scale in scales], np.float32)[:, None]
        self._sums = _sums(
            [scale > 0.0 and own == other for (own, other), (_, scale) in zip(pairs, scales, strict=True)],
            [SLOTS[own].kind for own, _ in pairs],
        )
        self._gram = (
            _CellGroup(slice(_GRAM_START, N_WORDS), code[None, _GRAM_START:, None], None, crossed=False)
            if made.token_gram
            else None
        )

    def scores(self, tile: Words, space: Workspace | None = None) -> tuple[Scores, Scores]:
        """Return the largest score of each row, and the correlation of its Gram matrix of tokens."""
        space = space or Workspace()
        n_rows = tile.shape[1]
        best = np.zeros(n_rows, np.float32)
        if self._groups:
            distance = np.concatenate([space.distance(tile, group) for group in self._groups])
            scores = np.multiply(distance, self._slope, dtype=np.float32)
            scores += self._level
            for places, share in self._sums:
                # Row by row. A matrix product would start its own threads and wait for them longer than
                # they work; and its order of summation depends on the size of a tile.
                total = scores[places[0]] + scores[places[1]]
                for place in places[2:]:
                    total += scores[place]
                np.maximum(best, np.abs(np.multiply(total, share, out=total), out=total), out=best)
            for row in scores:
                np.maximum(best, np.abs(row, out=row), out=best)
        if self._gram is None:
            return best, np.zeros(n_rows, np.float32)
        differ = space.distance(tile, self._gram)[0]
        return best, np.float32(1) - differ * np.float32(2 / GRAM_BYTES)

    def passing(self, tile: Words, space: Workspace | None = None) -> tuple[_Numbers, Scores, Scores]:
        """Return which rows of a tile are worth a second look, with their scores and correlations."""
        scores, grams = self.scores(tile, space)
        kept = np.flatnonzero((scores >= LEAST_SCORE) | (grams >= LEAST_GRAM))
        return kept, scores[kept], grams[kept]


def _slot_groups(made: Fingerprint) -> Iterator[list[tuple[int, int]]]:
    """Yield pairs of slots (ours, theirs): neighbours of one size, then crossed layers."""
    group: list[tuple[int, int]] = []
    for number, slot in enumerate(SLOTS):
        words = (len(group) + 1) * slot.n_bytes // 64
        if group and (slot.n_units != SLOTS[group[0][0]].n_units or words > _MOST_WORDS):
            yield group
            group = []
        group.append((number, number))
    yield group
    for kind in _CROSSED:
        numbers = slot_numbers(kind)
        for other in numbers:
            yield [(own, other) for own in numbers if own != other and made.slots[own].n_units]


def _words(own: int, other: int) -> tuple[slice, slice]:
    """Return which words of the query and of a row are compared."""
    n_words = SLOTS[own].n_bytes // 64 if own == other else _CROSSED_WORDS
    mine, theirs = SLOTS[own].start // 64, SLOTS[other].start // 64
    return slice(mine, mine + n_words), slice(theirs, theirs + n_words)


def _scale(mask: Words, pair: tuple[int, int], sigma: float) -> tuple[int, float]:
    """Return how many bits are compared, and the weight of one; 0 if we have no block."""
    n_bits = int(np.bitwise_count(mask[_words(*pair)[0]]).sum())
    return n_bits, n_bits**-0.5 / sigma if n_bits else 0.0


def _sums(equal: Sequence[bool], kinds: Sequence[str]) -> list[tuple[list[int], np.float32]]:
    """Return what is added up (units of equal layers, dimensions, both) and the weight of one then."""
    chosen = [
        [at for at, (same, kind) in enumerate(zip(equal, kinds, strict=True)) if same and kind in wanted]
        for wanted in (UNIT_KINDS, DIMENSION_KINDS, (*UNIT_KINDS, *DIMENSION_KINDS))
    ]
    return [(places, np.float32(len(places) ** -0.5)) for places in chosen if len(places) > 1]


def _group(pairs: Sequence[tuple[int, int]], code: Words, mask: Words) -> _CellGroup:
    places = [_words(*pair) for pair in pairs]
    own = np.stack([mask[mine] for mine, _ in places])[:, :, None]
    return _CellGroup(
        slice(places[0][1].start, places[-1][1].stop),
        np.stack([code[mine] for mine, _ in places])[:, :, None] & own,
        None if bool((own == ~np.uint64(0)).all()) else own,
        crossed=pairs[0][0] != pairs[0][1],
    )


def _sigma(bits: npt.NDArray[np.uint8]) -> float:
    """Return how much more the scores of unrelated blocks vary than with independent features.

    Few layers have few gains, whose sums are correlated in all models of that depth.
    """
    signs = bits * 2.0 - 1.0
    together = signs.T @ signs / len(signs)
    # Chance alone gives correlations of 1/n.
    excess = float(np.sum(together**2)) / len(together) - (len(together) - 1) / len(signs)
    found = float(round(max(1.0, excess) ** 0.5, 2))
    return found if found > _CORRELATED else 1.0


_Kept = tuple[_Numbers, Scores, Scores]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoarseHits:
    """Rows that are worth a second look."""

    rows: _Numbers
    scores: Scores
    grams: Scores


def coarse_pass(
    query: CodeQuery, tables: Iterable[tuple[int, npt.NDArray[np.uint64]]], *, n_threads: int = 2
) -> CoarseHits:
    """Compare a code with all rows of some tables. Each row is read once, each table when its turn comes.

    No more tables are open at a time than there are threads, so memory does not grow with their number. A
    table is the number of its first row, and codes in tiles, see `tiled`; they may be memory-mapped.
    """
    waiting, turn = _full_tiles(tables), Lock()

    def look(_: int) -> list[_Kept]:
        found: list[_Kept] = []
        space = Workspace()
        while True:
            with turn:
                job = next(waiting, None)
            if job is None:
                return found
            numbers, tile = job
            kept, scores, grams = query.passing(tile, space)
            if len(kept):
                found.append((numbers[kept], scores, grams))

    if n_threads < 2:
        found = look(0)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            found = [item for made in pool.map(look, range(n_threads)) for item in made]
    rows = np.concatenate([np.zeros(0, np.intp), *(item[0] for item in found)])
    scores, grams = (
        np.concatenate([np.zeros(0, np.float32), *(item[at] for item in found)]) for at in (1, 2)
    )
    order = np.argsort(rows, kind="stable")
    return CoarseHits(rows=rows[order], scores=scores[order], grams=grams[order])


def _full_tiles(tables: Iterable[tuple[int, npt.NDArray[np.uint64]]]) -> Iterator[tuple[_Numbers, Words]]:
    """Yield row numbers and tiles. Small tiles, from registries that grew in small steps, are combined."""
    held: list[tuple[_Numbers, Words]] = []
    n_held = 0
    for first, table in tables:
        start = first
        for tile in tiles(table):
            n_rows = tile.shape[1]
            numbers = np.arange(start, start + n_rows, dtype=np.intp)
            start += n_rows
            if n_rows >= _LEAST_TILE:
                yield numbers, tile
                continue
            if n_held + n_rows > TILE_ROWS:
                yield _joined(held)
                held, n_held = [], 0
            held.append((numbers, tile))
            n_held += n_rows
    if held:
        yield _joined(held)


def _joined(held: list[tuple[_Numbers, Words]]) -> tuple[_Numbers, Words]:
    if len(held) == 1:
        return held[0]
    return np.concatenate([item[0] for item in held]), np.concatenate([item[1] for item in held], axis=1)
