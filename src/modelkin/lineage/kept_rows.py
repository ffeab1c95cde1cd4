"""Rows that no training touched: the parent's to the last bit, or all of them times one factor, rounded once.

Rows of tokens that a corpus lacks, and of positions beyond its windows, get no gradient. They stay as they
are, or weight decay shrinks all of them by the same factor, step by step in float32, and storing rounds them.
So the stored row of a child is its parent's stored row times the factor, rounded. A sibling's row was rounded
separately: times any factor it misses the last bit of about every seventh value. That tells a parent from a
sibling if both were trained on similar text and carry each other's change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modelkin.lineage.samples import Site
from modelkin.lineage.tree_samples import ModelSample
from modelkin.tensors import decode, encode

Floats = NDArray[np.float64]

# Stored bits of the fraction. In float32 a sibling's row times a factor is as exact as the parent's.
_FRACTION = {"BF16": 7, "F16": 10}
# Cosine of a row with itself after rounding to bfloat16; training moves it further.
_UNTOUCHED = 0.9999
# Rows that must agree on one factor: a sibling's row of 32 values agrees once in 200, eight never do.
FEWEST_ROWS = 8
_FEWEST_VALUES = 32
"""Of a row: shorter ones agree by chance."""
_MOST_ROWS = 64
"""Enough to tell, whatever the size of the table."""
_SMALLEST = 0.5
"""Of factors: weight decay that halves rows is not a fine-tune."""
_LOST = 0.5
"""A model that keeps less than this share of the rows another one keeps has lost them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRows:
    """Rows of one table that a model shares with another."""

    table: str
    n: int
    of: int
    """Examined rows that point the same way."""
    factor: float
    """1 if they are the same bit for bit; below it after weight decay."""

    @property
    def kept(self) -> bool:
        """Whether there are enough of them."""
        return self.n >= FEWEST_ROWS


def kept_rows(child: ModelSample, parent: ModelSample) -> KeptRows | None:
    """Return the table in which the child keeps most rows of the parent, scaled by at most 1.

    None if nothing can be told: no table of one width, or numbers not stored in 16 bits.
    """
    found = [
        kept
        for site, before in parent.values.items()
        if _able(site, child, parent)
        and (kept := _of_table(site, child, _rows(before, parent, site))) is not None
    ]
    return max(found, key=lambda kept: kept.n, default=None)


def lost_rows(mine: KeptRows | None, other: KeptRows | None) -> bool:
    """Say whether a model keeps rows of another that a third has lost: it did not come through that one."""
    return other is not None and other.kept and (mine is None or mine.n < _LOST * other.n)


def _able(site: Site, child: ModelSample, parent: ModelSample) -> bool:
    return (
        site.layer < 0
        and site in child.values
        and len(parent.shapes[site]) == 2
        and parent.shapes[site][1] == child.shapes[site][1] >= _FEWEST_VALUES
        and _bits(child, site) is not None
        and _bits(parent, site) is not None
    )


def _bits(sample: ModelSample, site: Site) -> int | None:
    """Return the fraction bits that values were rounded to; a wider format may hold narrower values."""
    values = sample.values[site][np.isfinite(sample.values[site])]
    for dtype, bits in _FRACTION.items():
        if sample.dtypes[site] == dtype or np.array_equal(
            decode(encode(values, dtype), dtype, values.size).reshape(-1), values
        ):
            return bits
    return None


def _rows(values: NDArray[np.float32], sample: ModelSample, site: Site) -> Floats:
    return values.reshape(-1, sample.shapes[site][1]).astype(np.float64)


def _of_table(site: Site, child: ModelSample, before: Floats) -> KeptRows | None:
    after = _rows(child.values[site], child, site)
    n = min(len(before), len(after))
    known = np.isfinite(before[:n]).all(axis=0) & np.isfinite(after[:n]).all(axis=0)
    if known.sum() < _FEWEST_VALUES:
        return None
    before, after = before[:n, known], after[:n, known]
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    cosines = (before * after).sum(axis=1) / np.where(lengths > 0, lengths, 1.0)
    chosen = np.flatnonzero(cosines > _UNTOUCHED)[:_MOST_ROWS]
    if chosen.size == 0:
        return KeptRows(table=site.module, n=0, of=0, factor=1.0)
    bits = _bits(child, site)
    assert bits is not None
    low, high = _factors(before[chosen], after[chosen], bits)
    factor = _common(low, high)
    exact = ((low <= factor) & (factor <= high)).all(axis=1)
    return KeptRows(table=site.module, n=int(exact.sum()), of=int(chosen.size), factor=factor)


def _factors(before: Floats, after: Floats, bits: int) -> tuple[Floats, Floats]:
    """Return for every value the factors that round it to the stored one."""
    _, exponents = np.frexp(after)
    half = np.ldexp(1.0, exponents - bits - 2)
    sizes, wanted = np.abs(before), np.abs(after) * np.where(np.sign(before) == np.sign(after), 1.0, -1.0)
    safe = np.where(sizes > 0, sizes, 1.0)
    low, high = (wanted - half) / safe, (wanted + half) / safe
    still = (before == 0) & (after == 0)
    lost = (before == 0) != (after == 0)
    low = np.where(still, 0.0, np.where(lost, np.inf, low))
    return low, np.where(still, np.inf, np.where(lost, -np.inf, high))


def _common(low: Floats, high: Floats) -> float:
    """Return the factor, at most 1, that most values allow; 1 if it is as good as any."""
    lows, highs = low[np.isfinite(low)], high[np.isfinite(high)]
    if not lows.size or not highs.size:
        return 1.0
    starts, ends = np.sort(lows), np.sort(highs)
    tried = np.concatenate([[1.0], starts[(starts > _SMALLEST) & (starts <= 1.0)]])
    allowed = np.searchsorted(starts, tried, side="right") - np.searchsorted(ends, tried, side="left")
    best = int(np.argmax(allowed))
    if best == 0:
        return 1.0
    # The middle of the interval with the most values: its ends depend on single values.
    until = ends[np.searchsorted(ends, tried[best], side="left")]
    return float((tried[best] + min(until, 1.0)) / 2)
