"""Points in weight space seen from one of them: mixture weights, and whether the others lie around it.

Everything linear follows from inner products of the differences to the candidate, kept per chunk of values so
that intervals need no second pass over the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modelkin.tensors import decode, encode

Floats = NDArray[np.float64]
_CHUNK = 256
"""Values whose residuals may depend on each other: errors of weights are made from sums over chunks."""
_NORMAL_95 = 1.959964
"""The normal quantile of a two-sided interval of 95 %."""
_SINGULAR = 1e-10
"""Directions with less than this share of the largest are rounding: parents that are copies of each other."""
_TURNS = 3
"""In which the weights before rounding are found: each leaves a fraction of what the one before left."""
UNKNOWN_ERROR = 1e3
"""Half width of an interval that too few values leave open: JSON has no infinity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grams:
    """Inner products of differences to the candidate, one matrix per chunk of neighbouring values."""

    chunks: Floats
    """chunks x points x points."""
    n: int

    @property
    def total(self) -> Floats:
        """The sum over all chunks."""
        return np.asarray(self.chunks.sum(axis=0), np.float64)

    @property
    def spread(self) -> float:
        """Mean squared distance between two points; 0 if they are all the same."""
        return mean_distance(self.total)


def grams(candidate: Floats, points: Sequence[Floats]) -> Grams:
    """Return the inner products of the differences between points and the candidate."""
    differences = np.stack([point - candidate for point in points])
    n = differences.shape[1]
    n_chunks = max(1, n // _CHUNK)
    pieces = np.array_split(differences, n_chunks, axis=1) if n_chunks > 1 else [differences]
    return Grams(chunks=np.stack([piece @ piece.T for piece in pieces]), n=n)


def mean_distance(gram: Floats) -> float:
    """Return the mean squared distance between two points."""
    k = len(gram)
    if k < 2:
        return 0.0
    own = np.diagonal(gram)
    distances = own[:, None] + own[None, :] - 2 * gram
    return float(np.maximum(distances, 0)[np.triu_indices(k, 1)].mean())


def mixture(gram: Floats) -> Floats:
    """Return the weights, summing to one, of the mixture of the points closest to the candidate."""
    normal, right = _normal_equations(gram)
    free = np.linalg.lstsq(normal, right, rcond=_SINGULAR)[0]
    return np.asarray([1.0 - free.sum(), *free], np.float64)


def _normal_equations(gram: Floats) -> tuple[Floats, Floats]:
    """Express differences relative to the first point."""
    first = gram[0]
    normal = gram[1:, 1:] - first[None, 1:] - first[1:, None] + first[0]
    right = first[0] - first[1:]
    return normal, right


def residual(gram: Floats, weights: Floats) -> float:
    """Return the squared distance of a mixture from the candidate."""
    return max(0.0, float(weights @ gram @ weights))


def star_residual(gram: Floats) -> float:
    """Return what would be left if the changes from the candidate to the points were orthogonal.

    That is the situation of a common ancestor: mixing its descendants cancels changes, yet nothing was
    merged.
    """
    own = np.diagonal(gram)
    return 0.0 if np.any(own <= 0) else float(1.0 / np.sum(1.0 / own))


def weight_errors(parts: Grams, weights: Floats) -> Floats:
    """Return standard errors of the weights, robust to residuals that differ between chunks."""
    normal, _ = _normal_equations(parts.total)
    inverse = np.linalg.pinv(normal, rcond=_SINGULAR, hermitian=True)
    scores = []
    for chunk in parts.chunks:
        of_chunk, right = _normal_equations(chunk)
        scores.append(right - of_chunk @ weights[1:])
    middle = np.asarray(scores)
    covariance = inverse @ (middle.T @ middle) @ inverse
    free = np.sqrt(np.maximum(np.diagonal(covariance), 0))
    first = float(np.sqrt(max(0.0, covariance.sum())))
    n = len(parts.chunks)
    if n <= len(free) + 1:
        return np.full(len(free) + 1, UNKNOWN_ERROR)
    errors = np.asarray([first, *free]) * _NORMAL_95 * np.sqrt(n / (n - len(free)))
    return np.asarray(errors, np.float64)


def rounded_mixture(weights: Floats, points: Sequence[Floats], dtype: str) -> tuple[Floats, Floats] | None:
    """Return the inner products of a mixture that has these weights once it is stored: stored, and before.

    What rounds back to a parent's number looks as if that parent alone had been taken, so that rounding does
    not only blur weights but moves small ones towards zero: weights fitted to both show how far.

    None for formats whose rounding is not simulated.
    """
    if dtype not in ("F16", "BF16"):
        return None
    before, held = weights, np.stack(points)
    for _ in range(_TURNS):
        made = np.asarray(before @ held, np.float64)
        stored = decode(encode(made.astype(np.float32), dtype), dtype, made.size).reshape(-1)
        if not np.isfinite(stored).all():
            return None
        found = grams(stored.astype(np.float64), points).total, grams(made, points).total
        before = before + weights - mixture(found[0])
    return found


def collinearity(gram: Floats) -> Floats:
    """Return for each point how well the others reproduce it: 1 if its weight cannot be told from theirs."""
    k = len(gram)
    own = np.diagonal(gram)
    distances = own[:, None] + own[None, :] - 2 * gram
    found = np.zeros(k)
    for place in range(k):
        others = [other for other in range(k) if other != place]
        mean = float(distances[place, others].mean())
        if mean <= 0:
            found[place] = 1.0
            continue
        seen = gram[np.ix_(others, others)] - gram[others, place][:, None] - gram[others, place][None, :]
        seen = seen + own[place]
        left = residual(seen, mixture(seen)) if len(others) > 1 else float(seen[0, 0])
        found[place] = 1.0 - left / mean
    return found


def rounding_steps(values: Floats, dtype: str) -> Floats | None:
    """Return the distance of neighbouring stored numbers, for each value; None for coded formats."""
    bits = {"F64": 52, "F32": 23, "F16": 10, "BF16": 7}.get(dtype)
    if bits is None:
        return None
    size = np.abs(values)
    exponents = np.floor(np.log2(np.where(size > 0, size, 1.0)))
    return np.asarray(np.where(size > 0, np.exp2(exponents - bits), 0.0), np.float64)


def rounding_variance(values: Floats, dtype: str) -> float | None:
    """Return what rounding to the stored format adds to squared distances; None for coded formats."""
    steps = rounding_steps(values, dtype)
    return None if steps is None else float((steps**2).sum() / 12.0)
