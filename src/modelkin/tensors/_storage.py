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

from modelkin.source import FREE_WASTE, ByteRange

from ._codes import Array
from ._dtypes import Buffer

View: TypeAlias = Callable[[str, ByteRange], Buffer]
"""Gives the bytes of a range of a file, which lies inside a range that was planned."""
Numbers: TypeAlias = npt.NDArray[np.int64]
LineRuns: TypeAlias = Sequence[tuple[int, int]]
"""Runs of lines, each ``(start, stop)``, in rising order, without overlap and none empty."""

APART = FREE_WASTE
"""Pieces of neighbouring rows with fewer bytes between them are read as one: a request costs more."""
MOST_STRETCHES = 4096
"""Runs of scattered rows in one plan; with 32 requests of 40 ms in flight they take five seconds."""


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


def across_rows(columns: Iterable[tuple[int, int]], width: int, row_bytes: int) -> list[tuple[int, int]]:
    """Return what to read of each of many rows for some columns: stretches far apart, or the whole row.

    `columns` are ascending runs, `width` is how many a row has.
    """
    near = APART * width / row_bytes
    found: list[tuple[int, int]] = []
    for start, stop in columns:
        if found and start - found[-1][1] < near:
            found[-1] = found[-1][0], stop
        else:
            found.append((start, stop))
    (first, last), *more = found
    return found if more or width - (last - first) >= near else [(0, width)]


def few_stretches(starts: Numbers, stops: Numbers, *, apart: int = 0) -> tuple[Numbers, Numbers]:
    """Join ascending stretches with less than `apart` between them; without it, the nearest if many."""
    reached = np.maximum.accumulate(stops)
    gaps = starts[1:] - reached[:-1]
    cuts = np.flatnonzero((gaps > 0) & (gaps >= apart))
    if not apart and cuts.size >= MOST_STRETCHES:
        nearest_first = np.argsort(gaps[cuts], kind="stable")
        cuts = np.sort(cuts[nearest_first[cuts.size + 1 - MOST_STRETCHES :]])
    return starts[np.concatenate([[0], cuts + 1])], reached[np.concatenate([cuts, [-1]])]


def numbers_of(runs: LineRuns) -> Numbers:
    """Return the numbers of all lines of some runs."""
    parts = [np.arange(start, stop, dtype=np.int64) for start, stop in runs]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def runs_of(numbers: Numbers) -> list[tuple[int, int]]:
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
