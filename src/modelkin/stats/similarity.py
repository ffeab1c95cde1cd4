"""The double-centred similarity of two sets of units, one block of rows at a time.

No more than a block is ever in memory. Exact sums are taken in double precision; the blocks themselves have
the width of the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .ranks import Array

# About 16 MiB of float64 per block: large enough for the matrix product, small enough for any machine.
_BLOCK_ELEMENTS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Similarity:
    """Similarities of candidate units (rows) with base units (columns), centred over both.

    Plain similarity of centred units is already double-centred. For squared similarity the means must be
    subtracted, which `of_squares` finds in a first pass.
    """

    candidate: Array
    base: Array
    row_mean: npt.NDArray[np.float64] | None = None
    column_mean: npt.NDArray[np.float64] | None = None
    squares: float
    """Sum of all squared entries."""
    products: Array | None = None
    """All entries of a similarity of one block, which is used several times."""

    @classmethod
    def of_products(cls, candidate: Array, base: Array) -> Similarity:
        """Inner products of units."""
        a, b = candidate - candidate.mean(axis=0), base - base.mean(axis=0)
        if a.shape[1] <= min(len(a), len(b)) or len(_blocks(len(a), len(b))) > 1:
            return cls(candidate=a, base=b, squares=_sum_of_squared_products(a, b))
        products = a @ b.T
        products.setflags(write=False)
        squares = float(np.einsum("ij,ij->", products, products, dtype=np.float64))
        return cls(candidate=a, base=b, squares=squares, products=products)

    @classmethod
    def of_squares(cls, candidate: Array, base: Array) -> Similarity:
        """Squared inner products of units, which ignore a unit's sign."""
        row_sum, column_sum, squares = np.zeros(len(candidate)), np.zeros(len(base)), 0.0
        for rows in _blocks(len(candidate), len(base)):
            entries = (candidate[rows] @ base.T).astype(np.float64) ** 2
            row_sum[rows] = entries.sum(axis=1)
            column_sum += entries.sum(axis=0)
            squares += float(np.vdot(entries, entries))
        row_mean, column_mean = row_sum / len(base), column_sum / len(candidate)
        grand = float(row_mean.mean())
        n_entries = len(candidate) * len(base)
        centred = squares - len(base) * float(row_mean @ row_mean)
        centred -= len(candidate) * float(column_mean @ column_mean) - n_entries * grand**2
        return cls(
            candidate=candidate,
            base=base,
            row_mean=row_mean - grand,
            column_mean=column_mean,
            squares=max(0.0, centred),
        )

    @property
    def squared(self) -> bool:
        """Whether entries are squares of inner products."""
        return self.row_mean is not None

    def diagonal(self) -> npt.NDArray[np.float64]:
        """Similarity of unit i with unit i, for as many rows as columns."""
        products: npt.NDArray[np.float64] = np.einsum("ij,ij->i", self.candidate, self.base, dtype=np.float64)
        if self.row_mean is None or self.column_mean is None:
            return products
        return np.asarray(products**2 - self.row_mean - self.column_mean, dtype=np.float64)

    def rows(self, rows: slice | npt.NDArray[np.intp]) -> Array:
        """Return whole rows of the similarity."""
        if self.products is not None:
            return self.products[rows]
        products: Array = self.candidate[rows] @ self.base.T
        if self.row_mean is None or self.column_mean is None:
            return products
        products *= products
        products -= self.row_mean[rows, None].astype(products.dtype)
        products -= self.column_mean.astype(products.dtype)
        return products

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Walk over all rows, from the first to the last."""
        for rows in _blocks(len(self.candidate), len(self.base)):
            yield rows, self.rows(rows)


def _blocks(n_rows: int, n_columns: int) -> list[slice]:
    # A block is never wider than the wrap that the diagonal sums of `shifts` append to it.
    height = max(1, min(n_columns, _BLOCK_ELEMENTS // n_columns))
    return [slice(start, min(start + height, n_rows)) for start in range(0, n_rows, height)]


def _sum_of_squared_products(a: Array, b: Array) -> float:
    """Sum the squares of all inner products of rows; through Gram matrices of features if they are small."""
    if a.shape[1] <= min(len(a), len(b)):
        return float(np.einsum("ij,ij->", a.T @ a, b.T @ b, dtype=np.float64))
    return sum(
        float(np.einsum("ij,ij->", part, part, dtype=np.float64))
        for part in (a[rows] @ b.T for rows in _blocks(len(a), len(b)))
    )
