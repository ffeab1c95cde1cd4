"""All pairs of a registry: the exact test on each, in blocks that can be done anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.fingerprint import Fingerprint, FingerprintRows, FingerprintStack, fingerprint_product

from .scanning import LEAST_COSINE, LOG10_FOUND, LOG10_SIZE
from .store import Registry

BLOCK = 256
"""Fingerprints on each side of a block of all pairs: 15 MB, and half a second of work."""
PAIRS_SCHEMA = "modelkin.registry-pairs/1"
Pairs = list[tuple[int, int, float, float | None]]
"""(first, second, log10 p corrected for the size, cosine of the token Grams)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedPair:
    """Two models that have a common origin, or whose tokens look alike."""

    first: str
    second: str
    found: bool
    """Whether the fingerprints show a common origin; otherwise tokens look alike, which is not evidence."""
    log10_p: float
    token_gram: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPairs:
    """What all pairs of a registry say."""

    registry: str
    n_models: int
    n_pairs: int
    log10_size: float
    threshold: float
    pairs: tuple[RelatedPair, ...]


def named_pairs(registry: Registry, rows: Sequence[Fingerprint], pairs: Pairs) -> RegistryPairs:
    """Add names to pairs."""
    return RegistryPairs(
        registry=registry.place.name,
        n_models=len(rows),
        n_pairs=len(rows) * (len(rows) - 1) // 2,
        log10_size=LOG10_SIZE,
        threshold=LOG10_FOUND,
        pairs=tuple(
            RelatedPair(
                first=rows[i].model.ref,
                second=rows[j].model.ref,
                found=log10_p < LOG10_FOUND,
                log10_p=log10_p,
                token_gram=gram,
            )
            for i, j, log10_p, gram in pairs
        ),
    )


def all_fingerprints(registry: Registry) -> list[Fingerprint]:
    """Return the fingerprints of a registry that have a block; of several revisions, only the newest."""
    newest = {
        row.ref: row.fingerprint()
        for row in registry.each_row(range(registry.n_rows))
        if row.reason_code is None
    }
    return list(newest.values())


def all_pairs(rows: Sequence[Fingerprint], *, block: int = BLOCK, log10_size: float = LOG10_SIZE) -> Pairs:
    """Test all pairs of fingerprints: (first, second, log10 p corrected for the size, token Gram).

    Only pairs below the threshold, or with tokens that look alike, are listed.
    """
    return sorted(
        pair
        for first, second in blocks_of_pairs(len(rows), block)
        for pair in block_pairs(
            rows[first : first + block],
            rows[second : second + block],
            same=first == second,
            offsets=(first, second),
            log10_size=log10_size,
        )
    )


def blocks_of_pairs(n_rows: int, block: int) -> Iterator[tuple[int, int]]:
    """Yield where the two sides of each block of all pairs start."""
    starts = range(0, n_rows, block)
    return ((first, second) for first in starts for second in starts if second >= first)


def block_pairs(
    first: Sequence[Fingerprint],
    second: Sequence[Fingerprint],
    *,
    same: bool,
    log10_size: float = LOG10_SIZE,
    offsets: tuple[int, int] = (0, 0),
) -> Pairs:
    """Test one block of all pairs: every fingerprint of one list with every later one of the other.

    z of all blocks of all pairs comes first, by matrix products; what cannot be a finding is not tested.
    """
    ours = FingerprintStack(first)
    worth = ours.worth(ours if same else FingerprintStack(second), least_gram=LEAST_COSINE)
    mine: dict[int, FingerprintRows] = {}
    theirs: dict[int, FingerprintRows] = mine if same else {}
    found: Pairs = []
    for i, j in np.argwhere(np.triu(worth, 1) if same else worth).tolist():
        a = mine.setdefault(i, FingerprintRows(first[i]))
        b = theirs.setdefault(j, FingerprintRows(second[j]))
        made = fingerprint_product(a, b)
        log10_p = min(0.0, made.log10_p + log10_size)
        alike = made.token_gram is not None and made.token_gram >= LEAST_COSINE
        if log10_p < LOG10_FOUND or alike:
            gram = None if made.token_gram is None else float(made.token_gram)
            found.append((i + offsets[0], j + offsets[1], log10_p, gram))
    return found
