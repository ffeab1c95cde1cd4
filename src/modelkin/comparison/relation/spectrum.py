"""What the singular values of a difference say: few directions, chance, or neither. Pure arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.stats import root_mean_square

Floats = npt.NDArray[np.float32]

_FLIPS = 3
"""Draws of random signs. The largest singular value of noise varies by a percent or so between draws."""
ROUNDED = 1.5
"""What is left after a few directions may be this many times as large as rounding alone. Merged adapters of
the zoo leave 0.9 to 1.0; full training leaves 2.9 and more (docs/relations.md)."""
_MOST_OF_RANK = 3
"""A rank counts as low up to the smaller side over this: beyond it, any difference has such a rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrum:
    """The singular values of one difference, compared with what chance and rounding give."""

    rank: int | None
    """Fewest directions that leave no more than rounding; None if that takes too many of them."""
    most: int
    """The largest rank that was searched for."""
    left: float
    """Size of what is left after these directions (or after `most`), in units of what rounding leaves."""
    over_chance: float
    """Largest singular value over the largest of the same numbers with random signs: 1 is chance."""
    over_marchenko_pastur: float
    """The same over the edge for independent numbers of one size, after Marchenko and Pastur."""
    gap: float | None
    """How far singular values drop after the last direction; None if none were counted."""


def spectrum(difference: Floats, steps: Floats | float, *, seed: int) -> Spectrum:
    """Judge the singular values of a difference of two matrices.

    Null hypothesis of `over_chance`: the signs of the numbers are independent and fair, whatever their sizes.
    It is a comparison with a few draws, not a p-value.

    Parameters
    ----------
    difference
        Rows of both models, one minus the other.
    steps
        Distance between neighbouring numbers that can be stored, at each place or everywhere.
    seed
        Draws the signs.
    """
    wide = difference if difference.shape[0] <= difference.shape[1] else difference.T
    n_rows, n_columns = wide.shape
    values = _singular(wide)
    rng = np.random.default_rng([seed, 67])
    flipped = max(float(_top(_signed(wide, rng))) for _ in range(_FLIPS))
    size = root_mean_square(wide)
    edge = size * (math.sqrt(n_rows) + math.sqrt(n_columns))
    rounding = root_mean_square(np.atleast_2d(steps)) / math.sqrt(12)
    most = max(1, n_rows // _MOST_OF_RANK)
    energy = np.cumsum(values[::-1] ** 2)[::-1]  # of this singular value and all smaller ones
    left = np.sqrt(np.maximum(np.append(energy, 0.0), 0.0) / wide.size)
    # Removed directions took some of the rounding with them.
    free = np.sqrt(np.maximum(1 - np.arange(len(left)) * (n_rows + n_columns) / wide.size, 0.05))
    fits = np.flatnonzero(left[: most + 1] <= ROUNDED * rounding * free[: most + 1])
    rank = int(fits[0]) if len(fits) else None
    at = most if rank is None else rank
    return Spectrum(
        rank=rank,
        most=most,
        left=float(left[at] / rounding) if rounding > 0 else math.inf,
        over_chance=float(values[0]) / flipped if flipped > 0 else 1.0,
        over_marchenko_pastur=float(values[0]) / edge if edge > 0 else 1.0,
        gap=_gap(values, rank),
    )


def leading_direction(difference: Floats) -> Floats:
    """Return the left singular vector of the largest singular value."""
    exact = np.asarray(difference, np.float64)
    _, vectors = np.linalg.eigh(exact @ exact.T)
    return np.asarray(vectors[:, -1], np.float32)


def _gap(values: npt.NDArray[np.float64], rank: int | None) -> float | None:
    if not rank or rank >= len(values) or values[rank] <= 0:
        return None
    return float(values[rank - 1] / values[rank])


def _singular(wide: Floats) -> npt.NDArray[np.float64]:
    """Return singular values, the largest first, through the smaller Gram matrix: a hundred times faster."""
    exact = np.asarray(wide, np.float64)  # of one array with itself, half of the product is enough
    found: npt.NDArray[np.float64] = np.sqrt(np.maximum(np.linalg.eigvalsh(exact @ exact.T)[::-1], 0.0))
    return found


def _top(wide: Floats) -> float:
    """Return the largest singular value by power iteration: only its size is wanted."""
    gram = wide @ wide.T
    vector: Floats = np.ones(len(gram), np.float32)
    for _ in range(60):
        turned = np.asarray(gram @ vector, np.float32)
        norm = float(np.linalg.norm(turned))
        if norm == 0:
            return 0.0
        vector = np.asarray(turned / np.float32(norm), np.float32)
    return math.sqrt(max(0.0, float(vector @ (gram @ vector))))


def _signed(wide: Floats, rng: np.random.Generator) -> Floats:
    """Give every number a random sign: eight are drawn with each byte, and flip the bit that holds it."""
    drawn = np.frombuffer(rng.bytes(-(-wide.size // 8)), np.uint8)
    turned = np.left_shift(np.unpackbits(drawn, count=wide.size).reshape(wide.shape), 31, dtype=np.uint32)
    turned ^= np.asarray(wide, np.float32).view(np.uint32)
    return turned.view(np.float32)
