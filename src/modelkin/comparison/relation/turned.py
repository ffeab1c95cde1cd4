"""Rotated residual streams: weights are rotated back into the base's coordinates before subtraction.

A rotation changes every number of a matrix, and gains cannot stay separate: they are multiplied into what
reads them. So matrices are compared with gains folded in, the candidate's rotated by a map learned from rows
of tokens, or from these and the units of one layer. The error of the map itself counts as rounding: smaller
changes are not seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role
from modelkin.comparison.alignment import polar_factor
from modelkin.comparison.methods import acting_gain
from modelkin.stats import root_mean_square
from modelkin.tensors import TensorSlice

from .deltas import DeltaReader, one_on_levels
from .facing import TOKEN_ROLES, FacingTensors
from .lattice import Lattice, find_lattice, group_sizes, level_steps
from .measure import Block
from .orders import Matrices, Orders
from .result import Side
from .steps import effective_format, stored_steps

Floats = npt.NDArray[np.float32]
Vectors = tuple[Floats, Floats]
"""Rows over the residual stream of the candidate and of the base, gains folded in."""
Table = Callable[[], Vectors]
"""Makes such rows when they are needed: those of a layer 4,096 wide take 800 MB, besides what they are made
from."""

_NORM_OF = {
    Role.ATTENTION_QUERY.value: Role.ATTENTION_NORM,
    Role.ATTENTION_KEY.value: Role.ATTENTION_NORM,
    Role.ATTENTION_VALUE.value: Role.ATTENTION_NORM,
    Role.MLP_GATE.value: Role.MLP_NORM,
    Role.MLP_UP.value: Role.MLP_NORM,
    Role.EXPERT_GATE.value: Role.MLP_NORM,
    Role.EXPERT_UP.value: Role.MLP_NORM,
    Role.SHARED_EXPERT_GATE.value: Role.MLP_NORM,
    Role.SHARED_EXPERT_UP.value: Role.MLP_NORM,
    Role.ROUTER.value: Role.MLP_NORM,
    Role.OUTPUT_HEAD.value: Role.FINAL_NORM,
}
"""What reads the residual stream through a norm, and through which."""
_RESIDUAL = ("residual",)
_WIDEST = 2048
"""Beyond this width a round of learning takes half a minute of CPU, so that the last ones may be left out."""
_WIDE_ENOUGH, _BETTER = 1e-4, 0.9
"""Error up to which a wide map stays as it is, a twentieth of what storing in BF16 leaves; and part of its
error before that a round has to come below for another one to be worth it."""
_OTHER_WEIGHTS = 4.0
"""Factor between weights of tables from which the map is learned once more: weights that are wrong by less
add at most a fifth to the error."""
_ENOUGH_ROWS, _SPARED = 1.5, 0.2
"""Rows to a dimension that a wide map is learned from at least, and part of what is known that is left out:
without a fifth the error is larger by a ninth, but products are saved, and what changed does not slow down
the rounds."""
_JUDGED = 1024
"""Rows of a table by which a wide map is judged: what it leaves of so many is known to some percent."""
_ARITHMETIC = 2e-6
"""Relative error left by multiplying thousands of numbers in float32."""
_ROUNDS = 3
"""Each round weighs tables by what the map before left of them: weights only have to tell spoilt tables from
good ones."""
_HOLDS = 0.8
"""Share of a table that may be left over: without anything in common, all of it is."""
_ZERO = 2.0
"""Steps from zero within which a number counts as zero: rotating there and back leaves no exact zeros."""
_FAR = 4.0
"""Steps by which some number must be off: otherwise it is a copy, and no levels are searched for."""
_APART, _LONGEST = 3.0, 12.0
"""Fewest steps between two levels, and most steps across numbers that belong to one level."""
_STRETCHED = (1.0, 4.0)
"""Factors of the steps that are tried: a map is off by more in some directions than in most, and levels are
often thousands of steps apart."""
_BLURRED = 2.0
"""Steps of a line up to which a number helps to find levels. Where a gain is small, numbers are further off:
they would join two levels."""
_MOST_LEVELS = 256
"""Of codes of eight bits, the longest that are looked for."""
EXACT = 1e-3
"""Error of the map up to which levels and zeros are searched for: beyond it, chance produces some. And up to
which it is believed without tokens: storing in BF16 leaves this much."""
_SPARSE = 0.2
"""Share of zeros from which a matrix is reported as pruned: a few numbers are near zero anyway."""
_NEARLY_ALL = 0.9
"""Share of groups that must be on levels, as in `lattice`."""
_TRIED = 24
"""Groups examined before all are."""


_WHOLE_ROWS = 2048
"""Rows up to which steps and levels are taken from a whole matrix, and beyond from the rows measured."""
_Rows = npt.NDArray[np.intp] | slice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """A map from the candidate's residual coordinates to the base's."""

    matrix: Floats = field(repr=False)
    n_rows: int
    """Rows it was learned from."""
    error: float
    """Estimated relative error it leaves in an unchanged matrix."""

    def holds(self, table: Table) -> bool:
        """Say whether rows have something in common once they are rotated."""
        return _left(self.matrix, *_Judged.of(table, most=_JUDGED).rows) <= _HOLDS


@dataclass(slots=True)
class TurnedMatrices(Matrices):
    """Whole matrices with gains folded in, the candidate's in the base's coordinates."""

    matrix: Floats | None = None
    gains: dict[tuple[int, str], Floats] = field(default_factory=dict)

    def both(self, item: FacingTensors) -> Vectors | None:
        """Return two facing matrices, outputs first; None if one is too large, or not a matrix."""
        read = self.raw(item)
        return None if read is None else self.turned(item, *read)

    def raw(self, item: FacingTensors) -> Vectors | None:
        """Return two facing matrices as they are stored."""
        return Matrices.both(self, item)

    def folded(self, item: FacingTensors, side: int, values: Floats) -> Floats:
        """Multiply the gain into a matrix that reads the residual stream."""
        gain = self._gain(item, side)
        return values if gain is None or item.axes[1] != _RESIDUAL else values * gain

    def fold(self, item: FacingTensors, side: int, values: Floats) -> Floats:
        """Multiply the gain into rows that nobody else holds."""
        gain = self._gain(item, side)
        if gain is not None and item.axes[1] == _RESIDUAL:
            values *= gain
        return values

    def turned(self, item: FacingTensors, mine: Floats, theirs: Floats) -> Vectors:
        """Fold gains in, and rotate the candidate's matrix."""
        return self.turned_rows(item, mine, theirs, slice(None), slice(None))

    def turned_rows(
        self, item: FacingTensors, mine: Floats, theirs: Floats, own: _Rows, other: _Rows
    ) -> Vectors:
        """Return some rows of the rotated matrix, and some of the base's: the others are not computed."""
        assert self.matrix is not None
        if item.axes[0] == _RESIDUAL:
            turned = self.matrix.T[own] @ self.folded(item, 0, mine)
        else:
            turned = self.folded(item, 0, mine[own])
            turned = turned @ self.matrix if item.axes[1] == _RESIDUAL else turned
        return np.asarray(turned, np.float32), self.folded(item, 1, theirs[other])

    def spread(self, item: FacingTensors, steps: Floats) -> Floats:
        """Return the steps of rotated numbers: each is a sum over all numbers along the rotated axis."""
        steps = self.folded(item, 0, steps)
        if _RESIDUAL not in item.axes:
            return steps
        axis = 1 if item.axes[1] == _RESIDUAL else 0
        squares = np.einsum("ij,ij->i" if axis else "ij,ij->j", steps, steps, dtype=np.float64)
        mean = np.expand_dims(np.sqrt(squares / steps.shape[axis]), axis)
        return np.broadcast_to(mean.astype(np.float32), steps.shape)

    def _gain(self, item: FacingTensors, side: int) -> Floats | None:
        norm = _NORM_OF.get(item.role)
        model = self.models[side]
        layer = (item.layer, item.base_layer)[side]
        entry = None if norm is None else model.architecture.find(norm, layer)
        if entry is None:
            return None
        if (side, entry.tensor) not in self.gains:
            self.gains[side, entry.tensor] = acting_gain(
                model.read([TensorSlice.whole(entry.tensor)])[0], model.architecture
            )
        return self.gains[side, entry.tensor]


def can_be_turned(item: FacingTensors) -> bool:
    """Say whether a tensor is a whole matrix with the residual stream along one axis."""
    return not item.fused and len(item.axes) == 2 and item.axes.count(_RESIDUAL) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedReader(DeltaReader):
    """Reads rows of both models that face each other once the candidate is rotated back."""

    error: float = 0.0

    def table(self, item: FacingTensors, orders: Orders, matrices: TurnedMatrices) -> Table | None:
        """Return what makes a matrix's vectors over the residual stream, unrotated, in the base's order."""
        read = matrices.raw(item) if can_be_turned(item) else None
        if read is None:
            return None
        other = 1 if item.axes[0] == _RESIDUAL else 0
        order = self._line_order(item, orders, other, read[0].shape[other], read[1].shape[other])

        def vectors(side: int, places: npt.NDArray[np.intp]) -> Floats:
            values = matrices.one(item, side)
            return matrices.fold(item, side, (values if other == 0 else values.T)[places])

        return None if order is None else lambda: (vectors(0, order.mine), vectors(1, order.theirs))

    def token_vectors(self, item: FacingTensors, matrices: TurnedMatrices) -> Vectors | None:
        """Return rows of shared tokens, gains folded in."""
        read = self.rows_of_tokens(item) if can_be_turned(item) else None
        if read is None:
            return None
        mine, theirs = (matrices.folded(item, side, values) for side, values in enumerate(read))
        return mine, theirs

    def _ordered(self, item: FacingTensors, n_rows: int, orders: Orders, matrices: Matrices) -> Block | None:
        assert isinstance(matrices, TurnedMatrices)
        if len(self._infos(item)[0].shape) == 1:
            # Gains are in the matrices; vectors written directly to the stream were rotated with it.
            return (
                None if _RESIDUAL in item.axes else DeltaReader._ordered(self, item, n_rows, orders, matrices)
            )
        if not can_be_turned(item):
            return None
        if item.role in TOKEN_ROLES:
            wanted = self._token_rows(item, n_rows)
            read = None if wanted is None else self._read(wanted)
        else:
            read = matrices.raw(item)
        return None if read is None else self._turned(item, read, n_rows, orders, matrices)

    def _turned(
        self, item: FacingTensors, read: Vectors, n_rows: int, orders: Orders, matrices: TurnedMatrices
    ) -> Block | None:
        first, second = self._infos(item)
        dtypes = first.dtype, second.dtype
        rows = self._line_order(item, orders, 0, len(read[0]), len(read[1]))
        columns = self._line_order(item, orders, 1, read[0].shape[1], read[1].shape[1])
        if rows is None or columns is None:
            return None
        some = rows.mine[:n_rows], rows.theirs[:n_rows]
        if item.axes[1] == _RESIDUAL and len(read[0]) > _WHOLE_ROWS:
            read = read[0][some[0]], read[1][some[1]]
            some = np.arange(len(read[0])), np.arange(len(read[1]))
        own = matrices.spread(item, stored_steps(read[0], effective_format(read[0], dtypes[0])))
        there = matrices.folded(item, 1, stored_steps(read[1], effective_format(read[1], dtypes[1])))
        lattice, side = one_on_levels(*read, dtypes)
        levels = None
        if lattice is not None and side == "candidate":
            levels = matrices.spread(item, level_steps(read[0], lattice))
        elif lattice is not None:
            levels = matrices.folded(item, 1, level_steps(read[1], lattice))
        mine, theirs = matrices.turned_rows(item, *read, *some)
        mine, theirs = mine[:, columns.mine], theirs[:, columns.theirs]
        left, right = np.ix_(some[0], columns.mine), np.ix_(some[1], columns.theirs)
        own, there = np.abs(own[left]), np.abs(there[right])
        axis = 1 if item.axes[1] == _RESIDUAL else 0
        lengths = np.mean(np.square(theirs, dtype=np.float64), axis=axis, keepdims=True)
        own = np.asarray(np.sqrt(own**2 + 12 * max(self.error, _ARITHMETIC) ** 2 * lengths), np.float32)
        found: tuple[Lattice, Floats, Side] | None = None
        if lattice is not None and levels is not None:
            found = lattice, np.abs(levels[left if side == "candidate" else right]), side
        near = np.abs(mine) <= _ZERO * own
        sparse = bool(near.mean() >= _SPARSE)
        if sparse and self.error <= EXACT:
            mine = np.where(near, np.float32(0), mine)
        elif found is None and self.error <= EXACT and np.any(np.abs(mine - theirs) > _FAR * own):
            gain = np.ones(len(columns.theirs), np.float32)
            if item.axes[1] == _RESIDUAL:
                gain = matrices.folded(item, 1, gain[None])[0][columns.theirs]
            before = levels_before(mine, own, gain)
            found = None if before is None else (*before, "candidate")
        made = self._block(item, mine, theirs, reordered=rows.moved or columns.moved)
        return replace(made, steps=np.maximum(own, there), levels=found)


def levels_before(turned: Floats, steps: Floats, gain: Floats) -> tuple[Lattice, Floats] | None:
    """Look for levels that numbers were quantised to before rotation: they are near them, not on them.

    Parameters
    ----------
    turned, steps
        Numbers in the base's coordinates, and how far storing them may have moved each.
    gain
        Of each column, which was folded in after quantisation.
    """
    if not np.all(np.abs(gain) > _ARITHMETIC):
        return None
    noise = np.asarray(steps / np.abs(gain), np.float32)
    # Lines differ in length, and the error of the map with them: each is measured in steps of its own.
    own = np.median(noise, axis=1, keepdims=True)
    own = np.asarray(np.where(own > 0, own, 1.0), np.float32)
    plain, noise = np.asarray(turned / gain / own, np.float32), np.asarray(noise / own, np.float32)
    for size in group_sizes(plain.shape[1]):
        whole = plain.shape[1] // size * size
        groups, blurs = (values[:, :whole].reshape(-1, size) for values in (plain, noise))
        some = slice(None, None, max(1, len(groups) // _TRIED))
        tried = [_gathered(*pair) is not None for pair in zip(groups[some], blurs[some], strict=True)]
        gathers = sum(tried) >= _NEARLY_ALL * len(tried)
        # Hardly two numbers of a short line may share a level: then there is nothing to gather.
        if not gathers and not size == plain.shape[1] <= _MOST_LEVELS:
            continue
        made = plain.copy()
        pairs = zip(groups, blurs, strict=True)
        gathered = [(group if (one := _gathered(group, blur)) is None else one) for group, blur in pairs]
        made[:, :whole] = np.stack(gathered).reshape(len(plain), whole)
        found = find_lattice(made, np.ones_like)
        if found is not None and (gathers or found.group == size):
            return found, np.asarray(level_steps(made, found) * own * np.abs(gain), np.float32)
    return None


def _gathered(line: Floats, blur: Floats) -> Floats | None:
    """Merge numbers that are no further apart than rounding explains; None if there are too many.

    Numbers whose own step is long take the nearest place of the others, if it is within what explains them.
    """
    sharp = blur <= _BLURRED
    if 2 * np.count_nonzero(sharp) < len(line):
        return None
    tried = (_levels_of(line[sharp], factor * float(np.median(blur[sharp]))) for factor in _STRETCHED)
    levels = next((found for found in tried if found is not None), None)
    return None if levels is None else _snapped(line, levels, np.where(sharp, np.inf, _APART * blur))


def _levels_of(numbers: Floats, step: float) -> Floats | None:
    """Return the places that numbers gather at, in order; None if they do not."""
    held = np.sort(numbers)
    group = np.concatenate([[0], np.cumsum(np.diff(held) > _APART * step)])
    count = int(group[-1]) + 1
    starts = np.searchsorted(group, np.arange(count))
    ends = np.append(starts[1:], len(held)) - 1
    if count > min(_MOST_LEVELS, len(held) - 1) or float((held[ends] - held[starts]).max()) > _LONGEST * step:
        return None
    return np.asarray(np.bincount(group, weights=held) / np.bincount(group), np.float32)


def _snapped(line: Floats, levels: Floats, reach: Floats) -> Floats:
    """Move each number to the nearest level, if that is within its reach."""
    right = np.clip(np.searchsorted(levels, line), 1, max(1, len(levels) - 1))
    right, left = np.minimum(right, len(levels) - 1), right - 1
    nearest = np.where(line - levels[left] < levels[right] - line, levels[left], levels[right])
    return np.asarray(np.where(np.abs(nearest - line) <= reach, nearest, line), np.float32)


def learned_turn(first: Floats, tables: Sequence[Table]) -> Turn | None:
    """Learn the map again from all rows at hand; those that changed least count most.

    Training moves token rows too, so a map learned from them alone is off by that. What an adapter changes is
    only in matrices, and would spoil a map learned from everything. So each table is weighted by what the
    previous map left of it.

    Parameters
    ----------
    first
        The map that the deep stage found.
    tables
        Rows over both residual streams that belong together: of tokens, and of one layer.

    Returns
    -------
    Turn or None
        None if the map leaves too much of every table.
    """
    if not tables:
        return None
    matrix, wide = first, max(first.shape) > _WIDEST
    judged = [_Judged.of(table, most=_JUDGED if wide else None) for table in tables]
    left = [_left(matrix, *table.rows) for table in judged]
    error, weights = math.inf, [0.0 for _ in tables]
    for _ in range(_ROUNDS):
        before, error = error, _error(judged, left)
        used, weights = weights, [1 / (each**2 + _ARITHMETIC**2) for each in left]
        good = error <= _WIDE_ENOUGH and not _weighed_anew(used, weights)
        if wide and (good or error > _BETTER * before):
            break
        told = _telling(judged, weights) if wide else [True for _ in tables]
        chosen = [(table, weight) for table, weight, one in zip(tables, weights, told, strict=True) if one]
        matrix = _procrustes(chosen, first.shape, wide=wide)
        left = [_left(matrix, *table.rows) for table in judged]
    if min(left) > _HOLDS:
        return None
    n = sum(table.n_rows for table, each in zip(judged, left, strict=True) if each <= _HOLDS)
    return Turn(matrix=matrix, n_rows=n, error=_error(judged, left))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Judged:
    """Rows of a table by which a map is judged."""

    rows: Vectors
    n_rows: int
    """Of the whole table."""

    @classmethod
    def of(cls, table: Table, *, most: int | None) -> _Judged:
        mine, theirs = table()
        n_rows = len(mine)
        if most is not None and n_rows > most:
            spread = np.linspace(0, n_rows - 1, most).astype(np.intp)
            mine, theirs = mine[spread], theirs[spread]
        return cls(rows=(mine, theirs), n_rows=n_rows)


def _error(tables: Sequence[_Judged], left: Sequence[float]) -> float:
    """Estimate the error of a map from what it leaves of each table."""
    known = sum(table.n_rows / (each**2 + _ARITHMETIC**2) for table, each in zip(tables, left, strict=True))
    return math.sqrt(tables[0].rows[0].shape[1] / known)


def _weighed_anew(used: Sequence[float], weights: Sequence[float]) -> bool:
    """Say whether a map was learned with tables at weights far from those it gives them.

    What one table lost to a quantiser is then in the map, and the others show less of it than there is.
    """
    factors = [now / then if then else math.inf for now, then in zip(weights, used, strict=True)]
    return max(factors) > _OTHER_WEIGHTS * min(factors)


def _telling(tables: Sequence[_Judged], weights: Sequence[float]) -> list[bool]:
    """Say which tables are worth a product: the best ones, until the others together add little."""
    known = [table.n_rows * weight for table, weight in zip(tables, weights, strict=True)]
    order = np.argsort(known)[::-1].tolist()
    found, rows, told = [False for _ in tables], 0, 0.0
    for place in order:
        if rows >= _ENOUGH_ROWS * tables[0].rows[0].shape[1] and sum(known) - told < _SPARED * sum(known):
            break
        found[place], rows, told = True, rows + tables[place].n_rows, told + known[place]
    return found


def _procrustes(tables: Sequence[tuple[Table, float]], shape: tuple[int, ...], *, wide: bool) -> Floats:
    # Tables of wide models already take half a gigabyte: they are not widened to double.
    kind = np.float32 if wide else np.float64
    cross = np.zeros(shape)
    for table, weight in tables:
        mine, theirs = table()
        # No table counts more than another because of the size of its numbers.
        scale = root_mean_square(mine) * root_mean_square(theirs)
        if scale > 0:
            product = np.asarray(mine, kind).T @ np.asarray(theirs, kind)
            product *= kind(weight / scale)
            cross += product
    return polar_factor(cross).astype(np.float32)


def _left(matrix: Floats, mine: Floats, theirs: Floats) -> float:
    """Return the relative difference of two tables once one is rotated, up to scale."""
    turned = mine @ matrix
    own = float(np.vdot(turned, turned))
    factor = float(np.vdot(turned, theirs)) / own if own > 0 else 0.0
    size = root_mean_square(theirs)
    return root_mean_square(np.float32(factor) * turned - theirs) / size if size > 0 else 1.0


def turned_tables(
    reader: TurnedReader, facing: Sequence[FacingTensors], orders: Orders, matrices: TurnedMatrices
) -> list[Table]:
    """Return rows to learn a better map from: of shared tokens, and of layers whose orders are known."""
    made: list[Table] = []
    for item in facing:
        if item.layer is not None:
            found = reader.table(item, orders, matrices)
        else:
            rows = reader.token_vectors(item, matrices) if item.role in TOKEN_ROLES else None
            found = None if rows is None else partial(_kept, rows)
        made += [] if found is None else [found]
    return made


def _kept(rows: Vectors) -> Vectors:
    return rows
