"""Rows that hold the same numbers in another order: known by equality, bit for bit.

Where only an order was changed, a row keeps its numbers whatever the order of its columns is. Rows are paired
by digests of these, and one order of the columns must then explain all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from modelkin.stats import log10_same_numbers

from .layer_units import Array, Indices, row_digests

_LOG10_ROW = -9.0
"""Chance below which equal numbers count, corrected for all rows compared: what decides where to look next in
the deep stage, so that a finding needs no further evidence."""
_STEPS = 1000
"""Steps up to the largest number of a row, by which rows of one table are told apart: those of cosine
transforms, circulants and the like hold the same numbers over and over, as far as floats are exact."""
_SMOOTH = 0.2
"""Median cosine of consecutive steps from row to row from which a table counts as computed. Where rows have
nothing to do with their neighbours it is -0.5: -0.27 at most in 3,301 matrices of trained models, 0.65 and
more in sinusoids."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EqualRows:
    """Rows of two tables that hold the same numbers, all in one order of the columns."""

    candidate: Indices
    base: Indices
    columns: Indices = field(repr=False)
    """For each column of the base, the column of the candidate that holds its numbers."""
    in_order: bool
    """Whether every column is in its place."""
    n_usable: tuple[int, int]
    """Rows of both that could have been found: with so many distinct numbers that chance is ruled out."""
    log10_p: float
    """Bound of the chance that any row is equal, corrected for all pairs of rows."""

    def __len__(self) -> int:
        return len(self.candidate)

    @property
    def in_place(self) -> int:
        """How many rows have the same number in both."""
        return int(np.count_nonzero(self.candidate == self.base))


def equal_rows(candidate: Array, base: Array, *, n_pairs: int, table: bool = True) -> EqualRows | None:
    """Find rows that hold the same numbers in another order; None if there are none, or for another reason.

    A row counts if its numbers are so different that `n_pairs` pairs of rows of independent numbers would
    hardly have an equal one, and if no other row of its model has nearly the same. Rows of a `table` that
    was computed do not: such numbers are the same in unrelated models.
    """
    mine, theirs = (
        np.ascontiguousarray(rows, dtype=np.float32) + np.float32(0) for rows in (candidate, base)
    )
    if mine.shape[1] != theirs.shape[1] or (table and (_is_smooth(mine) or _is_smooth(theirs))):
        return None
    digests = row_digests(mine), row_digests(theirs)
    if not np.isin(*digests).any():
        return None
    level = _LOG10_ROW - math.log10(max(1, n_pairs))
    chance = [_chance(rows) for rows in (mine, theirs)]
    usable = [np.flatnonzero(each < level) for each in chance]
    _, here, there = np.intersect1d(
        digests[0][usable[0]], digests[1][usable[1]], assume_unique=True, return_indices=True
    )
    here, there = usable[0][here], usable[1][there]
    order = np.argsort(here)
    here, there = here[order], there[order]
    columns = _one_order(mine[here], theirs[there]) if len(here) else None
    if columns is None:
        return None
    return EqualRows(
        candidate=here,
        base=there,
        columns=columns,
        in_order=np.array_equal(mine[here], theirs[there]),
        n_usable=(len(usable[0]), len(usable[1])),
        log10_p=max(float(each[each < level].max()) for each in chance) + math.log10(max(1, n_pairs)),
    )


def _chance(rows: Array) -> npt.NDArray[np.float64]:
    """Bound log10 of the chance of the numbers of each row; 0 if another row has nearly the same ones."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    usable = np.isfinite(rows).all(axis=1) & (largest[:, 0] > 0)
    scaled = np.divide(rows, largest, out=np.zeros_like(rows), where=usable[:, None])
    digests = row_digests(np.round(scaled * _STEPS) + np.float32(0))
    known, counts = np.unique(digests, return_counts=True)
    alone = np.isin(digests, known[counts == 1]) & usable
    return np.array([log10_same_numbers(row) if use else 0.0 for row, use in zip(rows, alone, strict=True)])


def _one_order(mine: Array, theirs: Array) -> Indices | None:
    """Return the order of columns that makes one table the other; None if there is none."""
    here, there = np.lexsort(mine), np.lexsort(theirs)
    if not np.array_equal(mine[:, here], theirs[:, there]):
        return None
    columns = np.empty(len(here), dtype=np.intp)
    columns[there] = here
    return columns


def _is_smooth(rows: Array) -> bool:
    """Say whether a row goes on from the one before it, as in tables of sinusoids."""
    steps = np.diff(rows, axis=0)
    lengths = np.linalg.norm(steps, axis=1)
    both = lengths[1:] * lengths[:-1]
    products = np.einsum("ij,ij->i", steps[1:], steps[:-1])[both > 0] / both[both > 0]
    return len(products) > 0 and float(np.median(products)) > _SMOOTH
