"""Which model descends from which within a family: by what is carried over, not by what is close.

A child carries all of its parent's change. Seen from a relative q, the part of it that c carries is
beta = <c - q, p - q> / |p - q|^2, which distances alone determine. Siblings that were trained on similar data
move in a common direction and come closer to each other than to their parent, but do not carry each other's
changes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from modelkin.lineage.geometry import mixture, residual, star_residual
from modelkin.lineage.samples import Site
from modelkin.lineage.tree_samples import ModelSample

Floats = NDArray[np.float64]

_CARRIED = (0.9, 1.1)
"""Share of a parent's change that its child has, measured from the middle: all of it, up to what two samples
differ by. A sibling or a grandparent has less, a merge of several children more."""
_LEAST = 0.6
"""Share of a parent's change that must be carried over, seen from every other relative."""
_SEEN = 0.1
"""Ratio of a parent's change to the child's below which nothing can be said."""
_DESCENDS = 0.8
"""Share of a child's own change that makes another model its descendant and not its sibling: siblings have
next to none of it, descendants all of it up to errors of sampling."""
_FARTHER = 1.02
"""A parent is no farther from the middle than its child, up to errors of sampling."""
_UNRELATED = 1.5
"""Squared distance of tensors, over the product of lengths, from which they share next to nothing."""
_MIXED = 0.8
"""Share of the way between two models that a mixture of them must explain; 1 for an exact merge, and what is
trained after it lowers it."""
_SHARES = (0.03, 0.97)
"""A weight closer to 0 or 1 cannot be told from a child of one of the two."""
_FEWEST_SITES = 2
"""One tensor may have been copied or frozen; two agree only if the models do."""
_AROUND = 1.02
"""A mixture lies between its parents: the squared distances to both add up to at most the parents' own, up to
errors of sampling."""
_AS_NEAR = 3.0
"""One member alone explains the child as well if it leaves at most so many times what the mixture leaves."""
_COPY = 1e-3
"""Squared distance, over that of the parents, below which a model is a copy of one of them."""
_EXACT = 1e-6
"""The same of one tensor: rounding to sixteen bits leaves less, training more."""
_ALMOST_ALL = 0.9
"""Share of exactly copied tensors that makes a stack of layers of two models; norms and token tables may be
mixed."""
_MOSTLY = math.sqrt(0.5)
"""Cosine from which most of a difference lies along a direction: only where a family does not show how much
of a direction independent changes share."""
_MOST_OF = 0.8
"""A parent must share as many of the child's shapes as others do, up to this factor."""


def site_distances(members: Sequence[ModelSample]) -> Floats:
    """Return distances by tensor: sites x members x members, NaN if they cannot be compared."""
    sites = sorted({site for member in members for site in member.values})
    found = np.full((len(sites), len(members), len(members)), np.nan)
    for place, site in enumerate(sites):
        holders = [number for number, member in enumerate(members) if site in member.values]
        # One scale for all, so that distances add up; per value, as token tables may have more rows.
        scale = float(np.mean([np.nanmean(np.square(members[number].values[site])) for number in holders]))
        for i in holders:
            found[place, i, i] = 0.0
            for j in holders:
                if j < i and scale > 0 and comparable_samples(members[i], members[j], site):
                    first, second = members[i].values[site], members[j].values[site]
                    n = min(first.size, second.size)
                    away = np.square(first[:n] - second[:n], dtype=np.float64)
                    known = np.isfinite(away)
                    if known.any():
                        found[place, i, j] = found[place, j, i] = float(away[known].mean()) / scale
    return found


def comparable_samples(mine: ModelSample, theirs: ModelSample, site: Site) -> bool:
    """Say whether two tensors have one shape; of token tables, rows of one length."""
    if site.group in ("embedding", "head"):
        return mine.shapes[site][1:] == theirs.shapes[site][1:]
    return mine.shapes[site] == theirs.shapes[site]


def mean_distances(by_site: Floats) -> Floats:
    """Average over tensors; NaN for two models that share fewer than two, unless one has a single one."""
    count = np.isfinite(by_site).sum(axis=0)
    total = np.nansum(by_site, axis=0)
    own = np.clip(np.diagonal(count), 1, _FEWEST_SITES)
    return np.where(count >= np.minimum(own[:, None], own[None, :]), total / np.maximum(count, 1), np.nan)


def related_sites(by_site: Floats, place: int) -> NDArray[np.intp]:
    """Return the tensors in which a member is close to any other: elsewhere it shares nothing."""
    others = np.delete(by_site[:, place, :], place, axis=1)
    nearest = np.nanmin(np.where(np.isfinite(others), others, np.inf), axis=1)
    chosen = np.flatnonzero(nearest < _UNRELATED)
    return chosen if chosen.size >= _FEWEST_SITES else np.arange(len(by_site))


def carried(by_site: Floats, child: int, parent: int, seen_from: int) -> float | None:
    """Return which part of the parent's change the child carries, seen from a third model.

    Over the tensors that all three have; None if there are none, or the parent did not change them.
    """
    sides = by_site[:, [child, parent, child], [seen_from, seen_from, parent]]
    mine, own, between = sides[np.isfinite(sides).all(axis=1)].sum(axis=0)
    return float((mine + own - between) / (2 * own)) if own > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hung:
    """One member and what it is attached to."""

    child: int
    parent: int
    inherits: bool
    """Whether it carries what the parent changed; otherwise it is attached to the middle of the family."""
    least: float | None


def hang(
    by_site: Floats, child: int, middle: int, mixed: Collection[int], barred: Collection[int] = ()
) -> Hung | None:
    """Find what a member is attached to: the closest one whose change it carries, or the middle.

    Parameters
    ----------
    by_site
        Distances by tensor.
    child, middle
        Indices of the member, and of the reference member.
    mixed
        Indices of merges: lying between their parents, they say nothing about what is carried.
    barred
        Indices of those that cannot be its parent: facts put them after it, or no pair was accepted.
    """
    used = by_site[related_sites(by_site, child)]
    held = mean_distances(used)
    common = np.isfinite(used[:, child, :]).sum(axis=0)
    most = int(np.delete(common, child).max(initial=0))
    if not np.isfinite(held[child, middle]):
        return None
    best: Hung | None = None
    for parent in range(len(held)):
        if (
            parent in (child, middle)
            or not np.isfinite(held[[child, middle, parent]][:, [child, middle, parent]]).all()
        ):
            continue
        if common[parent] < _MOST_OF * most or parent in barred:
            continue
        least = _carries(used, held, child, parent, middle, mixed)
        nearer = best is None or held[child, parent] < held[child, best.parent]
        if least is not None and nearer:
            best = Hung(child=child, parent=parent, inherits=True, least=least)
    if best is None and middle in barred:
        able = [
            place
            for place in range(len(held))
            if place != child
            and place not in barred
            and place not in mixed
            and np.isfinite(held[child, place])
            and common[place] >= _MOST_OF * most
        ]
        return (
            Hung(
                child=child,
                parent=min(able, key=lambda place: float(held[child, place])),
                inherits=False,
                least=None,
            )
            if able
            else None
        )
    return best or Hung(child=child, parent=middle, inherits=False, least=None)


def _carries(
    used: Floats, held: Floats, child: int, parent: int, middle: int, mixed: Collection[int]
) -> float | None:
    """Return the smallest share of the parent's change that is carried, or None if it is not a parent."""
    change, own = held[parent, middle], held[child, parent]
    if change > _FARTHER * held[child, middle] or change < _SEEN * own or change <= 0:
        return None
    least = carried(used, child, parent, middle)
    if least is None or not _CARRIED[0] <= least <= _CARRIED[1]:
        return None
    for other in range(len(held)):
        if (
            other in (child, parent, middle)
            or other in mixed
            or not np.isfinite(held[other, [child, parent, middle]]).all()
        ):
            continue
        away = held[parent, other]
        if away < max(_SEEN * own, _SEEN * change) or away <= 0:
            continue
        below = carried(used, other, child, parent) if own > 0 else None
        if below is not None and below >= _DESCENDS:
            continue  # it comes from the child itself
        seen = carried(used, child, parent, other)
        least = least if seen is None else min(least, seen)
    return least if least >= _LEAST else None


def comes_past(
    by_site: Floats, child: int, below: int, parents: Sequence[int], side: int, middle: int
) -> bool:
    """Say whether a member may come from one parent of a merge directly, and not through the merge.

    Trained on similar data, it moves as the other parent did, so towards the merge, and may end up closer to
    the merge than to its own parent. What independent changes have in common shows in the parents of the
    merge, seen from the middle: only a member that went further in the direction of the merge took that from
    the merge. Where the middle is itself a parent, most of the difference has to lie in that direction.

    Parameters
    ----------
    by_site
        Distances by tensor.
    child, below
        Indices of the member, and of what it would be attached to: the merge, or what came from it.
    parents, side
        Indices of the merge's parents, and of the one that the member may come from.
    middle
        Index of the reference member.
    """
    used = by_site[related_sites(by_site, child)]
    along = _cosine(used, child, below, side)
    others = (place for place in parents if middle not in (place, side) and place != side)
    shared = [found for place in others if (found := _cosine(used, place, side, middle)) is not None]
    return along is not None and along <= max(shared, default=_MOSTLY)


def _cosine(by_site: Floats, first: int, second: int, seen_from: int) -> float | None:
    """Return the cosine of two differences to a third model; None where there is no difference."""
    sides = by_site[:, [first, second, first], [seen_from, seen_from, second]]
    mine, own, between = sides[np.isfinite(sides).all(axis=1)].sum(axis=0)
    return float((mine + own - between) / (2 * math.sqrt(mine * own))) if min(mine, own) > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blend:
    """A member that lies between two others."""

    child: int
    parents: tuple[int, int]
    shares: tuple[float, float]
    opposition: float

    def renamed(self, places: Sequence[int]) -> Blend:
        """Return the same with indices into a longer list."""
        first, second = self.parents
        return replace(self, child=places[self.child], parents=(places[first], places[second]))


def find_blend(by_site: Floats, child: int) -> Blend | None:
    """Find the two members that a member lies between, if any, tensor by tensor."""
    n = by_site.shape[1]
    held = mean_distances(by_site)
    best: Blend | None = None
    for first in range(n):
        for second in range(first):
            apart = held[first, second]
            # Seen from a mixture, its parents are on opposite sides.
            if child in (first, second) or not held[child, first] + held[child, second] <= _AROUND * apart:
                continue
            found = _between(by_site, child, first, second)
            if found is not None and (best is None or found.opposition > best.opposition):
                best = found
    return best


def _between(by_site: Floats, child: int, first: int, second: int) -> Blend | None:
    to_first, to_second = by_site[:, child, first], by_site[:, child, second]
    apart = by_site[:, first, second]
    used = np.isfinite(to_first) & np.isfinite(to_second) & np.isfinite(apart)
    used &= np.nan_to_num(apart) > 0
    if used.sum() < _FEWEST_SITES:
        return None
    a, b, c = to_first[used] / apart[used], to_second[used] / apart[used], np.ones(int(used.sum()))
    if min(a.mean(), b.mean()) < _COPY:
        return None  # a copy of one of them lies between it and everything else
    cross = (a + b - c) / 2
    gram = np.array([[a.mean(), cross.mean()], [cross.mean(), b.mean()]])
    weights = mixture(gram)
    if not _SHARES[0] <= weights[0] <= _SHARES[1]:
        return None
    star = star_residual(gram)
    opposed = 1.0 - residual(gram, weights) / star if star > 0 else 0.0
    whole = np.minimum(a, b) < _EXACT
    stacked = whole.mean() > _ALMOST_ALL and 0 < (a[whole] < b[whole]).mean() < 1
    if opposed < _MIXED and not stacked:
        return None
    left = (
        np.minimum(a, b)
        if stacked
        else a * weights[0] ** 2 + b * weights[1] ** 2 + 2 * cross * weights.prod()
    )
    others = [place for place in range(by_site.shape[1]) if place not in (child, first, second)]
    for other in others:
        away = by_site[:, child, other][used] / apart[used]
        known = np.isfinite(away)
        alone = float(away[known].mean()) if known.sum() >= _FEWEST_SITES else np.inf
        if alone <= _AS_NEAR * float(np.maximum(left, 0).mean()):
            return None  # one member alone is as close
    return Blend(
        child=child,
        parents=(first, second),
        shares=(float(weights[0]), float(weights[1])),
        opposition=max(opposed, 1.0 if stacked else 0.0),
    )
