"""Which models of a registry are relatives: signs choose the pairs, the exact test accepts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from modelkin.fingerprint import Fingerprint, FingerprintProduct, FingerprintRows, fingerprint_product
from modelkin.message import say
from modelkin.progress import Progress
from modelkin.registry.coarse import CodeQuery, coarse_pass, tiled
from modelkin.registry.scanning import LEAST_COSINE, LOG10_FOUND, LOG10_SIZE

MOST_EXHAUSTIVE = 64
"""Models of which all pairs get the exact test, some 2,000 at 2 to 8 ms each. Beyond, the signs of `scan`
choose: they lose no pair that the exact test accepts on the zoo."""
_HELD = 2_000
"""Fingerprints whose centred rows are kept in memory: 0.5 MB each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """Two fingerprints that were tested, by their places."""

    first: int
    second: int
    found: bool
    proposed: bool
    """Whether the tokens look alike: no evidence."""
    log10_p: float
    likeness: float
    token_gram: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllKin:
    """What the pairs of a registry say."""

    n_tested: int
    kin: tuple[Kin, ...]
    """Accepted or proposed ones."""


def all_kin(made: Sequence[Fingerprint], progress: Progress, *, n_threads: int = 2) -> AllKin:
    """Test the pairs of some fingerprints; every p-value pays for the fixed size of a registry."""
    rows = _Rows(made)
    found: list[Kin] = []
    n_tested = 0
    for first, second in _chosen(made, progress, n_threads):
        n_tested += 1
        kin = kin_of(first, second, fingerprint_product(rows.of(first), rows.of(second)))
        if kin.found or kin.proposed:
            found.append(kin)
    return AllKin(n_tested=n_tested, kin=tuple(found))


def kin_of(first: int, second: int, product: FingerprintProduct) -> Kin:
    """Judge a product, by the same numbers as `scan`."""
    log10_p = min(0.0, product.log10_p + LOG10_SIZE)
    gram = product.token_gram
    return Kin(
        first=first,
        second=second,
        found=log10_p < LOG10_FOUND,
        proposed=gram is not None and gram >= LEAST_COSINE,
        log10_p=log10_p,
        likeness=likeness_of(product),
        token_gram=None if gram is None else float(gram),
    )


def likeness_of(product: FingerprintProduct) -> float:
    """Return the mean cosine of facing blocks, or that of the strongest where nothing was added up."""
    for block in product.blocks:
        if block.kind == "all":
            return float(block.effect)
    return 0.0 if product.best is None else abs(float(product.best.effect))


def _chosen(made: Sequence[Fingerprint], progress: Progress, n_threads: int) -> Iterator[tuple[int, int]]:
    """Yield pairs for the exact test, those of one model together."""
    if len(made) <= MOST_EXHAUSTIVE:
        yield from combinations(range(len(made)), 2)
        return
    table = np.frombuffer(tiled(b"".join(item.code() for item in made)), np.uint64)
    chosen: list[set[int]] = [set() for _ in made]
    for number, item in enumerate(made):
        progress.count(number, len(made), say("atlas-signs"))
        seen = coarse_pass(CodeQuery(item), [(0, table)], n_threads=n_threads)
        for other in seen.rows.tolist():
            if other != number:
                # Either side may see the other: masks are those of the one that asks.
                chosen[min(number, other)].add(max(number, other))
    for number, others in enumerate(chosen):
        progress.count(number, len(made), say("atlas-pairs"))
        yield from ((number, other) for other in sorted(others))


class _Rows:
    """Centred rows of fingerprints; the last ones used are kept."""

    def __init__(self, made: Sequence[Fingerprint]) -> None:
        self._made = made
        self._held: dict[int, FingerprintRows] = {}

    def of(self, number: int) -> FingerprintRows:
        """Return the rows of a fingerprint."""
        if number not in self._held:
            if len(self._held) >= _HELD:
                self._held.pop(next(iter(self._held)))
            self._held[number] = FingerprintRows(self._made[number])
        return self._held[number]


def connected(n: int, pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the groups that pairs connect, single ones among them, each in order."""
    above = list(range(n))

    def top(item: int) -> int:
        while above[item] != item:
            above[item] = above[above[item]]
            item = above[item]
        return item

    for first, second in pairs:
        a, b = top(first), top(second)
        if a != b:
            above[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for item in range(n):
        groups.setdefault(top(item), []).append(item)
    return list(groups.values())
