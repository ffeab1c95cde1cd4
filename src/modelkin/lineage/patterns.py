"""How a mixture was made, told from single values: arcs, dropped differences, elected signs.

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

_ROUNDS = 4
_MOST_SETS = 31
_STEPS = 40
_FEWEST = 100
_RARELY = 0.25
PARALLEL = 0.9995
"""Cosine above which mergekit's slerp is a straight line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arc:
    """The nearest point of the arc between two tensors."""

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
    """Of dropped differences: whether those of the lesser sign were dropped, too."""
    left: float
    """Squared distance of the prediction from the candidate."""
    size: float
    """Squared distance of the candidate from the base."""
    magnitude: float = 1.0
    """Mean size of the parents' differences that were kept, over that of all: 1 if chance chose them."""

    @property
    def explained(self) -> float:
        """Part of the candidate's difference from the base that is predicted."""
        return 1.0 - self.left / self.size if self.size > 0 else 0.0


def nearest_arc(candidate: Floats, first: Floats, second: Floats) -> Arc | None:
    """Fit the place on the arc between two tensors; None if they span no plane or it is not between them."""
    a, b, c = float(first @ first), float(second @ second), float(first @ second)
    flat = a * b - c * c
    if flat <= 1e-12 * a * b or a == 0 or b == 0:
        return None
    right = float(first @ candidate), float(second @ candidate)
    shares = (b * right[0] - c * right[1]) / flat, (a * right[1] - c * right[0]) / flat
    if shares[0] <= 0 and shares[1] <= 0:
        return None
    cosine = c / np.sqrt(a * b)
    angle = float(np.arccos(np.clip(cosine, -1, 1)))
    # shares are sin((1-t) angle) and sin(t angle) over sin(angle): their ratio gives t.
    t = float(np.arctan2(shares[1] * np.sin(angle), shares[0] + shares[1] * np.cos(angle))) / angle
    if not -0.05 <= t <= 1.05:
        return None
    made = (np.sin((1 - t) * angle) * first + np.sin(t * angle) * second) / np.sin(angle)
    return Arc(t=t, left=float(np.square(candidate - made).sum()), cosine=float(cosine))


def unchanged_share(delta: Floats, tasks: Sequence[Floats]) -> float | None:
    """Return the share of values that stayed those of the base though every parent changed them."""
    moved = np.all([task != 0 for task in tasks], axis=0)
    return float((delta[moved] == 0).mean()) if moved.any() else None


def fit_dropped(delta: Floats, tasks: Sequence[Floats]) -> Sparse | None:
    """Explain differences by parents' differences of which a random part was kept and scaled up (DARE).

    Every value is then zero or the sum of a few fixed multiples of the parents' differences: which
    of them, is chosen value by value, and the multiples are fitted to the choice.
    """
    size, stacked = float(delta @ delta), np.stack(tasks)
    k = len(tasks)
    still = unchanged_share(delta, tasks)
    sets = [chosen for n in range(1, k + 1) for chosen in combinations(range(k), n)]
    if still is None or not 0 < still < 1 or size == 0 or len(sets) > _MOST_SETS:
        return None
    density = 1.0 - still ** (1.0 / k)
    factors = np.linalg.lstsq(stacked @ stacked.T, stacked @ delta, rcond=1e-10)[0] / density
    kept = np.zeros_like(stacked)
    left = size
    for _ in range(_ROUNDS):
        best, kept = np.abs(delta), np.zeros_like(stacked)
        for chosen in sets:
            error = np.abs(delta - factors[list(chosen)] @ stacked[list(chosen)])
            nearer = (error < best) & (delta != 0)
            best = np.where(nearer, error, best)
            kept[:, nearer] = 0.0
            for place in chosen:
                kept[place, nearer] = 1.0
        masked = kept * stacked
        factors = np.linalg.lstsq(masked @ masked.T, masked @ delta, rcond=1e-10)[0]
        left = float(np.square(delta - factors @ masked).sum())
    moved = stacked != 0
    elected = _signs_elected(stacked, kept)
    if elected:
        # Where signs differ one side lost after the draw: the draw shows where they agree.
        moved = moved & np.all(np.sign(stacked) == np.sign(stacked[0]), axis=0)
    shares = [float(kept[i][moved[i]].mean()) if moved[i].any() else 0.0 for i in range(k)]
    sizes = np.abs(stacked)
    chosen_mean = float(sizes[kept > 0].mean()) if (kept > 0).any() else 0.0
    return Sparse(
        weights=tuple(float(factor * share) for factor, share in zip(factors, shares, strict=True)),
        densities=tuple(shares),
        normalised=False,
        elected=elected,
        left=left,
        size=size,
        magnitude=chosen_mean / float(sizes[moved].mean()) if moved.any() else 1.0,
    )


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
    elected = np.sign(factors @ trimmed)
    agreeing = np.where(np.sign(trimmed) == elected, trimmed, 0.0)
    everyone = np.all(agreeing != 0, axis=0)
    shared = factors / len(factors)
    if everyone.sum() > 4 * len(tasks):
        rows = agreeing[:, everyone]
        shared = np.linalg.lstsq(rows @ rows.T, rows @ delta[everyone], rcond=1e-10)[0]
    level = float(np.mean(factors))
    shares = shared / shared.sum() if shared.sum() > 0 and np.all(shared > 0) else None
    predictions = [(False, factors, factors @ agreeing)]
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


def _largest(tasks: Floats, wanted: float) -> tuple[Bools, float]:
    """Return which differences are kept if so large a share of places keeps at least one of them."""
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
