"""Which row of one stack faces which row of another, and sums over their places for all pairs at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ._stack import Floats

_CHUNK = 1 << 18
"""Values of one side at a time: small enough to stay in a processor's cache."""
_DENSE = 0.2
"""From this share of all pairs on, one matrix product for all of them is cheaper than picking."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of rows: row ``first[k]`` of one stack with row ``second[k]`` of another."""

    first: npt.NDArray[np.intp] = field(repr=False)
    second: npt.NDArray[np.intp] = field(repr=False)

    def __post_init__(self) -> None:
        if self.first.shape != self.second.shape or self.first.ndim != 1:
            raise ValueError(
                f"pairs: expected two equally long lists, got {self.first.shape}, {self.second.shape}"
            )

    @classmethod
    def of(cls, first: npt.ArrayLike, second: npt.ArrayLike) -> Pairs:
        """Pair rows by their numbers."""
        return cls(np.asarray(first, dtype=np.intp), np.asarray(second, dtype=np.intp))

    @classmethod
    def grid(cls, n_first: int, n_second: int) -> Pairs:
        """Pair every row of one stack with every row of the other, row by row."""
        return cls.of(np.repeat(np.arange(n_first), n_second), np.tile(np.arange(n_second), n_first))

    @classmethod
    def diagonal(cls, n: int) -> Pairs:
        """Pair rows of equal number."""
        return cls.of(np.arange(n), np.arange(n))

    @classmethod
    def within(cls, n: int) -> Pairs:
        """Pair every row with every later row of the same stack."""
        first, second = np.triu_indices(n, k=1)
        return cls.of(first, second)

    def __len__(self) -> int:
        return len(self.first)

    def pick(self, first: npt.NDArray[Any], second: npt.NDArray[Any]) -> tuple[Any, Any]:
        """Return one number of each row, pair by pair."""
        return first[self.first], second[self.second]

    def inner(self, first: Floats, second: Floats) -> Floats:
        """Return the inner product of each pair of rows."""
        if len(self) >= _DENSE * len(first) * len(second):
            return np.asarray((first @ second.T)[self.first, self.second], dtype=np.float64)
        return self.rowwise(lambda a, b: np.einsum("ij,ij->i", a, b), first, second)

    def rowwise(
        self,
        function: Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[Any]],
        first: npt.NDArray[Any],
        second: npt.NDArray[Any],
    ) -> Floats:
        """Apply a function of two equally large matrices, some pairs at a time; it returns one number a row.

        Runs of pairs that share their first row do not copy it.
        """
        found = np.empty(len(self), dtype=np.float64)
        step = max(1, _CHUNK // max(first.shape[1], 1))
        starts = np.flatnonzero(np.diff(self.first, prepend=-1)) if len(self) else np.empty(0, dtype=np.intp)
        if len(starts) > len(self) / 4:
            for at in range(0, len(self), step):
                part = slice(at, at + step)
                found[part] = function(first[self.first[part]], second[self.second[part]])
            return found
        for begin, end in zip(starts, [*starts[1:], len(self)], strict=True):
            row = first[self.first[begin]][None, :]
            for at in range(begin, end, step):
                part = slice(at, min(at + step, end))
                found[part] = function(row, _rows(second, self.second[part]))
        return found


def _rows(matrix: npt.NDArray[Any], numbers: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Return rows, without a copy where they follow each other."""
    first, n = int(numbers[0]), len(numbers)
    if int(numbers[-1]) == first + n - 1 and (np.diff(numbers) == 1).all():
        return matrix[first : first + n]
    return np.asarray(matrix[numbers])
