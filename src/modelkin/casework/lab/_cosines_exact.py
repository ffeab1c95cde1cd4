"""Cosines of independent normal vectors, exactly: mean and standard deviation in any dimension.

For ``a = m + s g`` with independent standard normal g the direction ``a / |a|`` has its mean along the vector
of ones. So the mean of a cosine is the product of two numbers, one for each vector, and none of them knows
the other vector: a cosine of 0.99 needs no relation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from modelkin.errors import UsageError

__all__ = ["ExactCosine", "exact_cosine", "limit_cosine", "positive_share"]

_NODES = 400
_REACH = 12.0
"""Standard deviations of the integrands that are integrated; beyond that they are below 1e-31."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactCosine:
    """The cosine of two independent normal vectors."""

    mean: float
    spread: float
    """Standard deviation over pairs."""


def exact_cosine(*, means: tuple[float, float], sigmas: tuple[float, float], dimension: int) -> ExactCosine:
    """Return mean and standard deviation of the cosine of two independent normal vectors.

    With t the length of the mean vector over sigma, ``sqrt(d) m / s``, the mean direction has the length::

        c(t) = t sqrt(2 / pi) * integral over x from 0 to 1 of exp(-t^2 x^2 / 2) (1 - x^2)^((d - 1) / 2)

    and the mean square of the part along the ones is ``p(t) = 1 - q(t)`` with::

        q(t) = (d - 1) * integral over x from 0 to 1 of x exp(-t^2 x^2 / 2) (1 - x^2)^(d / 2 - 1)

    The cosine has the mean ``c1 c2`` and the mean square ``p1 p2 + q1 q2 / (d - 1)``.

    Parameters
    ----------
    means, sigmas
        Mean and standard deviation of the values of both vectors; sigmas are positive.
    dimension
        Length of the vectors, at least 2.
    """
    if dimension < 2 or min(sigmas) <= 0:
        raise UsageError(
            "cosine", f"expected sigmas above 0 and 2 dimensions or more, got {sigmas}, {dimension}"
        )
    lengths = [math.sqrt(dimension) * m / s for m, s in zip(means, sigmas, strict=True)]
    first, second = (_mean_direction(abs(t), dimension) for t in lengths)
    across_1, across_2 = (_across(abs(t), dimension) for t in lengths)
    mean = math.copysign(first, lengths[0]) * math.copysign(second, lengths[1])
    # Two numbers near 1 are subtracted: spreads below 1e-7 have no digits left, and are far from any study.
    along = (1 - across_1) * (1 - across_2) - mean * mean
    return ExactCosine(mean=mean, spread=math.sqrt(max(0.0, along + across_1 * across_2 / (dimension - 1))))


def limit_cosine(*, means: tuple[float, float], sigmas: tuple[float, float]) -> float:
    """Return what the cosine of long vectors approaches: the product of both rho = m / sqrt(m^2 + s^2)."""
    rho = [m / math.hypot(m, s) for m, s in zip(means, sigmas, strict=True)]
    return rho[0] * rho[1]


def positive_share(mean: float, sigma: float) -> float:
    """Return the expected share of positive values."""
    return 0.5 * math.erfc(-mean / sigma / math.sqrt(2))


def _mean_direction(t: float, dimension: int) -> float:
    x, weights = _grid(t, dimension)
    values = np.exp(-0.5 * (t * x) ** 2 + 0.5 * (dimension - 1) * np.log1p(-x * x))
    return t * math.sqrt(2 / math.pi) * float(weights @ values)


def _across(t: float, dimension: int) -> float:
    """Return the mean square of what is left of a unit vector without its part along the ones."""
    x, weights = _grid(t, dimension)
    values = x * np.exp(-0.5 * (t * x) ** 2 + (0.5 * dimension - 1) * np.log1p(-x * x))
    return (dimension - 1) * float(weights @ values)


def _grid(t: float, dimension: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return places and weights over the part of 0 to 1 where the integrands are not zero."""
    end = min(1.0, _REACH / math.sqrt(t * t + max(1, dimension - 2)))
    nodes, weights = _legendre()
    return end * (nodes + 1) / 2, end * weights / 2


@cache
def _legendre() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights
