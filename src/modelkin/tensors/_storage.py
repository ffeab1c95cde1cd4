"""How a tensor is laid out in its files when it is not a plain run of its numbers.

Quantised weights are blocks of codes with scales beside them, exported ones are transposed, adapted ones are
a sum of products. All of them are read alike: by *lines*. A line is one step along all axes but the last, so
a matrix has its rows for lines and a vector is one line. A storage says which bytes some lines take, and
turns those bytes into numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from modelkin.source import ByteRange

from ._codes import Array
from ._dtypes import Buffer

View: TypeAlias = Callable[[str, ByteRange], Buffer]
"""Gives the bytes of a range of a file, which lies inside a range that was planned."""
LineRuns: TypeAlias = Sequence[tuple[int, int]]
"""Runs of lines, each ``(start, stop)``, in rising order, without overlap and none empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePlan:
    """Which bytes some lines take, and how those become numbers."""

    ranges: Mapping[str, Sequence[ByteRange]]
    """By file; they may overlap or touch."""
    build: Callable[[View], Array] = field(repr=False)
    """Returns the lines, one after another, as an array (lines, elements of a line): float32, or float64
    where the stored numbers need it."""


class Storage(Protocol):
    """How the numbers of one tensor are stored. Immutable; planning reads nothing."""

    @property
    def n_bytes(self) -> int:
        """Stored bytes of the whole tensor, with its scales and tables."""
        ...

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan the reading of some lines."""
        ...


@runtime_checkable
class ColumnStorage(Storage, Protocol):
    """A storage whose bytes run along the columns: some columns of all lines cost less than some lines."""

    def plan_window(self, runs: LineRuns, columns: tuple[int, int]) -> LinePlan:
        """Plan the reading of the elements ``columns[0]`` up to ``columns[1]`` of some lines."""
        ...


def count_lines(shape: Sequence[int]) -> int:
    """Return the number of lines of a tensor; a scalar and a vector have one."""
    return math.prod(shape[:-1])


def line_elements(shape: Sequence[int]) -> int:
    """Return the number of elements of one line."""
    return shape[-1] if shape else 1


def line_runs(stretches: Iterable[tuple[int, int]], width: int) -> list[tuple[int, int]]:
    """Return the lines that hold some stretches of elements, sorted and joined where they touch."""
    lines = sorted((start // width, -(-stop // width)) for start, stop in stretches if start < stop)
    runs: list[tuple[int, int]] = []
    for start, stop in lines:
        if runs and start <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(stop, runs[-1][1])
        else:
            runs.append((start, stop))
    return runs


def numbers_of(runs: LineRuns) -> npt.NDArray[np.int64]:
    """Return the numbers of all lines of some runs."""
    parts = [np.arange(start, stop, dtype=np.int64) for start, stop in runs]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def runs_of(numbers: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the runs of rising numbers: the inverse of `numbers_of`."""
    if not numbers.size:
        return []
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts]


def by_file(items: Iterable[tuple[str, ByteRange]]) -> dict[str, list[ByteRange]]:
    """Sort ranges by their files."""
    found: dict[str, list[ByteRange]] = {}
    for file, item in items:
        found.setdefault(file, []).append(item)
    return found
