"""How a mixture was made, from single values: arcs, dropped differences, elected signs.

Each pattern is a hypothesis that predicts the candidate's sampled values. What it leaves unexplained is
compared with what the plain mixture leaves; a pattern that does not predict is not named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_FLAT = 1e-12
"""Squared sine of the angle between two tensors below which rounding alone spans their plane."""
_BEYOND = 0.05
"""How far outside an arc its nearest point may seem to lie, by noise; farther out it is not between them."""
_ROUNDS = 4
"""Which differences are kept, and how they are weighted, is found in so many turns."""
_MOST_SETS = 31
"""All sets of up to five parents; each more doubles the work."""
_STEPS = 40
"""Of bisection: each halves the interval, and 40 leave less than any rounding."""
_FEWEST = 100
"""Values in a bin: its share is then known to 0.05."""
_RARELY = 0.25
"""Differences of opposite sign that are kept together, over those of equal sign: an election keeps none of
the former, chance as many of both."""
_TENTHS = 10
"""Bins of ranks in which the share of kept differences is counted."""
_VISIBLE = 1.5
"""Steps by which a kept difference must move a number to be visible, however both were rounded."""
PARALLEL = 0.9995
"""Cosine above which mergekit's slerp is a straight line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arc:
    """The closest point on the arc between two tensors."""

    t: float
    """0 is the first, 1 the second."""
    left: float
    """Squared distance from the candidate."""
    cosine: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse:
    """Differences from a base of which most were dropped, and how well that predicts the candidate."""

    weights: tuple[float, ...]
    densities: tuple[float, ...]
    normalised: bool
    elected: bool = False
    """For dropped differences: whether those of the minority sign were dropped too."""
    left: float
    """Squared distance of the prediction from the candidate."""
    size: float
    """Squared distance of the candidate from the base."""
    magnitude: float = 1.0
    """Mean size of the parents' differences that were kept, over that of all: 1 if chance chose them."""
    epsilon: float = 0.0
    """For dropped differences: half the rise of the keep probability from the smallest to the largest."""
    uneven: float = 0.0
    """How far that probability is from rising evenly: 0 for DARE and DELLA, above 0.1 if size decides."""
    gamma: float = 0.0
    """Share of the largest differences that were also dropped."""

    @property
    def explained(self) -> float:
        """Part of the candidate's difference from the base that is predicted."""
        return 1.0 - self.left / self.size if self.size > 0 else 0.0


def nearest_arc(candidate: Floats, first: Floats, second: Floats) -> Arc | None:
    """Fit the point on the arc between two tensors; None if they span no plane or it is not between them."""
    a, b, c = float(first @ first), float(second @ second), float(first @ second)
    flat = a * b - c * c
    if flat <= _FLAT * a * b or a == 0 or b == 0:
        return None
    right = float(first @ candidate), float(second @ candidate)
    shares = (b * right[0] - c * right[1]) / flat, (a * right[1] - c * right[0]) / flat
    if shares[0] <= 0 and shares[1] <= 0:
        return None
    cosine = c / np.sqrt(a * b)
    angle = float(np.arccos(np.clip(cosine, -1, 1)))
    # shares are sin((1-t) angle) and sin(t angle) over sin(angle): their ratio gives t.
    t = float(np.arctan2(shares[1] * np.sin(angle), shares[0] + shares[1] * np.cos(angle))) / angle
    if not -_BEYOND <= t <= 1.0 + _BEYOND:
        return None
    made = (np.sin((1 - t) * angle) * first + np.sin(t * angle) * second) / np.sin(angle)
    return Arc(t=t, left=float(np.square(candidate - made).sum()), cosine=float(cosine))


def unchanged_share(delta: Floats, tasks: Sequence[Floats]) -> float | None:
    """Return the share of values that equal the base's although every parent changed them."""
    moved = np.all([task != 0 for task in tasks], axis=0)
    return float((delta[moved] == 0).mean()) if moved.any() else None


def fit_dropped(delta: Floats, tasks: Sequence[Floats], steps: Floats | None = None) -> Sparse | None:
    """Explain differences by a random part of the parents' differences, scaled up: DARE and DELLA.

    Every value is then zero or the sum of a few fixed multiples of the parents' differences: which of them is
    chosen value by value, and the multiples are fitted to the choice. If weights are normalised, the
    multiples depend on which others are left.

    Parameters
    ----------
    delta, tasks
        The candidate and the parents, each minus the base.
    steps
        Distance of neighbouring numbers that can be stored: kept differences below it look dropped.
    """
    size, stacked = float(delta @ delta), np.stack(tasks)
    k = len(tasks)
    still = unchanged_share(delta, tasks)
    sets = [chosen for n in range(1, k + 1) for chosen in combinations(range(k), n)]
    if still is None or not 0 < still < 1 or size == 0 or len(sets) > _MOST_SETS:
        return None
    density = 1.0 - still ** (1.0 / k)
    plain = np.linalg.lstsq(stacked @ stacked.T, stacked @ delta, rcond=1e-10)[0]
    ways = [_added(delta, stacked, sets, plain / density)]
    if k > 1:
        ways.append(_averaged(delta, stacked, sets, density))
    normalised, way = min(enumerate(ways), key=lambda item: item[1].left)
    kept = way.kept
    moved = stacked != 0
    elected = _signs_elected(stacked, kept)
    if elected:
        # If signs differ, one side lost after the draw: the draw shows where they agree.
        moved = moved & np.all(np.sign(stacked) == np.sign(stacked[0]), axis=0)
    sizes = np.abs(stacked)
    shares = [float(kept[i][moved[i]].mean()) if moved[i].any() else 0.0 for i in range(k)]
    # What is left is scaled up to the original sum of sizes.
    scales = [_part_of_sum(sizes[i], kept[i] > 0, moved[i]) for i in range(k)]
    chosen_mean = float(sizes[kept > 0].mean()) if (kept > 0).any() else 0.0
    epsilon, uneven = _by_rank(sizes, kept, moved, way.factors, steps)
    return Sparse(
        weights=tuple(float(factor * scale) for factor, scale in zip(way.factors, scales, strict=True)),
        densities=tuple(shares),
        normalised=bool(normalised),
        elected=elected,
        left=way.left,
        size=size,
        magnitude=chosen_mean / float(sizes[moved].mean()) if moved.any() else 1.0,
        epsilon=epsilon,
        uneven=uneven,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Draw:
    """Which parents are left at each place, and their weights where all are."""

    kept: Floats
    factors: Floats
    left: float


def _added(delta: Floats, stacked: Floats, sets: Sequence[tuple[int, ...]], factors: Floats) -> _Draw:
    """Fit one multiple per parent, whichever others are left."""
    kept, left = np.zeros_like(stacked), float(delta @ delta)
    for _ in range(_ROUNDS):
        kept = _nearest_sets(delta, [(chosen, factors[list(chosen)]) for chosen in sets], stacked)
        masked = kept * stacked
        factors = np.asarray(np.linalg.lstsq(masked @ masked.T, masked @ delta, rcond=1e-10)[0], np.float64)
        left = float(np.square(delta - factors @ masked).sum())
    return _Draw(kept=kept, factors=factors, left=left)


def _averaged(delta: Floats, stacked: Floats, sets: Sequence[tuple[int, ...]], density: float) -> _Draw:
    """Fit a mean of those that are left, scaled up: a parent left alone counts fully."""
    k = len(stacked)
    level, shares = 1.0 / density, np.full(k, 1.0 / k)
    kept, left = np.zeros_like(stacked), float(delta @ delta)
    for _ in range(_ROUNDS):

        def of_set(chosen: tuple[int, ...], level: float = level, shares: Floats = shares) -> Floats:
            return np.asarray(level * shares[list(chosen)] / shares[list(chosen)].sum(), np.float64)

        kept = _nearest_sets(delta, [(chosen, of_set(chosen)) for chosen in sets], stacked)
        alone = kept.sum(axis=0) == 1
        single = (kept * stacked).sum(axis=0)[alone]
        if float(single @ single) > 0:
            level = float(single @ delta[alone]) / float(single @ single)
        full = kept.sum(axis=0) == k
        if full.sum() > 4 * k:
            rows = stacked[:, full]
            found = np.linalg.lstsq(rows @ rows.T, rows @ delta[full], rcond=1e-10)[0]
            if np.all(found > 0):
                shares = found / found.sum()
        weight = shares[:, None] * kept
        total = weight.sum(axis=0)
        made = level * (weight * stacked).sum(axis=0) / np.where(total > 0, total, 1.0)
        left = float(np.square(delta - made).sum())
    return _Draw(kept=kept, factors=level * shares, left=left)


def _nearest_sets(delta: Floats, sets: Sequence[tuple[tuple[int, ...], Floats]], stacked: Floats) -> Floats:
    """Choose value by value which parents are left; none if the value is the base's."""
    best, kept = np.abs(delta), np.zeros_like(stacked)
    for chosen, factors in sets:
        error = np.abs(delta - factors @ stacked[list(chosen)])
        nearer = (error < best) & (delta != 0)
        best = np.where(nearer, error, best)
        kept[:, nearer] = 0.0
        for place in chosen:
            kept[place, nearer] = 1.0
    return kept


def _part_of_sum(sizes: Floats, kept: Bools, moved: Bools) -> float:
    total = float(sizes[moved].sum())
    return float(sizes[kept & moved].sum()) / total if total > 0 else 0.0


def _by_rank(
    sizes: Floats, kept: Floats, moved: Bools, factors: Floats, steps: Floats | None
) -> tuple[float, float]:
    """Return how the probability of being kept rises with the rank of a difference, and how unevenly."""
    slopes, uneven = [], []
    for own, held, able, factor in zip(sizes, kept, moved, factors, strict=True):
        ranks = np.argsort(np.argsort(own)) / max(1, len(own) - 1)
        seen = able if steps is None else able & (abs(float(factor)) * own > _VISIBLE * steps)
        tenths = np.minimum((ranks[seen] * _TENTHS).astype(int), _TENTHS - 1)
        counts = np.bincount(tenths, minlength=_TENTHS)
        used = counts >= _FEWEST
        if used.sum() < 3:
            continue
        rates = (np.bincount(tenths, weights=held[seen], minlength=_TENTHS) / np.maximum(counts, 1))[used]
        middles = (np.flatnonzero(used) + 0.5) / _TENTHS
        line = np.polynomial.polynomial.polyfit(middles, rates, 1, w=np.sqrt(counts[used]))
        off = rates - (line[0] + line[1] * middles)
        slopes.append(float(line[1]) / 2)
        uneven.append(float(np.sqrt(np.average(off**2, weights=counts[used]))))
    return (float(np.mean(slopes)), float(np.max(uneven))) if slopes else (0.0, 0.0)


def _signs_elected(tasks: Floats, kept: Floats) -> bool:
    """Say whether differences of opposite signs are hardly ever kept together, unlike those of one sign."""
    together = kept.sum(axis=0) > 1
    same = np.all(np.sign(tasks) == np.sign(tasks[0]), axis=0)
    if len(tasks) != 2 or min(same.sum(), (~same).sum()) < _FEWEST:
        return False
    return bool(together[~same].mean() < _RARELY * together[same].mean())


def fit_elected(delta: Floats, tasks: Sequence[Floats]) -> Sparse | None:
    """Explain differences by the parents' largest ones where these agree in sign (TIES)."""
    size, stacked = float(delta @ delta), np.stack(tasks)
    still = unchanged_share(delta, tasks)
    if still is None or not 0 < still < 1 or size == 0:
        return None
    kept, density = _largest(stacked, 1.0 - still)
    alone = kept & (kept.sum(axis=0) == 1)
    factors = np.asarray(
        [_factor(delta[mask], task[mask]) for mask, task in zip(alone, stacked, strict=True)]
    )
    if not np.all(np.isfinite(factors)) or not np.any(factors):
        return None
    trimmed = np.where(kept, stacked, 0.0)
    shares = _shares_of_all(delta, trimmed, factors)
    level = float(np.mean(factors))
    predictions = []
    # Lone differences count fully if weights are normalised, so their factors are equal whatever the weights
    # were: who won the election then shows in the shares, where all agree.
    for voting in (factors, shares) if shares is not None else (factors,):
        agreeing = np.where(np.sign(trimmed) == np.sign(voting @ trimmed), trimmed, 0.0)
        predictions.append((False, factors, factors @ agreeing))
        if shares is not None:
            weight = shares[:, None] * (agreeing != 0)
            mean = (shares @ agreeing) / np.where(weight.sum(axis=0) > 0, weight.sum(axis=0), 1.0)
            predictions.append((True, level * shares, level * mean))
    normalised, weights, predicted = min(
        predictions, key=lambda item: float(np.square(delta - item[2]).sum())
    )
    return Sparse(
        weights=tuple(map(float, weights)),
        densities=(density,) * len(tasks),
        normalised=normalised,
        left=float(np.square(delta - predicted).sum()),
        size=size,
    )


def _shares_of_all(delta: Floats, trimmed: Floats, factors: Floats) -> Floats | None:
    """Return how the parents are weighted where all of them are kept with one sign, adding up to one."""
    everyone = np.all((np.sign(trimmed) == np.sign(trimmed[0])) & (trimmed != 0), axis=0)
    shared = factors / len(factors)
    if everyone.sum() > 4 * len(trimmed):
        rows = trimmed[:, everyone]
        shared = np.asarray(
            np.linalg.lstsq(rows @ rows.T, rows @ delta[everyone], rcond=1e-10)[0], np.float64
        )
    return shared / shared.sum() if shared.sum() > 0 and np.all(shared > 0) else None


def _largest(tasks: Floats, wanted: float) -> tuple[Bools, float]:
    """Return which differences are kept if this share of places keeps at least one of them."""
    sizes = np.abs(tasks)
    low, high = 0.0, 1.0
    kept = sizes > 0
    density = 1.0
    for _ in range(_STEPS):
        density = (low + high) / 2
        floors = np.quantile(sizes, 1.0 - density, axis=1)
        kept = (sizes >= floors[:, None]) & (sizes > 0)
        if kept.any(axis=0).mean() > wanted:
            high = density
        else:
            low = density
    return np.asarray(kept, np.bool_), density


def _factor(delta: Floats, task: Floats) -> float:
    own = float(task @ task)
    return float(delta @ task) / own if own > 0 else float("nan")
