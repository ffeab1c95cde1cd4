"""Weights with a low-rank update added, computed for just the lines that are wanted.

In all of them a line is a row of the stored weight, and the update of row i is row i of `left` times `right`.
For a linear layer (outputs first) left is B and right is A; where inputs come first, as in GPT-2 and in
tables of token rows, left is A transposed and right is B transposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from modelkin.source import ByteRange
from modelkin.tensors import (
    Array,
    LinePlan,
    LineRuns,
    SlicePlan,
    TensorInfo,
    TensorSlice,
    View,
    across_rows,
    by_file,
    line_elements,
    numbers_of,
    plan_slice,
)

Plans: TypeAlias = Mapping[str, SlicePlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class LowRank:
    """A matrix with a low-rank update: `scale` times the product of b (outputs, rank) and a (rank, inputs).

    The weight as stored is (inputs, outputs) if `inputs_first`. `magnitude` has trained lengths, one per
    output (DoRA); None leaves the lengths as they are.
    """

    base: TensorInfo
    a: TensorInfo
    b: TensorInfo
    scale: float
    inputs_first: bool = False
    magnitude: TensorInfo | None = None

    @property
    def n_bytes(self) -> int:
        """Stored bytes of the weight and its update."""
        parts = (self.base, self.a, self.b, *((self.magnitude,) if self.magnitude else ()))
        return sum(part.n_bytes for part in parts)

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan the lines of the weight, and the parts of the factors they need."""
        if not self.inputs_first:
            lines = runs
            parts = {"base": lines_of(self.base, runs), "a": whole_of(self.a), "b": lines_of(self.b, runs)}
            own = runs
        else:
            # Trained lengths are those of columns: to scale any line, the whole weight is needed.
            lines = runs if self.magnitude is None else [(0, self.base.shape[0])]
            parts = {"base": lines_of(self.base, lines), "a": _columns(self.a, lines), "b": whole_of(self.b)}
            own = [(0, self.base.shape[1])]
        if self.magnitude is not None:
            parts["magnitude"] = plan_slice(TensorSlice.blocks(self.magnitude.name, own), self.magnitude)
        build = self._by_inputs if self.inputs_first else self._by_outputs
        return LinePlan(ranges=gathered(parts.values()), build=partial(build, parts, lines, runs))

    def _by_outputs(self, parts: Plans, lines: LineRuns, runs: LineRuns, view: View) -> Array:
        made = {name: plan.assemble(view) for name, plan in parts.items()}
        left = made["b"].reshape(-1, self.a.shape[0])
        summed = self._sum(made["base"], left, made["a"])
        if self.magnitude is None:
            return summed
        scaled: Array = summed * _factors(made["magnitude"], summed, axis=1)[:, None]
        return scaled

    def _by_inputs(self, parts: Plans, lines: LineRuns, runs: LineRuns, view: View) -> Array:
        made = {name: plan.assemble(view) for name, plan in parts.items()}
        read = numbers_of(_stretches(self.a, lines))
        left = made["a"].reshape(self.a.shape[0], -1).T[np.searchsorted(read, numbers_of(lines))]
        summed = self._sum(made["base"], left, made["b"].T)
        if self.magnitude is None:
            return summed
        scaled: Array = summed * _factors(made["magnitude"], summed, axis=0)[None, :]
        picked: Array = scaled[numbers_of(runs)]
        return picked

    def _sum(self, base: Array, left: Array, right: Array) -> Array:
        weight = base.reshape(-1, line_elements(self.base.shape))
        summed: Array = weight + np.float32(self.scale) * (_plain(left) @ _plain(right))
        return summed


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsLowRank:
    """Matrices of all experts in one tensor, each with an update of its own.

    The factors of all experts lie in one A (experts * rank, inputs) and one B (outputs, rank * experts).
    """

    base: TensorInfo
    a: TensorInfo
    b: TensorInfo
    scale: float
    inputs_first: bool

    @property
    def n_bytes(self) -> int:
        """Stored bytes of the weights and their updates."""
        return self.base.n_bytes + self.a.n_bytes + self.b.n_bytes

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan the lines of the weights, and all of the factors, since those of one expert are scattered."""
        parts: Plans = {"base": lines_of(self.base, runs), "a": whole_of(self.a), "b": whole_of(self.b)}
        return LinePlan(ranges=gathered(parts.values()), build=partial(self._build, parts, runs))

    def _build(self, parts: Plans, runs: LineRuns, view: View) -> Array:
        experts, n_lines, width = self.base.shape
        weight: Array = parts["base"].assemble(view).reshape(-1, width)
        a = _plain(parts["a"].assemble(view)).reshape(experts, -1, self.a.shape[1])
        b = _plain(parts["b"].assemble(view)).reshape(self.b.shape[0], -1, experts)
        numbers = numbers_of(runs)
        result = weight.astype(np.float32) if weight.dtype != np.float64 else weight.copy()
        for expert in np.unique(numbers // n_lines):
            mine = np.flatnonzero(numbers // n_lines == expert)
            rows = numbers[mine] % n_lines
            if self.inputs_first:
                update = a[expert].T[rows] @ b[:, :, expert].T
            else:
                update = b[rows, :, expert] @ a[expert]
            result[mine] += np.float32(self.scale) * update
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifted:
    """A vector with another one added, such as a bias."""

    base: TensorInfo
    added: TensorInfo
    scale: float

    @property
    def n_bytes(self) -> int:
        """Stored bytes of both."""
        return self.base.n_bytes + self.added.n_bytes

    def plan(self, runs: LineRuns) -> LinePlan:
        """Plan the one line that a vector has."""
        parts = [whole_of(self.base), whole_of(self.added)]
        return LinePlan(ranges=gathered(parts), build=partial(self._build, parts))

    def _build(self, parts: Sequence[SlicePlan], view: View) -> Array:
        base, added = (part.assemble(view) for part in parts)
        result: Array = (base + np.float32(self.scale) * _plain(added)).reshape(1, -1)
        return result


def _factors(lengths: Array, summed: Array, *, axis: int) -> Array:
    """Return the factors that bring lines or columns to their trained lengths; all zeros stay zero."""
    now = np.sqrt(np.sum(np.square(summed, dtype=np.float64), axis=axis))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(lengths / now, np.float32)


def _plain(values: Array) -> Array:
    """Return factors in a type that numpy multiplies fast and exactly enough."""
    return np.ascontiguousarray(values, np.float32)


def whole_of(info: TensorInfo) -> SlicePlan:
    """Plan a whole factor."""
    return plan_slice(TensorSlice.whole(info.name), info)


def lines_of(info: TensorInfo, runs: LineRuns) -> SlicePlan:
    """Plan some lines of a factor."""
    width = line_elements(info.shape)
    return plan_slice(
        TensorSlice.blocks(info.name, [(start * width, stop * width) for start, stop in runs]), info
    )


def _stretches(info: TensorInfo, runs: LineRuns) -> LineRuns:
    return across_rows(runs, info.shape[1], info.n_bytes // info.shape[0])


def _columns(info: TensorInfo, runs: LineRuns) -> SlicePlan:
    """Plan some columns of a matrix, row by row, with what lies between those that are near."""
    (n_rows, width), runs = info.shape, _stretches(info, runs)
    blocks = [(row * width + start, row * width + stop) for row in range(n_rows) for start, stop in runs]
    return plan_slice(TensorSlice.blocks(info.name, blocks), info)


def gathered(plans: Iterable[SlicePlan]) -> dict[str, list[ByteRange]]:
    """Return what all plans read, by file."""
    return by_file((file, item) for plan in plans for file, ranges in plan.ranges.items() for item in ranges)
