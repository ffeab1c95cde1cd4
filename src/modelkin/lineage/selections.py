"""Merges that choose differences by a rule and not by chance: breadcrumbs, SCE, and the ratio of Model Stock.

Each is a prediction from the parents and their base, with few or no fitted numbers. Pure arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from modelkin.lineage.patterns import Sparse, unchanged_share

Floats = NDArray[np.float64]

_LOWEST = np.arange(0.0, 0.96, 0.05)
"""Shares of the smallest differences that are tried."""
_HIGHEST = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2)
"""Shares of the largest differences that are tried; recipes usually name a hundredth."""
_CLEARLY = 0.5
"""Dropping the largest counts if it leaves at most this share of what keeping them leaves."""
_SEARCHED = 8_192
"""Values used to search for thresholds; ranks are those among all."""
_AROUND = np.arange(-0.1, 0.101, 0.01)
"""Shares around that of changed values that are tried: some differences cancel, or are rounded away."""
_TINY = 1e-6
"""Keeps weights and denominators away from zero."""


def fit_banded(delta: Floats, tasks: Sequence[Floats]) -> Sparse | None:
    """Explain differences by those of middle size: the smallest and the largest are dropped (breadcrumbs)."""
    size, stacked = float(delta @ delta), np.stack(tasks)
    still = unchanged_share(delta, tasks)
    if still is None or not 0 < still < 1 or size == 0:
        return None
    ranks = np.argsort(np.argsort(np.abs(stacked), axis=1), axis=1) / max(1, stacked.shape[1])
    every = max(1, stacked.shape[1] // _SEARCHED)
    delta, stacked, ranks = delta[::every], stacked[:, ::every], ranks[:, ::every]
    best: tuple[float, float, float, bool, Floats] | None = None
    without = float(delta @ delta)
    for high in _HIGHEST:
        found = _best_low(delta, stacked, ranks, _LOWEST, high)
        if high == 0.0:
            without = found[0]
        if best is None or found[0] < best[0]:
            best = found
    assert best is not None
    for width in (0.02, 0.004):
        lows = best[1] + width * np.arange(-2, 3)
        highs = np.maximum(0.0, best[2] + width / 4 * np.arange(-2, 3))
        for high in highs:
            found = _best_low(delta, stacked, ranks, lows[(lows >= 0) & (lows < 1 - high)], float(high))
            best = min(best, found, key=lambda item: item[0])
    left, low, high, elected, factors = best
    if high <= 0 or left > _CLEARLY * without:
        return None
    return Sparse(
        weights=tuple(map(float, factors)),
        densities=(1.0 - low - high,) * len(tasks),
        normalised=False,
        elected=elected,
        left=left * size / float(delta @ delta) if delta.any() else size,
        size=size,
        gamma=high,
    )


def _best_low(
    delta: Floats, stacked: Floats, ranks: Floats, lows: Floats, high: float
) -> tuple[float, float, float, bool, Floats]:
    """Return what the best lower threshold leaves, both thresholds, elected signs or not, and factors."""
    best = (float(delta @ delta), 0.0, high, False, np.zeros(len(stacked)))
    for low in lows:
        trimmed = np.where((ranks >= low) & (ranks < 1 - high), stacked, 0.0)
        factors = _factors(delta, trimmed)
        for elected in (False, True):
            used = trimmed
            if elected:
                used = np.where(np.sign(trimmed) == np.sign(factors @ trimmed), trimmed, 0.0)
                factors = _factors(delta, used)
            left = float(np.square(delta - factors @ used).sum())
            if left < best[0]:
                best = (left, float(low), high, elected, factors)
    return best


def _factors(delta: Floats, tasks: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(tasks @ tasks.T, tasks @ delta, rcond=1e-10)[0], np.float64)


def fit_by_variance(delta: Floats, tasks: Sequence[Floats]) -> Sparse | None:
    """Explain differences by those in which the parents vary most, weighted by their energy (SCE).

    Only the selected share is fitted.
    """
    size, stacked = float(delta @ delta), np.stack(tasks)
    variance = stacked.var(axis=0)
    varied = np.flatnonzero(variance > 0)
    if size == 0 or len(varied) < len(stacked) or len(stacked) < 2:
        return None
    order = varied[np.argsort(-variance[varied], kind="stable")]
    near = float((delta[varied] != 0).mean())
    best: Sparse | None = None
    for density in sorted({1.0, *np.clip(near + _AROUND, 0.01, 1.0).round(3).tolist()}):
        chosen = np.zeros(stacked.shape[1], np.bool_)
        chosen[order[: int(len(varied) * density)]] = True
        if density == 1.0:
            chosen[:] = True
        held = np.where(chosen, stacked, 0.0)
        energies = np.square(held).mean(axis=1)
        shares = energies / energies.sum() if energies.sum() > 0 else np.full(len(held), 1 / len(held))
        majority = np.where(held.sum(axis=0) >= 0, 1.0, -1.0)
        weight = shares[:, None] * (np.sign(held) == majority)
        made = (weight * held).sum(axis=0) / np.maximum(weight.sum(axis=0), _TINY)
        left = float(np.square(delta - made).sum())
        if best is None or left < best.left:
            best = Sparse(
                weights=tuple(map(float, shares)),
                densities=(density,) * len(stacked),
                normalised=True,
                elected=True,
                left=left,
                size=size,
            )
    return best


def fit_stock(delta: Floats, tasks: Sequence[Floats]) -> Sparse | None:
    """Explain differences by the mean of the parents' times a ratio from their angle (Model Stock)."""
    size, stacked = float(delta @ delta), np.stack(tasks)
    lengths = np.linalg.norm(stacked, axis=1)
    k = len(stacked)
    if size == 0 or k < 2 or not np.all(lengths > 0):
        return None
    cosine = float(
        np.mean([stacked[i] @ stacked[j] / (lengths[i] * lengths[j]) for i, j in combinations(range(k), 2)])
    )
    below = 1 + (k - 1) * cosine
    ratio = k * cosine / below if abs(below) > _TINY else 0.0
    return Sparse(
        weights=(ratio / k,) * k,
        densities=(1.0,) * k,
        normalised=False,
        left=float(np.square(delta - ratio * stacked.mean(axis=0)).sum()),
        size=size,
    )
