"""Which rows face each other in two stacks, and which layers in two models; sums over places of all pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from .stack import Floats

_CHUNK = 1 << 18
"""Values of one side at a time: small enough to stay in the CPU cache."""
_DENSE = 0.2
"""From this share of all pairs on, one matrix product for all of them is cheaper than selecting."""

LayerPairing = Literal["same", "all", "within", "relative", "mixed"]
"""`same`: equal numbers. `all`: every layer with every layer of another model. `within`: every two layers of
one model. `relative`: nearest relative depth. `mixed`: first chosen with first chosen, second with second."""
PAIRINGS: tuple[LayerPairing, ...] = get_args(LayerPairing)


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
        """Apply a function of two equally large matrices, some pairs at a time; it returns a number per row.

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
    """Return rows, without a copy if they are consecutive."""
    first, n = int(numbers[0]), len(numbers)
    if int(numbers[-1]) == first + n - 1 and (np.diff(numbers) == 1).all():
        return matrix[first : first + n]
    return np.asarray(matrix[numbers])


def layer_pairs(
    pairing: LayerPairing, first: Sequence[int], second: Sequence[int], *, depths: tuple[int, int] = (0, 0)
) -> tuple[tuple[int, int], ...]:
    """Return pairs of the chosen layers of each model; for `within`, both are the same.

    `relative` needs the `depths` of both models: the chosen layers need not be all.

    Examples
    --------
    >>> layer_pairs("relative", [0, 1, 2], [0, 1, 2, 3, 4], depths=(3, 5))
    ((0, 0), (1, 2), (2, 4))
    >>> layer_pairs("within", [0, 5, 9], [0, 5, 9])
    ((0, 5), (0, 9), (5, 9))
    """
    match pairing:
        case "same":
            return tuple((layer, layer) for layer in sorted({*first, *second}))
        case "all":
            return tuple((mine, theirs) for mine in first for theirs in second)
        case "within":
            return tuple((mine, other) for at, mine in enumerate(first) for other in first[at + 1 :])
        case "mixed":
            return tuple(zip(first, second, strict=False))
        case "relative":
            return _relative(first, second, depths)


def _relative(
    first: Sequence[int], second: Sequence[int], depths: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    if not first or not second:
        return ()
    deepest = [max(depth - 1, 1) for depth in depths]
    # Exact integers: rounding must not decide a half. Ties go to the shallower layer.
    return tuple(
        (mine, min(second, key=lambda theirs: (abs(mine * deepest[1] - theirs * deepest[0]), theirs)))
        for mine in first
    )
