"""How much of a cosine is the common mean direction, and how much is agreement of values.

For vectors with means m, standard deviations s and ``rho = m / sqrt(m^2 + s^2)``::

    cos(a, b) = rho_a rho_b + r sqrt(1 - rho_a^2) sqrt(1 - rho_b^2)

where r is Pearson's correlation. The first term is what the cosine would be on average if the values of one
vector were shuffled. Norm gains are all positive, with rho near 1: unrelated ones have cosines of 0.95 to
0.99.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CosineDecompositions:
    """The decomposition of every pair of vectors: candidate vectors as rows, base vectors as columns."""

    cosine: npt.NDArray[np.float64] = field(repr=False)
    rho_candidate: npt.NDArray[np.float64] = field(repr=False)
    rho_base: npt.NDArray[np.float64] = field(repr=False)
    pearson: npt.NDArray[np.float64] = field(repr=False)
    defined: npt.NDArray[np.bool_] = field(repr=False)
    """Where `pearson` has a meaning; it is 0 elsewhere."""
    mean_direction_part: npt.NDArray[np.float64] = field(repr=False)
    correlated_part: npt.NDArray[np.float64] = field(repr=False)


def cosine_decomposition(*, candidate: npt.ArrayLike, base: npt.ArrayLike) -> CosineDecomposition:
    """Split the cosine of two vectors into mean direction and correlation.

    Not a test: for a p-value give the vectors to `joint_features` and `axis_test`. A constant vector has no
    correlation; its cosine is all mean direction. A zero vector has no cosine and is an error, as are values
    that are not finite.
    """
    first, second = _vectors(candidate, "candidate"), _vectors(base, "base")
    both = cosine_decompositions(candidate=first[None, :], base=second[None, :])
    flat = [name for name, v in (("candidate", first), ("base", second)) if (v == v[0]).all()]
    return CosineDecomposition(
        cosine=float(both.cosine[0, 0]),
        rho_candidate=float(both.rho_candidate[0]),
        rho_base=float(both.rho_base[0]),
        pearson=None if flat else float(both.pearson[0, 0]),
        mean_direction_part=float(both.mean_direction_part[0, 0]),
        correlated_part=float(both.correlated_part[0, 0]),
        reason=_reason(flat),
    )


def _reason(flat: list[str]) -> Message | None:
    if len(flat) == 2:
        return say("flat-both")
    return say("flat", side=say(f"side.{flat[0]}")) if flat else None


def cosine_decompositions(*, candidate: npt.ArrayLike, base: npt.ArrayLike) -> CosineDecompositions:
    """Split the cosines of all pairs of rows, in double precision. Zero rows are an error."""
    first, second = _matrix(candidate, "candidate"), _matrix(base, "base")
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"base: expected vectors of length {first.shape[1]}, got {second.shape[1]}")
    a, b = _Parts(first, "candidate"), _Parts(second, "base")
    defined = a.varies[:, None] & b.varies[None, :]
    pearson = np.where(defined, a.directions @ b.directions.T, 0.0)
    mean_part = np.outer(a.rho, b.rho)
    correlated = pearson * np.outer(a.spread, b.spread)
    return CosineDecompositions(
        cosine=(first / a.norm[:, None]) @ (second / b.norm[:, None]).T,
        rho_candidate=a.rho,
        rho_base=b.rho,
        pearson=pearson,
        defined=defined,
        mean_direction_part=mean_part,
        correlated_part=correlated,
    )


class _Parts:
    """Each row's mean direction, and the direction of what is left without it."""

    def __init__(self, rows: npt.NDArray[np.float64], name: str) -> None:
        self.norm = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        if not (self.norm > 0.0).all():
            raise ValueError(f"{name}: vector {int(np.argmin(self.norm))} is zero and has no cosine")
        mean = rows.mean(axis=1)
        centred = rows - mean[:, None]
        size = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        self.varies = ~(rows == rows[:, :1]).all(axis=1) & (size > 0.0)
        self.rho = np.where(self.varies, mean * np.sqrt(rows.shape[1]) / self.norm, np.sign(rows[:, 0]))
        # Straight from the deviations: 1 - rho^2 would lose all digits where rho is near 1.
        self.spread = np.where(self.varies, size / self.norm, 0.0)
        self.directions = centred / np.where(size > 0.0, size, 1.0)[:, None]


def _vectors(values: npt.ArrayLike, name: str) -> npt.NDArray[np.float64]:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not len(vector):
        raise ValueError(f"{name}: expected a vector, got shape {vector.shape}")
    return vector


def _matrix(values: npt.ArrayLike, name: str) -> npt.NDArray[np.float64]:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name}: expected a matrix of vectors in rows, got shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name}: expected finite values")
    return matrix
