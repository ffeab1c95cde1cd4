"""Error rates of scores: area under the ROC curve, partial area, and hits at few false accusations.

Intervals assume independently drawn pairs. Pairs of a benchmark share models, so the true intervals are
wider; every table says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
LARGEST_FALSE_RATE = 0.05
"""The part of the ROC curve that the partial area covers."""
DRAWS = 1000
"""Of the bootstrap: each end of a 95 % interval then rests on 25 draws."""

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportion:
    """A share with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """How many of some pairs were found."""

    found: int
    of: int
    """All readable pairs: a pair without a score was not found."""
    share: Proportion | None
    """None without pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHits:
    """What became of the pairs of one relation."""

    group: str
    truth: str
    pairs: int
    scored: int
    at_own_level: int | None
    """Called related at the method's own level; None if it has none."""
    above_strangers: int
    """Above every independent pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How well one method does on labelled pairs."""

    method: str
    n_related: int
    n_independent: int
    scored_related: int
    scored_independent: int
    auc: Proportion | None
    """Of the pairs with a score; None if one side has none."""
    partial_auc: Proportion | None
    """For false rates up to 5 %, scaled to 0.5 for chance and 1 for the best (McClish)."""
    hits_at_1_percent: Hits | None
    """With at most 1 % of the independent pairs above; with fewer than 100 of them that is none."""
    hits_at_0: Hits | None
    """Above all independent pairs."""
    hits_at_level: Hits | None
    """At the method's own level, fixed beforehand; None if it has none."""
    accused: Hits | None
    """Independent pairs that are called related at that level."""
    groups: tuple[GroupHits, ...] = field(default=())
    bytes_a_model: float | None = None
    """Mean over the scored pairs, for the model of which more was read."""
    seconds: float | None = None
    """Mean over the scored pairs."""
    roc: tuple[tuple[float, float], ...] = ()
    """(false rate, hit rate) at every threshold, for the pairs with a score."""


def wilson(found: int, of: int, level: float = LEVEL) -> Proportion | None:
    """Return a share with Wilson's interval.

    >>> wilson(0, 0) is None
    True
    >>> round(wilson(10, 10).low, 3)
    0.722
    """
    if of == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = found / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return Proportion(value=share, low=max(0.0, middle - half), high=min(1.0, middle + half))


def hits(found: int, of: int) -> Hits:
    """Return a count with its share."""
    return Hits(found=found, of=of, share=wilson(found, of))


def area(related: Scores, independent: Scores) -> float:
    """Return the probability that a related pair scores higher than an independent one; ties count half.

    >>> area(np.array([2.0, 1.0]), np.array([1.0, 0.0]))
    0.875
    """
    order = np.sort(independent)
    below = np.searchsorted(order, related, side="left")
    upto = np.searchsorted(order, related, side="right")
    return float((below + upto).sum() / (2.0 * len(related) * len(independent)))


def area_interval(value: float, n: int, m: int, level: float = LEVEL) -> Proportion:
    """Return Newcombe's interval of an area (2006, method 5), which does not collapse at an area of 1."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    size = (n + m) / 2.0

    def spread(theta: float) -> float:
        inner = 1 + (size - 1) * (1 - theta) / (2 - theta) + (size - 1) * theta / (1 + theta)
        return math.sqrt(max(0.0, theta * (1 - theta) * inner / (n * m)))

    def solve(inside: float, outside: float) -> float:
        for _ in range(60):
            middle = (inside + outside) / 2.0
            if abs(value - middle) > z * spread(middle):
                outside = middle
            else:
                inside = middle
        return inside

    return Proportion(value=value, low=solve(value, 0.0), high=solve(value, 1.0))


def roc_points(related: Scores, independent: Scores) -> list[tuple[float, float]]:
    """Return (false rate, hit rate) for every threshold, from none to all."""
    levels = np.unique(np.concatenate([related, independent]))[::-1]
    falsely = 1.0 - np.searchsorted(np.sort(independent), levels, side="left") / len(independent)
    rightly = 1.0 - np.searchsorted(np.sort(related), levels, side="left") / len(related)
    return [(0.0, 0.0), *((float(x), float(y)) for x, y in zip(falsely, rightly, strict=True))]


def partial_area(related: Scores, independent: Scores, largest: float = LARGEST_FALSE_RATE) -> float:
    """Return the area up to a false rate, scaled to 0.5 for chance and 1 for the best."""
    points = roc_points(related, independent)
    total = 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 >= largest:
            break
        stop = min(x1, largest)
        end = y1 if x1 == x0 else y0 + (y1 - y0) * (stop - x0) / (x1 - x0)
        total += (stop - x0) * (y0 + end) / 2.0
    chance = largest * largest / 2.0
    return 0.5 * (1.0 + (total - chance) / (largest - chance))


def partial_area_interval(related: Scores, independent: Scores, *, seed: int) -> Proportion:
    """Return the partial area with a bootstrap interval, both sides drawn separately.

    Draws of scores that never overlap are all the same. The interval therefore begins no higher than the area
    of a flat curve at the lower end of Wilson's interval for the hits above all independent pairs.
    """
    rng = np.random.default_rng(seed)
    draws = [
        partial_area(rng.choice(related, len(related)), rng.choice(independent, len(independent)))
        for _ in range(DRAWS)
    ]
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = partial_area(related, independent)
    hit = wilson(int((related > independent.max()).sum()), len(related))
    chance = LARGEST_FALSE_RATE * LARGEST_FALSE_RATE / 2.0
    flat = LARGEST_FALSE_RATE * (0.0 if hit is None else hit.low)
    least = 0.5 * (1.0 + (flat - chance) / (LARGEST_FALSE_RATE - chance))
    return Proportion(value=value, low=min(value, float(low), least), high=max(value, float(high)))


def level_for(independent: Scores, allowed: float) -> float:
    """Return the score that a hit must exceed so that at most a share of independent pairs is above it."""
    order = np.sort(independent)[::-1]
    return float(order[math.floor(allowed * len(order))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One pair, as used for rates."""

    group: str
    truth: str
    score: float | None
    says: str | None
    n_bytes: int
    seconds: float


def rates_of(method: str, rows: Sequence[Scored], *, seed: int = 0) -> Rates:
    """Summarise what a method said about readable pairs; unclear pairs are only listed."""
    related = [row for row in rows if row.truth == "related"]
    independent = [row for row in rows if row.truth == "independent"]
    high = np.array([row.score for row in related if row.score is not None], dtype=np.float64)
    low = np.array([row.score for row in independent if row.score is not None], dtype=np.float64)
    both = len(high) > 0 and len(low) > 0
    has_level = any(row.says is not None for row in rows)
    scored = [row for row in rows if row.score is not None]
    largest = float(low.max()) if len(low) else math.inf
    return Rates(
        method=method,
        n_related=len(related),
        n_independent=len(independent),
        scored_related=len(high),
        scored_independent=len(low),
        auc=area_interval(area(high, low), len(high), len(low)) if both else None,
        partial_auc=partial_area_interval(high, low, seed=seed) if both else None,
        # The level that the field is named by.
        hits_at_1_percent=hits(int((high > level_for(low, 0.01)).sum()), len(related)) if both else None,
        hits_at_0=hits(int((high > largest).sum()), len(related)) if both else None,
        hits_at_level=hits(_called(related), len(related)) if has_level else None,
        accused=hits(_called(independent), len(independent)) if has_level else None,
        groups=tuple(_groups(rows, largest, has_level=has_level)),
        bytes_a_model=float(np.mean([row.n_bytes for row in scored])) if scored else None,
        seconds=float(np.mean([row.seconds for row in scored])) if scored else None,
        roc=tuple(roc_points(high, low)) if both else (),
    )


def _called(rows: Sequence[Scored]) -> int:
    return sum(row.says == "related" for row in rows)


def _groups(rows: Sequence[Scored], largest: float, *, has_level: bool) -> list[GroupHits]:
    found: dict[tuple[str, str], list[Scored]] = {}
    for row in rows:
        found.setdefault((row.truth, row.group), []).append(row)
    return [
        GroupHits(
            group=group,
            truth=truth,
            pairs=len(members),
            scored=sum(row.score is not None for row in members),
            at_own_level=_called(members) if has_level else None,
            above_strangers=sum(row.score is not None and row.score > largest for row in members),
        )
        for (truth, group), members in found.items()
    ]
