"""Which models of a registry are relatives: signs choose the pairs, the exact test accepts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, product
from operator import itemgetter
from typing import Any

import numpy as np

from modelkin.fingerprint import Fingerprint, FingerprintProduct, FingerprintRows, fingerprint_product
from modelkin.message import say
from modelkin.progress import Progress
from modelkin.registry.cluster import blocks_on
from modelkin.registry.coarse import CodeQuery, Workspace, tiled, tiles
from modelkin.registry.pairs import blocks_of_pairs
from modelkin.registry.scanning import LEAST_COSINE, LOG10_FOUND, LOG10_SIZE

MOST_EXHAUSTIVE = 64
"""Up to this many models, all pairs get the exact test, some 2,000 at 2 to 8 ms each. Beyond, the signs of
`scan` choose: on the zoo they lose no pair that the exact test accepts."""
BLOCK = 1_024
"""Models on each side of a block of pairs: a few seconds of work for 40 MB, and half a million blocks for
a million models."""
_HELD = 16
"""Blocks kept ready on one machine, 40 MB each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """Two tested fingerprints, by index."""

    first: int
    second: int
    found: bool
    proposed: bool
    """Whether the tokens look alike: not evidence."""
    log10_p: float
    likeness: float
    token_gram: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllKin:
    """What the pairs of a registry say."""

    n_tested: int
    kin: tuple[Kin, ...]
    """Accepted or proposed ones."""


def all_kin(
    made: Sequence[Fingerprint],
    progress: Progress,
    *,
    client: Any = None,  # noqa: ANN401  a client of Dask
    block: int = BLOCK,
) -> AllKin:
    """Test the pairs of some fingerprints; every p-value is corrected for the fixed size of a registry.

    The client of a cluster makes it do the work; the result is the same.
    """
    hold = _few if len(made) <= MOST_EXHAUSTIVE else KinBlock
    blocks: Iterator[AllKin] = (
        _blocks_here(hold, made, block)
        if client is None
        else blocks_on(client, hold, block_kin, made, block=block)
    )
    n_blocks = sum(1 for _ in blocks_of_pairs(len(made), block))
    found: list[Kin] = []
    n_tested = 0
    for number, item in enumerate(blocks):
        progress.count(number, n_blocks, say("atlas-pairs"))
        n_tested += item.n_tested
        found += item.kin
    return AllKin(n_tested=n_tested, kin=tuple(sorted(found, key=lambda kin: (kin.first, kin.second))))


def _blocks_here(
    hold: Callable[[Sequence[Fingerprint]], KinBlock], made: Sequence[Fingerprint], block: int
) -> Iterator[AllKin]:
    """Do the blocks of a cluster locally, one after another."""
    held: dict[int, KinBlock] = {}

    def ready(start: int) -> KinBlock:
        if start not in held:
            if len(held) >= _HELD:
                held.pop(next(iter(held)))
            held[start] = hold(made[start : start + block])
        return held[start]

    for first, second in blocks_of_pairs(len(made), block):
        mine, theirs = ready(first), ready(second)
        yield block_kin(mine, theirs, same=first == second, offsets=(first, second))


class KinBlock:
    """Some fingerprints, ready to be compared with others."""

    def __init__(self, made: Sequence[Fingerprint], *, signs: bool = True) -> None:
        self.made = tuple(made)
        self.queries = [CodeQuery(item) for item in made] if signs else None
        codes = tiled(b"".join(query.code for query in self.queries or ()))
        self.tiles = list(tiles(np.frombuffer(codes, np.uint64)))

    def __len__(self) -> int:
        return len(self.made)

    def seen_by(self, other: KinBlock, *, same: bool) -> set[tuple[int, int]]:
        """Return pairs (other, ours) that pass by their signs, seen from the other block."""
        found: set[tuple[int, int]] = set()
        space = Workspace()
        for number, query in enumerate(other.queries or ()):
            first = 0
            for tile in self.tiles:
                kept, _, _ = query.passing(tile, space)
                found.update((number, first + at) for at in kept.tolist() if not same or first + at != number)
                first += tile.shape[1]
        return found


def _few(made: Sequence[Fingerprint]) -> KinBlock:
    """Hold models that are few enough for all pairs to get the exact test."""
    return KinBlock(made, signs=False)


def block_kin(first: KinBlock, second: KinBlock, *, same: bool, offsets: tuple[int, int] = (0, 0)) -> AllKin:
    """Test one block of all pairs: every fingerprint of one block with every later one of the other."""
    if first.queries is None:
        chosen = set(
            combinations(range(len(first)), 2) if same else product(range(len(first)), range(len(second)))
        )
    else:
        # Either side may see the other: masks are those of the one that asks.
        chosen = second.seen_by(first, same=same)
        if same:
            chosen = {(min(pair), max(pair)) for pair in chosen}
        else:
            chosen |= {(at, number) for number, at in first.seen_by(second, same=same)}
    theirs: dict[int, FingerprintRows] = {}
    found = []
    for i, pairs in groupby(sorted(chosen), key=itemgetter(0)):
        mine = FingerprintRows(first.made[i])
        for _, j in pairs:
            other = theirs.setdefault(j, FingerprintRows(second.made[j]))
            kin = kin_of(i + offsets[0], j + offsets[1], fingerprint_product(mine, other))
            if kin.found or kin.proposed:
                found.append(kin)
    return AllKin(n_tested=len(chosen), kin=tuple(found))


def kin_of(first: int, second: int, made: FingerprintProduct) -> Kin:
    """Judge a product, by the same numbers as `scan`."""
    log10_p = min(0.0, made.log10_p + LOG10_SIZE)
    gram = made.token_gram
    return Kin(
        first=first,
        second=second,
        found=log10_p < LOG10_FOUND,
        proposed=gram is not None and gram >= LEAST_COSINE,
        log10_p=log10_p,
        likeness=likeness_of(made),
        token_gram=None if gram is None else float(gram),
    )


def likeness_of(made: FingerprintProduct) -> float:
    """Return the mean cosine of facing blocks, or that of the strongest if nothing was added up."""
    for block in made.blocks:
        if block.kind == "all":
            return float(block.effect)
    return 0.0 if made.best is None else abs(float(made.best.effect))
