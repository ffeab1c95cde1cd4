"""Merges that change single values of a base, TIES and DARE, among the members of a family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from modelkin.lineage.inheritance import Blend
from modelkin.lineage.patterns import Floats, fit_dropped, fit_elected
from modelkin.lineage.samples import Site
from modelkin.lineage.tree_samples import ModelSample

_STILL = 0.05
"""Smallest share of values that such a merge has in common with its base."""
# Only the models with most values in common are tried as bases.
_MOST_BASES = 4
# Pairs among this many are tried: the time for a family grows with their square.
_MOST_PARENTS = 8
# Enough to tell a prediction from chance.
_MOST_VALUES = 16_384
# As in `merge_methods`.
_PREDICTED = 0.9
# A smaller weight may just as well be a common direction of training.
_COUNTS = 0.1
# Squared distance to one parent, over that to the base, below which it is a descendant.
_ALONE = 0.25
# Cosine of two parents' changes from which one can replace the other.
_COLLINEAR = 0.8


def sparse_blend(members: Sequence[ModelSample], child: int) -> Blend | None:
    """Find a base and two of its children whose differences, dropped or elected, predict a member."""
    mine = members[child]
    still = [_equal_share(mine, other) if place != child else 0.0 for place, other in enumerate(members)]
    bases = sorted(
        (place for place in range(len(members)) if still[place] >= _STILL), key=lambda p: -still[p]
    )
    best: tuple[float, Blend] | None = None
    for base in bases[:_MOST_BASES]:
        sites = [
            site
            for site, values in mine.values.items()
            if site.layer >= 0
            and site in members[base].values
            and members[base].values[site].size == values.size
        ]
        others = [
            place
            for place, other in enumerate(members)
            if place not in (child, base)
            and all(
                site in other.values and other.values[site].size == mine.values[site].size for site in sites
            )
        ]
        if not sites or len(others) < 2:
            continue
        sites = _some(sites, mine)
        start = _joined(members[base], sites)
        delta = _joined(mine, sites) - start
        tasks = {place: _joined(members[place], sites) - start for place in others}
        carried = {place: _carried(delta, task) for place, task in tasks.items()}
        likely = sorted((place for place in others if carried[place] > _COUNTS), key=lambda p: -carried[p])[
            :_MOST_PARENTS
        ]
        for number, first in enumerate(likely):
            for second in likely[:number]:
                found = _fit(delta, tasks[first], tasks[second])
                if found is not None and (best is None or found[0] > best[0]):
                    shares = found[1]
                    blend = Blend(child=child, parents=(first, second), shares=shares, opposition=found[0])
                    best = found[0], blend
    return None if best is None else best[1]


def _some(sites: list[Site], member: ModelSample) -> list[Site]:
    """Choose tensors spread over the depth that together have enough values."""
    step = max(1, sum(member.values[site].size for site in sites) // _MOST_VALUES)
    return sorted(sites)[::step]


def _fit(delta: Floats, first: Floats, second: Floats) -> tuple[float, tuple[float, float]] | None:
    fits = [
        fit
        for fit in (fit_dropped(delta, [first, second]), fit_elected(delta, [first, second]))
        if fit is not None
    ]
    if not fits:
        return None
    best = max(fits, key=lambda fit: fit.explained)
    if best.explained < _PREDICTED or min(best.weights) < _COUNTS:
        return None
    beyond = [float(np.square(delta - task).sum()) for task in (first, second)]
    own = [float(task @ task) for task in (first, second)]
    if min(beyond) < _ALONE * best.size:
        return None  # one of them alone is closer than the base
    if all(away <= before for away, before in zip(beyond, own, strict=True)):
        return None  # then the base was rather made from the candidate
    if abs(float(first @ second)) > _COLLINEAR * np.sqrt(own[0] * own[1]):
        return None
    return best.explained, (best.weights[0], best.weights[1])


def _joined(member: ModelSample, sites: Sequence[Site]) -> Floats:
    return np.concatenate([member.values[site] for site in sites]).astype(np.float64)


def _equal_share(first: ModelSample, second: ModelSample) -> float:
    equal = total = 0
    for site, values in first.values.items():
        other = second.values.get(site)
        if site.layer >= 0 and other is not None and other.size == values.size:
            equal += int((values == other).sum())
            total += values.size
    # A copy is not a merge.
    return equal / total if total and equal < 0.98 * total else 0.0


def _carried(delta: Floats, task: Floats) -> float:
    own = float(task @ task)
    return float(delta @ task) / own if own > 0 else 0.0
