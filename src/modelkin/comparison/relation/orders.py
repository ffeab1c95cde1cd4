"""Which row and column of one model is which of the other, if an order was changed or a width cut.

Orders are only used to subtract matrices of models that are known to be related: no evidence rests on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role, Segment
from modelkin.comparison.alignment import Frame, UnitMatch, match_units
from modelkin.model import Model
from modelkin.tensors import TensorSlice

from .facing import FacingTensors
from .packed import Packed

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]
Key = tuple[str, int | None, int | None]
"""Space, layer and expert; layer None for the residual stream."""

MOST_ELEMENTS = 80_000_000
"""Largest matrix that is read whole to find an order in it."""
_FOUND = 0.5
"""Share of units that must find a distinct place, or the order counts as not found."""
_SOME_NUMBERS = 512
"""Numbers of a row used for the first search: chance reaches a cosine of 0.2 among ten thousand rows."""
_SURE = 0.71
"""Cosine by all numbers from which no further search is made: two rows that have nothing in common cannot
both be this close to a third."""
_STRIPE = 1024
"""Rows whose cosines are computed at once."""
_UNITS = ("mlp", "expert_mlp", "shared_mlp", "encoder_mlp")


@dataclass(slots=True)
class Orders:
    """For each space that was reordered, cut or widened, where each entry of the candidate is in the base.

    An entry that was added has the place -1.
    """

    places: dict[Key, Places] = field(default_factory=dict)
    signs: dict[Key, Floats] = field(default_factory=dict)

    def of(self, spaces: Sequence[str], facing: FacingTensors, sizes: Mapping[str, int]) -> Places | None:
        """Return the places along an axis, or None if its order is unchanged.

        An axis of heads and their dimensions is reordered head by head.
        """
        for key in _keys(spaces[0], facing):
            if key in self.places:
                inner = 1
                for space in spaces[1:]:
                    inner *= sizes.get(space, 1)
                heads = self.places[key]
                if inner == 1:
                    return heads
                each = heads[:, None] * inner + np.arange(inner)
                return np.where(heads[:, None] < 0, -1, each).reshape(-1)
        return None

    def sign_of(self, spaces: Sequence[str], facing: FacingTensors) -> Floats | None:
        """Return the signs along an axis of the residual stream, or None."""
        return self.signs.get((spaces[0], None, None)) if len(spaces) == 1 else None


def _keys(space: str, facing: FacingTensors) -> tuple[Key, ...]:
    return (space, None, None), (space, facing.layer, None), (space, facing.layer, facing.expert)


@dataclass(slots=True)
class Matrices:
    """Whole matrices of both models; those that a layer's orders were found from are kept, for use.

    All of a layer 5,120 wide, of both models, take 2.5 GB as float32. They are kept as 16 bits a number where
    these are what was stored, and widened for each use.
    """

    models: tuple[Model, Model]
    kept: dict[tuple[int, str], Packed] = field(default_factory=dict)

    def both(self, item: FacingTensors) -> tuple[Floats, Floats] | None:
        """Return two facing matrices, outputs first; None if one is too large, or not a matrix."""
        infos = self.models[0].index[item.candidate], self.models[1].index[item.base]
        if any(len(info.shape) != 2 or info.n_elements > MOST_ELEMENTS for info in infos):
            return None
        return self.one(item, 0), self.one(item, 1)

    def release(self, item: FacingTensors) -> None:
        """Release two facing matrices after their last use; parts of a fused one are used one by one."""
        for side, name in enumerate((item.candidate, item.base)):
            if item.segments[side] is None:
                self.kept.pop((side, name), None)

    def forget(self) -> None:
        """Release the matrices of a layer."""
        self.kept.clear()

    def one(self, item: FacingTensors, side: int) -> Floats:
        """Return the matrix of one model, outputs first."""
        name = (item.candidate, item.base)[side]
        if (side, name) not in self.kept:
            read = np.asarray(self.models[side].read([TensorSlice.whole(name)])[0], np.float32)
            self.kept[side, name] = Packed.of(read)
        values = part_of(self.kept[side, name].wide(), item.segments[side])
        return values.T if item.transposed[side] else values


def part_of(values: Floats, segment: Segment | None) -> Floats:
    """Cut a part out of a fused tensor."""
    if segment is None:
        return values
    places = np.concatenate([np.arange(start, stop) for start, stop in segment.ranges()])
    return np.take(values, places, axis=segment.axis)


def residual_order(
    orders: Orders,
    facing: Sequence[FacingTensors],
    rows: Callable[[FacingTensors], tuple[Floats, Floats] | None],
    *,
    seed: int,
) -> None:
    """Find the order of residual dimensions by rows of shared tokens, as `rows` gives them."""
    by_role = {item.role: item for item in facing if item.layer is None}
    for role in (Role.EMBEDDING, Role.OUTPUT_HEAD):
        tokens = by_role.get(role.value)
        read = rows(tokens) if tokens is not None else None
        if read is not None and _note(orders, ("residual", None, None), read[0].T, read[1].T, seed):
            return


def order_of_frame(orders: Orders, frame: Frame) -> bool:
    """Take the order of residual dimensions from a map that gives each a place; say whether it does."""
    if frame.places is None or not np.array_equal(np.sort(frame.places), np.arange(frame.widths[0])):
        return False
    key = ("residual", None, None)
    orders.places[key] = np.argsort(frame.places)
    if frame.signs is not None and (frame.signs < 0).any():
        orders.signs[key] = frame.signs[orders.places[key]]
    return True


def layer_orders(
    orders: Orders,
    matrices: Matrices,
    facing: Sequence[FacingTensors],
    *,
    moved: frozenset[str],
    seed: int,
) -> None:
    """Find the orders of units and heads of one layer, in the order of residual dimensions found before.

    Parameters
    ----------
    orders
        Gets what is found.
    facing
        The tensors of the layer.
    moved
        Spaces to look at: others keep their order.
    """
    finder = _Finder(orders, matrices, seed)
    for item in facing:
        if item.fused or len(item.axes) != 2:
            continue
        outputs, inputs = item.axes
        if outputs[0] in moved and outputs[0] in _UNITS and len(outputs) == 1:
            finder.units((outputs[0], item.layer, item.expert), item)
        if "heads" in moved and item.role == Role.ATTENTION_OUTPUT.value and len(inputs) == 2:
            finder.heads((inputs[0], item.layer, None), item, inputs)
        if "heads" in moved and item.role == Role.ATTENTION_VALUE.value and len(outputs) == 2:
            finder.heads((outputs[0], item.layer, None), item, outputs)


@dataclass(slots=True)
class _Finder:
    orders: Orders
    matrices: Matrices
    seed: int

    @property
    def sizes(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        mine, theirs = self.matrices.models
        return mine.architecture.sizes, theirs.architecture.sizes

    def units(self, key: Key, item: FacingTensors) -> None:
        """Match the rows of what reads with the units of a layer."""
        read = None if key in self.orders.places else self.matrices.both(item)
        if read is None:
            return
        theirs = self._in_order(read[1], item, axis=1)
        if theirs is not None and theirs.shape[1] == read[0].shape[1]:
            _note(self.orders, key, read[0], theirs, self.seed)

    def heads(self, key: Key, item: FacingTensors, spaces: Sequence[str]) -> None:
        """Match heads by all their numbers: columns of the output matrix, rows of the values."""
        read, size = self.matrices.both(item), self.sizes[0].get(spaces[1])
        if read is None or key in self.orders.places or not size or size != self.sizes[1].get(spaces[1]):
            return
        mine = read[0]
        writes = item.role == Role.ATTENTION_OUTPUT.value
        theirs = self._in_order(read[1], item, axis=0 if writes else 1)
        if theirs is None:
            return
        if writes:
            mine, theirs = mine.T, theirs.T
        if mine.shape[1] == theirs.shape[1] and len(mine) % size == len(theirs) % size == 0:
            wide = size * mine.shape[1]
            _note(self.orders, key, mine.reshape(-1, wide), theirs.reshape(-1, wide), self.seed)

    def _in_order(self, theirs: Floats, item: FacingTensors, *, axis: int) -> Floats | None:
        """Reorder the residual dimensions of a base matrix like the candidate's."""
        places = self.orders.of(item.axes[axis], item, self.sizes[1])
        signs = self.orders.sign_of(item.axes[axis], item)
        if places is not None:
            if len(places) and places.max() >= theirs.shape[axis]:
                return None
            theirs = np.take(theirs, places, axis=axis)
        if signs is None:
            return theirs
        return theirs * (signs[:, None] if axis == 0 else signs)


def _note(orders: Orders, key: Key, mine: Floats, theirs: Floats, seed: int) -> bool:
    """Record where each row of the candidate is in the base, if most of them have a distinct place."""
    found = matched_rows(mine, theirs, seed=seed)
    used = found.places[found.usable]
    if not len(mine) or len(np.unique(used)) < _FOUND * len(mine) or not len(used):
        return False
    in_place = len(mine) == len(theirs) and np.array_equal(found.places, np.arange(len(mine)))
    turned = found.cosines < 0
    if in_place and not turned.any():
        return True
    orders.places[key] = np.where(found.usable, found.places, 0)
    if len(mine) > len(theirs) and key[0] != "residual":
        orders.places[key] = _nearest_of_each(found)
    if key[0] == "residual" and turned.any():
        orders.signs[key] = np.where(turned, -1, 1).astype(np.float32)
    return True


def _nearest_of_each(found: UnitMatch) -> Places:
    """Keep for each row of the base the row that is most like it; others were added, and face none (-1)."""
    places = np.full(len(found.places), -1, dtype=np.intp)
    taken: set[int] = set()
    for row in np.argsort(-np.abs(found.cosines), kind="stable").tolist():
        place = int(found.places[row])
        if found.usable[row] and place not in taken:
            taken.add(place)
            places[row] = place
    return places


def matched_rows(mine: Floats, theirs: Floats, *, seed: int) -> UnitMatch:
    """Match rows by some of their numbers, and doubtful ones again by all of them.

    For a layer of a large model, all numbers take ten seconds. With some hundreds, chance reaches a cosine of
    a fifth, and rows of relatives are far above: a match that holds by all numbers needs no further search.
    Rows that are all in place need none at all.
    """
    width = mine.shape[1]
    if width <= 2 * _SOME_NUMBERS:
        return match_units(mine, theirs, seed=seed, sign_free=True)
    if len(mine) == len(theirs):
        in_place = np.arange(len(mine), dtype=np.intp)
        cosines = _all_cosines(mine, theirs, in_place)
        if np.all(np.abs(cosines) >= _SURE):
            return UnitMatch(places=in_place, cosines=cosines)
    some = np.linspace(0, width - 1, _SOME_NUMBERS).astype(np.intp)
    found = match_units(mine[:, some], theirs[:, some], seed=seed, sign_free=True)
    cosines = _all_cosines(mine, theirs, found.places)
    doubtful = np.flatnonzero(np.abs(cosines) < _SURE)
    places = found.places.copy()
    if len(doubtful):
        again = match_units(mine[doubtful], theirs, seed=seed, sign_free=True)
        places[doubtful], cosines[doubtful] = again.places, again.cosines
    return UnitMatch(places=places, cosines=cosines)


def _all_cosines(mine: Floats, theirs: Floats, places: Places) -> Floats:
    """Return the cosine of each row with the one at its place, some rows at a time; 0 without a place."""
    cosines = np.zeros(len(mine), dtype=np.float32)
    for start in range(0, len(mine), _STRIPE):
        rows = np.arange(start, min(start + _STRIPE, len(mine)))
        rows = rows[places[rows] >= 0]
        cosines[rows] = _cosines(mine[rows], theirs[places[rows]])
    return cosines


def _cosines(mine: Floats, theirs: Floats) -> Floats:
    products, *squares = (
        np.einsum("ij,ij->i", a, b, dtype=np.float64)
        for a, b in ((mine, theirs), (mine, mine), (theirs, theirs))
    )
    lengths = np.sqrt(squares[0] * squares[1])
    return np.asarray(products / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)
