"""How much of a cosine is the common mean direction, and how much is agreement of values.

For vectors with means m, standard deviations s and ``rho = m / sqrt(m^2 + s^2)``::

    cos(a, b) = rho_a rho_b + r sqrt(1 - rho_a^2) sqrt(1 - rho_b^2)

where r is Pearson's correlation. The first term is what the cosine would be on average if the values of one
vector were shuffled. Norm gains are all positive, with rho near 1: unrelated ones have cosines of 0.95 to
0.99.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.message import Message, say


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineDecomposition:
    """A cosine and its two parts. It describes; it is not a test."""

    cosine: float
    rho_candidate: float
    """Cosine of the candidate with the vector of ones: its mean over its root mean square."""
    rho_base: float
    pearson: float | None
    """None if a vector is constant; `reason` says which."""
    mean_direction_part: float
    """The product of both rho: exactly the mean of the cosine over all shuffles."""
    correlated_part: float
    """What values in the same places add to it; 0 if a vector is constant."""
    reason: Message | None

    @property
    def excess_cosine(self) -> float:
        """Cosine minus its mean over shuffles."""
        return self.correlated_part

    @property
    def room(self) -> float:
        """The most that a correlation of 1 could add: near 0, the cosine says nothing about agreement."""
        return float(np.sqrt(max(0.0, 1.0 - self.rho_candidate**2) * max(0.0, 1.0 - self.rho_base**2)))


def cosine_decomposition(*, candidate: npt.ArrayLike, base: npt.ArrayLike) -> CosineDecomposition:
    """Split the cosine of two vectors into mean direction and correlation.

    Not a test: for a p-value, pass the vectors to `joint_features` and `axis_test`. A constant vector has no
    correlation; its cosine is all mean direction. A zero vector has no cosine and is an error, as are values
    that are not finite.
    """
    first, second = _row(candidate, "candidate"), _row(base, "base")
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"base: expected a vector of length {first.shape[1]}, got {second.shape[1]}")
    a, b = _Parts(first, "candidate"), _Parts(second, "base")
    pearson = float((a.direction @ b.direction.T)[0, 0]) if a.varies and b.varies else 0.0
    flat = [name for name, row in (("candidate", first), ("base", second)) if (row == row[0, 0]).all()]
    return CosineDecomposition(
        cosine=float(((first / a.norm) @ (second / b.norm).T)[0, 0]),
        rho_candidate=a.rho,
        rho_base=b.rho,
        pearson=None if flat else pearson,
        mean_direction_part=a.rho * b.rho,
        correlated_part=pearson * (a.spread * b.spread),
        reason=_reason(flat),
    )


def _reason(flat: list[str]) -> Message | None:
    if len(flat) == 2:
        return say("flat-both")
    return say("flat", side=say(f"side.{flat[0]}")) if flat else None


class _Parts:
    """The mean direction of a row, and the direction of what is left without it."""

    def __init__(self, row: npt.NDArray[np.float64], name: str) -> None:
        self.norm = float(np.sqrt(np.einsum("ij,ij->i", row, row))[0])
        if not self.norm > 0.0:
            raise ValueError(f"{name}: the vector is zero and has no cosine")
        mean = float(row.mean(axis=1)[0])
        centred = row - mean
        size = float(np.sqrt(np.einsum("ij,ij->i", centred, centred))[0])
        self.varies = size > 0.0 and not (row == row[0, 0]).all()
        self.rho = mean * math.sqrt(row.shape[1]) / self.norm if self.varies else float(np.sign(row[0, 0]))
        # Straight from the deviations: 1 - rho^2 would lose all digits where rho is near 1.
        self.spread = size / self.norm if self.varies else 0.0
        self.direction = centred / (size if size > 0.0 else 1.0)


def _row(values: npt.ArrayLike, name: str) -> npt.NDArray[np.float64]:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not len(vector):
        raise ValueError(f"{name}: expected a vector, got shape {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name}: expected finite values")
    return vector[None, :]


def limit_cosine(*, means: tuple[float, float], sigmas: tuple[float, float]) -> float:
    """Return what the cosine of long independent vectors approaches, whatever they are.

    It is the product of both rho = m / sqrt(m^2 + s^2), and does not depend on any relation.
    """
    rho = [m / math.hypot(m, s) for m, s in zip(means, sigmas, strict=True)]
    return rho[0] * rho[1]


def positive_share(mean: float, sigma: float) -> float:
    """Return the expected share of positive values among normal ones."""
    return 0.5 * math.erfc(-mean / sigma / math.sqrt(2))
