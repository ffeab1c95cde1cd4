"""Factors and mixtures that leave a model as it is: undone before matrices are subtracted. Pure arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

_ROUNDS = 8
"""Rows and columns are fitted in turn. The fit only gets better, and all that counts is whether it halves the
difference."""
BETTER = 0.5
"""Factors count if they at least halve the difference: they do not undo training."""


def difference_size(candidate: Floats, base: Floats) -> float:
    """Return the size of a difference relative to the base."""
    size = float(np.linalg.norm(base))
    return float(np.linalg.norm(candidate - base)) / size if size else np.inf


def with_factors(candidate: Floats, base: Floats) -> tuple[Floats, bool]:
    """Give each row and each column of the base the factor that fits best; say whether that explains much.

    A factor for every column is what AWQ and folded norms leave in what reads the residual stream, one for
    every row what scaled units leave.
    """
    found = _fitted_factors(candidate, base)
    if found is None:
        return base, False
    rows, columns = found
    fitted = np.asarray(rows[:, None] * base.astype(np.float64) * columns, np.float32)
    was, after = difference_size(candidate, base), difference_size(candidate, fitted)
    return (fitted, True) if after < BETTER * was else (base, False)


def factors_of(candidate: Floats, base: Floats) -> tuple[Doubles, Doubles]:
    """Return the factors of rows and of columns; NaN for those of zeros, or if factors explain little.

    A number may be moved from all rows to all columns.
    """
    rows, columns = _fitted_factors(candidate, base) or (
        np.full(len(base), np.nan),
        np.full(base.shape[1], np.nan),
    )
    held = base != 0
    return np.where(held.any(axis=1), rows, np.nan), np.where(held.any(axis=0), columns, np.nan)


def _fitted_factors(candidate: Floats, base: Floats) -> tuple[Doubles, Doubles] | None:
    """Fit rows and columns in turn; None as soon as that cannot explain enough."""
    rows, columns = np.ones(len(base)), np.ones(base.shape[1])
    theirs = base.astype(np.float64)
    # Each round is a product with a vector, once the products of all numbers are computed.
    products, squares = candidate * theirs, theirs * theirs
    everything = float(np.sum(np.square(candidate, dtype=np.float64)))
    left = before = float(np.sum(np.square(candidate - base, dtype=np.float64)))
    for further in reversed(range(_ROUNDS)):
        columns = _fitted(rows @ products, rows**2 @ squares)
        along = products @ columns
        rows = _fitted(along, squares @ columns**2)
        now = everything - float(rows @ along)
        left, gained = now, left - now
        if left - further * gained > BETTER**2 * before:  # if every further round were as good as this one
            return None
    return rows, columns


def mixed_in_heads(candidate: Floats, base: Floats, head: int) -> tuple[Floats, bool]:
    """Find the best-fitting mixture of the base's rows within each head; say whether that explains much.

    Values of a head may be mixed freely, and pairs of queries and keys rotated, if what reads them is too.
    """
    if head < 2 or len(base) % head or base.shape[1] < 3 * head:
        return base, False
    fitted = np.empty_like(base)
    for at, mixture in enumerate(mixtures_of(candidate, base, head)):
        fitted[at * head : (at + 1) * head] = mixture @ base[at * head : (at + 1) * head].astype(np.float64)
    before, after = difference_size(candidate, base), difference_size(candidate, fitted)
    return (fitted, True) if after < BETTER * before else (base, False)


def mixtures_of(candidate: Floats, base: Floats, head: int) -> tuple[Doubles, ...]:
    """Return for each head by which matrix its rows are best made from the base's."""
    found: list[Doubles] = []
    for start in range(0, len(base), head):
        block, wanted = (side[start : start + head].astype(np.float64) for side in (base, candidate))
        mixture, *_ = np.linalg.lstsq(block.T, wanted.T, rcond=None)
        found.append(np.asarray(mixture.T, np.float64))
    return tuple(found)


def _fitted(product: Doubles, square: Doubles) -> Doubles:
    fitted: Doubles = np.divide(product, square, out=np.ones_like(product), where=square > 0)
    return fitted
