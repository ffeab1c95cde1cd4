"""The reader of sampled differences: rows of facing tensors, planned within an allowance, read one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from modelkin.comparison.methods import near_rows
from modelkin.comparison.tokens import Tokens
from modelkin.model import Model
from modelkin.tensors import Rows, TensorInfo, TensorSlice, sample_rows
from modelkin.tokenizer import TokenPairs

from .facing import TOKEN_ROLES, FacingTensors
from .lattice import Lattice, find_lattice, level_steps
from .measure import Block
from .orders import Matrices, Orders, part_of
from .result import Side
from .steps import effective_format, stored_steps

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]

_ROWS = (384, 256, 192, 128, 96, 64, 48)
"""Numbers of rows of a matrix to try until a plan fits: with n rows, n/3 directions can be counted."""
MOST_ROWS = _ROWS[0]
_FEWEST_LAYERS = 2
"""One layer could not tell a change of all layers from a change of this one."""
_ORDER_ROWS = 4096
"""Rows of shared tokens by which residual dimensions are told apart."""
_KEY = "relation"
"""Replaces tensor names when rows are drawn: matrices of one shape are read at the same places, so that a
direction can be followed through the layers."""
_HEAD_ROLES = ("attention_query", "attention_key", "attention_value")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaPlan:
    """Which rows of which tensors are read."""

    facing: tuple[FacingTensors, ...]
    n_rows: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LineOrder:
    """The order in which indices of an axis face each other."""

    mine: Places
    theirs: Places
    signs: Floats
    """Of the candidate's indices, before reordering."""
    moved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaReader:
    """Reads rows of both models that face each other."""

    candidate: Model
    base: Model
    tokens: Tokens
    seed: int

    def plan(
        self,
        facing: Sequence[FacingTensors],
        *,
        allowance: int,
        most_layers: int,
        differing: Collection[str] = (),
    ) -> DeltaPlan:
        """Choose layers and rows so that both models stay within an allowance of bytes.

        Rows are given up first, then layers, then tensors other than attention. Layers with tensors of the
        candidate that are known to be `differing` come before others.
        """
        layers = sorted({item.layer for item in facing if item.layer is not None})
        first = {item.layer for item in facing if item.candidate in differing}
        fewest = min(_FEWEST_LAYERS, len(layers))
        count = min(most_layers, len(layers))
        while True:
            chosen = set(_with_first(layers, first, count))
            kept = some_experts([item for item in facing if item.layer is None or item.layer in chosen])
            for n_rows in _ROWS:
                plan = DeltaPlan(facing=tuple(kept), n_rows=n_rows)
                if self._price(plan) <= allowance:
                    return plan
            if count <= fewest:
                break
            count = max(fewest, count // 2)
        few = [item for item in kept if item.component in ("attention", "norms") and item.layer is not None]
        while few and self._price(DeltaPlan(facing=tuple(few), n_rows=_ROWS[-1])) > allowance:
            few.pop()
        return DeltaPlan(facing=tuple(few), n_rows=_ROWS[-1])

    def slices(self, plan: DeltaPlan) -> tuple[list[TensorSlice], list[TensorSlice]]:
        """Return what is read of both models, except for orders."""
        found = [item for each in plan.facing if (item := self._slices(each, plan.n_rows)) is not None]
        return [mine for mine, _ in found], [theirs for _, theirs in found]

    def blocks(self, plan: DeltaPlan) -> Iterator[Block]:
        """Read the rows of a plan, one tensor after another: memory holds one of each model."""
        for item in plan.facing:
            block = self._sampled(item, plan.n_rows)
            if block is not None:
                yield block

    def ordered(
        self, facing: Sequence[FacingTensors], orders: Orders, matrices: Matrices, *, n_rows: int
    ) -> Iterator[Block]:
        """Put whole tensors of the base into the candidate's order, and cut rows out of them."""
        for item in facing:
            block = None if item.fused else self._ordered(item, n_rows, orders, matrices)
            matrices.release(item)  # all of a layer 5,120 wide, of both models, take 2.5 GB
            if block is not None:
                yield block

    def one_by_one(self, slices: Sequence[TensorSlice]) -> int:
        """Return what reading parts of the candidate costs, one tensor after another."""
        return sum(self.candidate.cost([item]) for item in slices)

    def tokens_to_order(self, item: FacingTensors) -> tuple[TensorSlice, TensorSlice] | None:
        """Return which rows of shared tokens are read to tell dimensions apart; None if it has none."""
        return self._token_rows(item, _ORDER_ROWS) if item.role in TOKEN_ROLES else None

    def rows_of_tokens(self, item: FacingTensors) -> tuple[Floats, Floats] | None:
        """Return rows of shared tokens, enough of them to tell dimensions apart."""
        wanted = self._token_rows(item, _ORDER_ROWS)
        return None if wanted is None else self._read(wanted)

    def whole_layers(
        self, facing: Sequence[FacingTensors], *, allowance: int, most_layers: int
    ) -> list[FacingTensors]:
        """Choose as many layers as may be read whole; what is outside layers comes first."""
        layers = sorted({item.layer for item in facing if item.layer is not None})
        for count in range(min(most_layers, len(layers)), 0, -1):
            chosen = set(_spread(layers, count))
            kept = some_experts([item for item in facing if item.layer is None or item.layer in chosen])
            inner = [item for item in kept if item.layer is not None]
            mine = self.candidate.cost([TensorSlice.whole(item.candidate) for item in inner])
            theirs = self.base.cost([TensorSlice.whole(item.base) for item in inner])
            if max(mine, theirs) <= allowance:
                return kept
        return []

    def _price(self, plan: DeltaPlan) -> int:
        mine, theirs = self.slices(plan)
        return max(self.candidate.cost(mine), self.base.cost(theirs)) if mine else 0

    def _infos(self, item: FacingTensors) -> tuple[TensorInfo, TensorInfo]:
        return self.candidate.index[item.candidate], self.base.index[item.base]

    def _slices(self, item: FacingTensors, n_rows: int) -> tuple[TensorSlice, TensorSlice] | None:
        mine, theirs = self._infos(item)
        if not (mine.is_float and theirs.is_float) or not mine.n_elements:
            return None
        if item.role in TOKEN_ROLES:
            return self._token_rows(item, n_rows) if mine.shape[1:] == theirs.shape[1:] else None
        if mine.shape != theirs.shape or item.transposed[0] != item.transposed[1]:
            return None
        if len(mine.shape) == 1:
            return TensorSlice.whole(mine.name), TensorSlice.whole(theirs.name)
        drawn = [
            sample_rows(info, n_rows=n_rows, seed=self.seed, key=_KEY, contiguous=True)
            for info in (mine, theirs)
        ]
        return drawn[0], drawn[1]

    def _token_rows(self, item: FacingTensors, count: int) -> tuple[TensorSlice, TensorSlice] | None:
        if not isinstance(self.tokens, TokenPairs):
            return None
        infos = self._infos(item)
        rows = near_rows(self.tokens, infos)[:count]
        if not rows:
            return None
        mine = TensorSlice.scattered(infos[0].name, [row for row, _ in rows])
        return mine, TensorSlice.scattered(infos[1].name, [row for _, row in rows])

    def _read(self, wanted: tuple[TensorSlice, TensorSlice]) -> tuple[Floats, Floats]:
        mine, theirs = (
            _lines(model.read([one])[0])
            for model, one in zip((self.candidate, self.base), wanted, strict=True)
        )
        return mine, theirs

    def _sampled(self, item: FacingTensors, n_rows: int) -> Block | None:
        wanted = self._slices(item, n_rows)
        if wanted is None:
            return None
        mine, theirs = self._read(wanted)
        if item.transposed[0] and mine.ndim == 2:
            mine, theirs = np.ascontiguousarray(mine.T), np.ascontiguousarray(theirs.T)
        made = self._block(item, mine, theirs)
        return made if item.fused else replace(made, places=_places_read(wanted[1], theirs, item))

    def _ordered(self, item: FacingTensors, n_rows: int, orders: Orders, matrices: Matrices) -> Block | None:
        read, infos = self._whole(item, n_rows, matrices), self._infos(item)
        if read is None:
            return None
        mine, theirs = read
        if mine.ndim == 1:
            return self._ordered_vector(item, mine, theirs, orders)
        # Quantisers work in the order they find: groups are searched for before anything is reordered.
        lattice, side = one_on_levels(mine, theirs, (infos[0].dtype, infos[1].dtype))
        rows = self._line_order(item, orders, 0, len(mine), len(theirs))
        if rows is None:
            return None
        # Only the kept rows are reordered: whole matrices of wide models take seconds.
        chosen, facing = rows.mine[:n_rows], rows.theirs[:n_rows]
        mine, theirs = mine[chosen] * rows.signs[chosen, None], theirs[facing]
        steps = None if lattice is None else level_steps(mine if side == "candidate" else theirs, lattice)
        columns = self._line_order(item, orders, 1, mine.shape[1], theirs.shape[1])
        if columns is None:
            return None
        mine, theirs = mine[:, columns.mine] * columns.signs[columns.mine], theirs[:, columns.theirs]
        moved = rows.moved or columns.moved
        made = self._block(item, np.ascontiguousarray(mine), np.ascontiguousarray(theirs), reordered=moved)
        made = replace(made, places=(facing, columns.theirs))
        if lattice is None or steps is None:
            return made
        kept = columns.mine if side == "candidate" else columns.theirs
        return replace(made, levels=(lattice, steps[:, kept], side))

    def _ordered_vector(
        self, item: FacingTensors, mine: Floats, theirs: Floats, orders: Orders
    ) -> Block | None:
        order = self._line_order(item, orders, 0, len(mine), len(theirs))
        if order is None:
            return None
        mine, theirs = (mine * order.signs)[order.mine], theirs[order.theirs]
        made = self._block(
            item, np.ascontiguousarray(mine), np.ascontiguousarray(theirs), reordered=order.moved
        )
        return replace(made, places=(order.theirs, np.arange(1)))

    def _line_order(
        self, item: FacingTensors, orders: Orders, axis: int, n_mine: int, n_theirs: int
    ) -> _LineOrder | None:
        """Return the order of both models along an axis; None if they do not become equally long."""
        order = _LineOrder(
            mine=np.arange(n_mine), theirs=np.arange(n_theirs), signs=np.ones(n_mine, np.float32)
        )
        if axis < len(item.axes) and not (item.role in TOKEN_ROLES and axis == 0):
            spaces = item.axes[axis]
            places = orders.of(spaces, item, self.base.architecture.sizes)
            signs = orders.sign_of(spaces, item)
            if signs is not None and len(signs) == n_mine and not _is_gain(item):
                order = replace(order, signs=signs)
            if places is not None and len(places) and places.max() < n_theirs:
                # Groups of quantisers and patterns of zeros show in the order they were made in.
                if _is_permutation(places, n_theirs):
                    order = replace(order, mine=np.argsort(places), moved=True)
                else:
                    held = np.flatnonzero(places >= 0)
                    moved = bool((np.diff(places[held]) < 0).any())
                    order = replace(order, mine=held, theirs=places[held], moved=moved)
        return order if len(order.mine) == len(order.theirs) else None

    def _whole(self, item: FacingTensors, n_rows: int, matrices: Matrices) -> tuple[Floats, Floats] | None:
        infos = self._infos(item)
        if item.role in TOKEN_ROLES:
            wanted = self._token_rows(item, n_rows)
            return None if wanted is None else self._read(wanted)
        if len(infos[0].shape) == 1:
            mine, theirs = self._read((TensorSlice.whole(item.candidate), TensorSlice.whole(item.base)))
            return part_of(mine, item.segments[0]), part_of(theirs, item.segments[1])
        return matrices.both(item)

    def _block(self, item: FacingTensors, mine: Floats, theirs: Floats, *, reordered: bool = False) -> Block:
        infos = self._infos(item)
        part = item.segments[0]
        share = 1.0 if part is None else len(part) / infos[0].shape[part.axis]
        everything = mine.size == round(share * infos[0].n_elements)
        head = self.candidate.architecture.sizes.get("v_dim" if item.role == _HEAD_ROLES[2] else "qk_dim", 0)
        in_heads = item.role in _HEAD_ROLES and not item.fused and everything
        return Block(
            facing=item,
            candidate=mine,
            base=theirs,
            dtypes=(infos[0].dtype, infos[1].dtype),
            whole=everything,
            head=head if in_heads else 0,
            reordered=reordered,
        )


def one_on_levels(mine: Floats, theirs: Floats, dtypes: tuple[str, str]) -> tuple[Lattice | None, Side]:
    """Find the levels of the candidate or else of the base, each as it is stored: either may be quantised."""
    found = lattice_of(mine, dtypes[0])
    return (found, "candidate") if found is not None else (lattice_of(theirs, dtypes[1]), "base")


def lattice_of(values: Floats, dtype: str) -> Lattice | None:
    """Find the levels of a matrix as it is stored."""
    lines = np.ascontiguousarray(values)
    stored = effective_format(lines, dtype)
    return find_lattice(lines, lambda some: stored_steps(some, stored))


def _is_permutation(places: npt.NDArray[np.intp], size: int) -> bool:
    return len(places) == size and len(np.unique(places)) == size


def _is_gain(item: FacingTensors) -> bool:
    """Say whether a vector multiplies the residual stream: then signs of its dimensions do not affect it."""
    return item.component == "norms" and not item.role.endswith("_bias")


def _places_read(wanted: TensorSlice, values: Floats, item: FacingTensors) -> tuple[Places, Places] | None:
    """Return which rows and columns of the base were read; None for tensors of more axes."""
    if values.ndim == 1:
        return np.arange(len(values)), np.arange(1)
    places = [np.arange(size) for size in values.shape]
    axis = 1 if item.transposed[1] else 0
    if isinstance(wanted.selection, Rows):
        start, stop = wanted.selection.start, wanted.selection.stop
        if stop - start != values.shape[axis]:
            return None
        places[axis] = np.arange(start, stop)
    return places[0], places[1]


def _lines(values: npt.NDArray[np.generic]) -> Floats:
    """Return numbers as a vector or a matrix of lines."""
    array = np.asarray(values, np.float32)
    return array if array.ndim <= 2 else array.reshape(-1, array.shape[-1])


def some_experts(facing: Sequence[FacingTensors]) -> list[FacingTensors]:
    """Keep a few experts per layer: there are many, and they were treated alike or not at all."""
    numbers = sorted({item.expert for item in facing if item.expert is not None})
    kept = set(_spread(numbers, 2))
    return [item for item in facing if item.expert is None or item.expert in kept]


def _with_first(numbers: Sequence[int], first: Collection[int | None], count: int) -> list[int]:
    """Choose some numbers, those named first before others; a third is left for the others, if there are."""
    named, others = ([item for item in numbers if (item in first) == wanted] for wanted in (True, False))
    chosen = _spread(named, min(len(named), count - min(len(others), count // 3)))
    return [*chosen, *_spread(others, count - len(chosen))]


def _spread(numbers: Sequence[int], count: int) -> list[int]:
    if count >= len(numbers):
        return list(numbers)
    places = (np.arange(count) + 0.5) * len(numbers) / max(1, count)
    return [numbers[int(place)] for place in places]
