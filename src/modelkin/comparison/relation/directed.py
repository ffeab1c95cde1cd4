"""A change of one direction below factors, as edits leave that put norms back. Pure arrays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

_PROMISING = 0.1
"""Share of the squares of a change that may be left after one round: edits of the zoo leave 0.0006, training
most."""
_ROUNDS = 8
"""Each fits all columns and the direction in turn, and leaves a fiftieth of the squares left before."""
_TURNS = 6
"""Of power iteration: the direction stands out, and later rounds begin with the one before."""
_SETTLED = 0.999
"""Of what was left before: no round afterwards would change much."""
_BESIDE = 1e-6
"""Share of the squares of a column that must not lie along the direction: others say nothing of a factor."""
_PUT_BACK = 0.25
"""How far the median factor may be from one. Whoever puts a norm back undoes what the direction took, a few
percent of most columns; a matrix that is half as large again was made so for itself."""


def beside_a_direction(candidate: Floats, base: Floats) -> Iterator[Floats]:
    """Yield the difference without factors that leave little of it but one direction.

    Factors of columns or of rows, of either side: it may be the edited one.
    """
    for turned in (False, True):
        mine, theirs = (np.asarray(side.T if turned else side, np.float64) for side in (candidate, base))
        for edited, other in ((mine, theirs), (theirs, mine)):
            fitted = _fitted(edited, other)
            if fitted is not None:
                difference = np.asarray(fitted - other, np.float32)
                yield np.ascontiguousarray(difference.T) if turned else difference


def _fitted(edited: Doubles, other: Doubles) -> Doubles | None:
    """Multiply columns so that their difference from the others is along one direction."""
    squares = np.einsum("ij,ij->j", edited, edited)
    products = np.einsum("ij,ij->j", edited, other)
    before = last = float(np.sum(np.square(edited - other)))
    factors = np.divide(products, squares, out=np.ones_like(squares), where=squares > 0)
    direction, fitted = None, edited
    for _ in range(_ROUNDS):
        difference = other - edited * factors
        direction = _direction(difference, direction)
        along, offsets = direction @ edited, direction @ other
        # Of each column: the factor, once what lies along the direction is free.
        free = squares - along**2
        factors = np.divide(
            products - along * offsets, free, out=np.ones_like(free), where=free > _BESIDE * squares
        )
        fitted = np.asarray(edited * factors)
        rest = other - fitted
        rest -= np.outer(direction, direction @ rest)
        left = float(np.sum(np.square(rest)))
        if left > _PROMISING * before or np.median(np.abs(factors - 1.0)) > _PUT_BACK:
            return None
        if left > _SETTLED * last:
            break
        last = left
    return fitted


def _direction(difference: Doubles, start: Doubles | None) -> Doubles:
    """Return the left singular vector of the largest singular value."""
    largest = np.argmax(np.einsum("ij,ij->j", difference, difference))
    vector = difference[:, largest] if start is None else start
    for _ in range(_TURNS):
        vector = difference @ (vector @ difference)
        norm = np.linalg.norm(vector)
        if norm == 0:
            break
        vector = vector / norm
    return np.asarray(vector, np.float64)
