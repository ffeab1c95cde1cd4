"""Units of a layer as directions, and the properties that no change of coordinates alters.

A unit reads the residual stream along one or two rows and writes along another. Under every change of the
residual stream that leaves the output as it is (orthogonal maps, gains folded or inserted), of the order, the
scale or the sign of units, a few numbers of each unit stay what they are: sizes and cosines of its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]
UnitKind = Literal["gated", "plain", "head"]
"""Gate, up and down rows; what an ungated unit reads and writes; a direction that a head reads and writes."""

_FREE: dict[UnitKind, tuple[bool, ...]] = {
    "gated": (False, True, True),
    "plain": (False, False),
    "head": (True, True),
}
_BLOCK_ELEMENTS = 4_000_000
"""Distances held at a time: 32 MB in double precision."""
_SAME_GATE = 0.995
"""Cosine from which two gates of one layer count as one: a unit that was split into several."""
_SAME_LENGTH = 0.02
"""Difference of log lengths up to which gates may be one: noise that leaves a cosine of 0.995 changes a
length by half a per cent, and its parts by chance a little more."""
_DIFFERENT = 32
"""Distinct numbers that a row must have: two or three values allow few multisets."""
_DIGESTED = 256
"""Rows scrambled at a time: widened to 64 bits, 256 rows of 16,384 values take 32 MB."""
_ONE_UNIT = 0.98
"""Share of the joint effect of split units that one unit must be able to reproduce for them to be joined."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerUnits:
    """The usable units of one layer."""

    kind: UnitKind
    rows: tuple[Array, ...] = field(repr=False)
    """One row per unit and matrix, of length one; at least two matrices."""
    sizes: npt.NDArray[np.float64] = field(repr=False)
    """Logarithm of the length of each row: units by matrices."""
    extra: npt.NDArray[np.float64] | None = field(repr=False, default=None)
    """One more invariant of each unit, such as the bias divided by the length of its row."""
    digests: npt.NDArray[np.uint64] | None = field(repr=False, default=None)
    """One number for all numbers of a unit, in any order; None if units have few distinct ones."""
    read: float = 1.0
    """Share of the layer's units that these are: the others cannot be found."""

    def __len__(self) -> int:
        return len(self.rows[0])

    @property
    def free(self) -> tuple[bool, ...]:
        """Rows whose sign alone means nothing."""
        return _FREE[self.kind][: len(self.rows)]

    def taken(self, chosen: Indices) -> LayerUnits:
        """Return some of the units."""
        return LayerUnits(
            kind=self.kind,
            rows=tuple(rows[chosen] for rows in self.rows),
            sizes=self.sizes[chosen],
            extra=None if self.extra is None else self.extra[chosen],
            digests=None if self.digests is None else self.digests[chosen],
            read=self.read,
        )

    def own_second(self) -> Array:
        """Return the second rows minus their projection on the first.

        If both rows of a unit are alike in either model, they lead to the same matches whatever the models
        are.
        """
        first, second = self.rows[:2]
        along = np.einsum("ij,ij->i", second, first)
        return _unit_length(second - along[:, None] * first)[0]

    def invariants(self) -> npt.NDArray[np.float64]:
        """Return the invariants of units under changes of coordinates, units by numbers."""
        found = _of_gated(self) if self.kind == "gated" else _of_two(self)
        if self.extra is not None:
            found.append(self.extra)
        return np.column_stack(found)


def as_units(
    kind: UnitKind,
    rows: Sequence[npt.ArrayLike],
    *,
    extra: npt.ArrayLike | None = None,
    centred: bool = False,
    read: float = 1.0,
) -> LayerUnits:
    """Make units from what was read: those that are zero or not finite in any row are left out.

    `rows` has one matrix per role, units by residual dimensions; `extra` is one more invariant of each unit,
    and `read` the share of the layer's units that these are. A `centred` model subtracts the mean of the
    residual stream, so that the mean carries no information.
    """
    held = [np.asarray(matrix, dtype=np.float32) for matrix in rows]
    digests = _digests(held[:2])
    if centred:
        held = [matrix - matrix.mean(axis=1, keepdims=True) for matrix in held]
    scaled = [_unit_length(matrix) for matrix in held]
    lengths = np.column_stack([length for _, length in scaled])
    known = None if extra is None else np.asarray(extra, dtype=np.float64)
    usable = (np.isfinite(lengths) & (lengths > 0)).all(axis=1)
    if known is not None:
        usable &= np.isfinite(known)
    chosen = np.flatnonzero(usable)
    return LayerUnits(
        kind=kind,
        # Usually all are usable, and then nothing is copied: a few wide layers are hundreds of megabytes.
        rows=tuple(matrix if usable.all() else matrix[chosen] for matrix, _ in scaled),
        sizes=np.log(lengths[chosen]),
        extra=None if known is None else known[chosen] / lengths[chosen, 0],
        digests=None if digests is None else digests[chosen],
        read=read,
    )


def joined_splits(units: LayerUnits) -> LayerUnits:
    """Return the units, joining those that are parts of one: the same gate, and together one unit.

    A unit can be split into several without changing what the layer computes: all have its gate, and the
    products of what they read and write add up to its own.
    """
    if units.kind != "gated" or len(units.rows) < 3 or len(units) < 2:
        return units
    groups = _same_gates(units)
    if not groups:
        return units
    rows = [matrix.copy() for matrix in units.rows]
    sizes = units.sizes.copy()
    kept = np.ones(len(units), dtype=np.bool_)
    for group in groups:
        up, down = (rows[of][group] * np.exp(sizes[group, of])[:, None].astype(np.float32) for of in (1, 2))
        # The sum of products of a few rows, from the small factors of their decompositions.
        left, small_left = np.linalg.qr(up.T)
        right, small_right = np.linalg.qr(down.T)
        inner_left, strengths, inner_right = np.linalg.svd(small_left @ small_right.T)
        if strengths[0] ** 2 < _ONE_UNIT * float(strengths @ strengths):
            continue
        first = group[0]
        rows[1][first] = left @ inner_left[:, 0]
        rows[2][first] = right @ inner_right[0]
        sizes[first, 1], sizes[first, 2] = np.log(max(float(strengths[0]), 1e-30)), 0.0
        kept[group[1:]] = False
    merged = replace(units, rows=tuple(rows), sizes=sizes, digests=None)
    return merged.taken(np.flatnonzero(kept))


def same_numbers(a: LayerUnits, b: LayerUnits) -> float | None:
    """Return the share of units that hold the numbers of a unit of the other layer, in any order.

    Relative to the layer that has fewer units, and to those whose partner can have been read. None if units
    have so few distinct numbers that strangers could have the same.
    """
    few, many = (a, b) if len(a) <= len(b) else (b, a)
    if few.digests is None or many.digests is None:
        return None
    return min(1.0, float(np.mean(np.isin(few.digests, many.digests))) / many.read)


def mutual_nearest(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> tuple[Indices, Indices]:
    """Return the rows of both tables that are nearest to each other."""
    squares = np.einsum("ij,ij->i", b, b)
    to_b, to_a = np.empty(len(a), dtype=np.intp), np.zeros(len(b), dtype=np.intp)
    best = np.full(len(b), np.inf)
    step = max(1, _BLOCK_ELEMENTS // max(1, len(b)))
    for start in range(0, len(a), step):
        block = a[start : start + step]
        distance = squares - 2.0 * (block @ b.T)
        to_b[start : start + step] = np.argmin(distance, axis=1)
        distance += np.einsum("ij,ij->i", block, block)[:, None]
        at = np.argmin(distance, axis=0)
        found = distance[at, np.arange(len(b))]
        to_a[found < best] = at[found < best] + start
        best = np.minimum(best, found)
    mine = np.flatnonzero(to_a[to_b] == np.arange(len(a)))
    return mine, to_b[mine]


def standardised(tables: Sequence[npt.NDArray[np.float64]]) -> list[npt.NDArray[np.float64]]:
    """Scale numbers of units to mean 0 and deviation 1 over all tables together, which are of one model.

    That removes a meaningless factor that all layers share.
    """
    every = np.concatenate(tables)
    middle, spread = every.mean(axis=0), every.std(axis=0)
    scale = np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), 0.0)
    return [(table - middle) * scale for table in tables]


def layer_distances(candidate: Sequence[LayerUnits], base: Sequence[LayerUnits]) -> npt.NDArray[np.float64]:
    """Return the distances between the units of any two layers by their invariants: all by all."""
    mine = standardised([units.invariants() for units in candidate])
    theirs = standardised([units.invariants() for units in base])
    n = min(mine[0].shape[1], theirs[0].shape[1])
    found = np.empty((len(mine), len(theirs)))
    for i, a in enumerate(mine):
        for j, b in enumerate(theirs):
            here, there = mutual_nearest(a[:, :n], b[:, :n])
            found[i, j] = float(np.mean(np.linalg.norm(a[here, :n] - b[there, :n], axis=1)))
    return found


def _of_gated(units: LayerUnits) -> list[npt.NDArray[np.float64]]:
    gate, up = units.rows[:2]
    if len(units.rows) == 2:  # without what it writes, the length of up is all that is left
        return [units.sizes[:, 0], units.sizes[:, 1], _cosines(gate, up, free=True)]
    down = units.rows[2]
    return [
        units.sizes[:, 0],
        units.sizes[:, 1] + units.sizes[:, 2],
        _cosines(gate, up, free=True),
        _cosines(gate, down, free=True),
        _cosines(up, down, free=False),
    ]


def _of_two(units: LayerUnits) -> list[npt.NDArray[np.float64]]:
    return [units.sizes.sum(axis=1), _cosines(*units.rows[:2], free=False)]


def _cosines(a: Array, b: Array, *, free: bool) -> npt.NDArray[np.float64]:
    found = np.einsum("ij,ij->i", a, b).astype(np.float64)
    return np.asarray(np.abs(found) if free else found)


def _same_gates(units: LayerUnits) -> list[Indices]:
    """Return groups of units whose gates have one direction and one length."""
    gate, n = units.rows[0], len(units)
    order = np.argsort(units.sizes[:, 0], kind="stable")
    label = np.arange(n)
    # Equal gates have equal lengths, so they are neighbours once sorted.
    for distance in (1, 2, 3):
        first, second = order[:-distance], order[distance:]
        near = np.abs(units.sizes[first, 0] - units.sizes[second, 0]) < _SAME_LENGTH
        alike = np.einsum("ij,ij->i", gate[first], gate[second]) > _SAME_GATE
        for one, other in zip(first[near & alike], second[near & alike], strict=True):
            label[label == label[other]] = label[one]
    return [np.flatnonzero(label == number) for number in np.flatnonzero(np.bincount(label, minlength=n) > 1)]


def _digests(matrices: Sequence[Array]) -> npt.NDArray[np.uint64] | None:
    """Sum scrambled numbers of each row, with the second rows separate: order does not change a sum."""
    few = max(1, len(matrices[0]) // 8)
    needed = min(_DIFFERENT, matrices[0].shape[1] // 2)
    if any(len(np.unique(row)) < needed for matrix in matrices for row in matrix[::few]):
        return None
    total = np.zeros(len(matrices[0]), dtype=np.uint64)
    for number, matrix in enumerate(matrices):
        total += row_digests(matrix, number)
    return total


def row_digests(matrix: Array, kind: int = 0) -> npt.NDArray[np.uint64]:
    """Return one number for all numbers of each row, in any order; rows of another `kind` have others."""
    total = np.zeros(len(matrix), dtype=np.uint64)
    for start in range(0, len(matrix), _DIGESTED):
        block = np.ascontiguousarray(matrix[start : start + _DIGESTED]).view(np.uint32).astype(np.uint64)
        block += np.uint64(kind << 32)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            block ^= block >> np.uint64(shift)
            block *= np.uint64(factor)
        block ^= block >> np.uint64(31)
        total[start : start + _DIGESTED] = block.sum(axis=1, dtype=np.uint64)
    return total


def _unit_length(rows: Array) -> tuple[Array, npt.NDArray[np.float64]]:
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    usable = np.isfinite(lengths) & (lengths > 0)
    scale = np.where(usable, 1.0 / np.where(usable, lengths, 1.0), 0.0).astype(np.float32)
    return np.asarray(rows * scale[:, None], dtype=np.float32), lengths
