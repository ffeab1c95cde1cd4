"""Cosines and correlations, with what each is on average when one vector's values are reordered.

With rho the cosine of a vector with the vector of ones and r Pearson's correlation::

    cos(a, b) = rho_a rho_b + r sqrt(1 - rho_a^2) sqrt(1 - rho_b^2)

Over all reorderings of b's values, r has mean 0 and standard deviation 1 / sqrt(n - 1), exactly.
"""

from __future__ import annotations

import numpy as np

from ._pairs import Pairs
from ._stack import Floats, Stack


def cosine(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the cosine of the angle between the vectors."""
    return _clipped(pairs.inner(a.units, b.units))


def cosine_expectation(a: Stack, b: Stack, pairs: Pairs) -> tuple[Floats, Floats | None]:
    """Return rho_a rho_b and the standard deviation of what is left."""
    return mean_direction(a, b, pairs), _room(a, b, pairs) * _sd(a.n)


def mean_direction(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the part of the cosine that comes from the means alone."""
    mine, theirs = pairs.pick(a.rho, b.rho)
    return np.asarray(mine * theirs, dtype=np.float64)


def unchanged(value: Floats) -> tuple[Floats, Floats]:
    """Say that no reordering changes the value."""
    return value, np.zeros_like(value)


def pearson(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the correlation: the cosine after each vector's mean is taken away."""
    return _clipped(pairs.inner(a.directions, b.directions))


def correlation_expectation(a: Stack, b: Stack, pairs: Pairs) -> tuple[Floats, Floats | None]:
    """Return 0 and 1 / sqrt(n - 1)."""
    zeros = np.zeros(len(pairs))
    return zeros, zeros + _sd(a.n)


def spearman(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the correlation of the ranks."""
    return _clipped(pairs.inner(a.rank_directions, b.rank_directions))


def excess_cosine(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the cosine minus the part from the means, without subtracting nearly equal numbers."""
    return pearson(a, b, pairs) * _room(a, b, pairs)


def excess_expectation(a: Stack, b: Stack, pairs: Pairs) -> tuple[Floats, Floats | None]:
    """Return 0 and the standard deviation of the cosine."""
    return np.zeros(len(pairs)), _room(a, b, pairs) * _sd(a.n)


def cosine_about_one(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the cosine of both vectors minus one."""
    return cosine(a.about_one, b.about_one, pairs)


def about_one_expectation(a: Stack, b: Stack, pairs: Pairs) -> tuple[Floats, Floats | None]:
    """Return what the means of both vectors minus one make of it."""
    return cosine_expectation(a.about_one, b.about_one, pairs)


def _room(a: Stack, b: Stack, pairs: Pairs) -> Floats:
    """Return the most that a correlation of 1 could add to the cosine."""
    mine, theirs = pairs.pick(a.spread, b.spread)
    return np.asarray(mine * theirs, dtype=np.float64)


def _sd(n: int) -> float:
    return float(1.0 / np.sqrt(n - 1)) if n > 1 else 0.0


def _clipped(values: Floats) -> Floats:
    return np.asarray(np.clip(values, -1.0, 1.0), dtype=np.float64)
