"""From two related models to what became of each tensor: what is read, in which order, within which bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from modelkin.comparison.alignment import Frame
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.tokens import Tokens
from modelkin.message import Message, say
from modelkin.model import Model
from modelkin.source import FREE_WASTE
from modelkin.tensors import TensorSlice

from .deltas import MOST_ROWS, DeltaPlan, DeltaReader, some_experts
from .facing import TOKEN_ROLES, FacingTensors, are_fused_differently, facing_tensors
from .measure import ALIKE, Block, measure
from .orders import Matrices, Orders, layer_orders, order_of_frame, residual_order
from .partners import Factored, factored, with_factors_left
from .result import TensorChange
from .shapes import changed_widths
from .spectrum import leading_direction
from .turned import EXACT, Turn, TurnedMatrices, TurnedReader, learned_turn, turned_tables

Layers = Sequence[tuple[int, int]]
_WRITERS = ("attention_output", "mlp_down", "expert_down")
_SHARED_BY_HEADS = ("attention_key", "attention_value", "attention_key_bias", "attention_value_bias")
_CHANGED = ("trained", "noise", "low-rank")
_UNITS = frozenset({"mlp", "expert_mlp", "shared_mlp", "encoder_mlp"})
_MOST_LAYERS = {"quick": 0, "standard": 6, "deep": 12, "full": 12}
"""Layers that are subtracted at each depth. What was done to a model shows in a few; `diff` reads all."""
_FEW_DIRECTIONS = 2
"""Ablating a behaviour removes one direction, or two: only for such changes are directions compared over
layers."""
_ORDERED_LAYERS, _ORDERED_ROWS = 4, 256
"""Layers that are read whole to undo an order of units, and rows of them that are measured then."""
_WHOLE_LAYERS_HERE = 4_000_000_000
"""Bytes of layers that are read whole to find orders in them, for local models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deltas:
    """What became of the examined tensors."""

    changes: tuple[TensorChange, ...] = ()
    common_direction: float | None = None
    """Least cosine between the single directions in which matrices of one role changed, over layers; None
    where there are no two of them."""
    turn: Turn | None = None
    """The map that the candidate's weights were rotated by, if the residual stream was rotated."""
    skipped: Message | None = None
    """Why nothing was subtracted."""

    def unlike_in(self, components: Collection[str]) -> Deltas:
        """Do not call a component trained if it shows no sign of a common origin.

        Rows of frequent tokens, and means, agree between strangers: enough to look like a large change of one
        model, but not enough for a test to find. A tensor that is alike beyond what strangers reach was only
        too small for a test.
        """
        return replace(
            self,
            changes=tuple(
                replace(item, what="unlike")
                if item.component in components
                and item.what not in ("equal", "rounded")
                and (item.cosine is None or item.cosine < ALIKE)
                else item
                for item in self.changes
            ),
        )


def read_deltas(
    pair: ModelPair,
    layers: Layers,
    tokens: Tokens,
    *,
    residual: str,
    units: str,
    frame: Frame | None = None,
) -> Deltas:
    """Subtract what faces each other in two related models.

    Parameters
    ----------
    pair
        The models and how much may be read.
    layers
        Layers that face each other.
    tokens
        Rows of shared tokens, or why there are none.
    residual, units
        How dimensions and units were paired by the comparison.
    frame
        The map from the candidate's residual stream to the base's, if one was found.
    """
    if residual == "rotation":
        return _rotated(pair, layers, tokens, None if frame is None else frame.matrix)
    reader = DeltaReader(candidate=pair.candidate, base=pair.base, tokens=tokens, seed=pair.options.seed)
    moved = _moved(pair, residual, units)
    layers = layers if moved else _with_layers_left(pair, layers)
    facing, parts = (facing_tensors(*pair.models, layers, split=split) for split in (False, True))
    most = _MOST_LAYERS[pair.options.depth]
    if moved or are_fused_differently(parts):
        kept = [] if pair.is_far and not pair.is_deep else _whole(pair, reader, parts)
        if not kept:
            return Deltas(skipped=say("delta-order"))
        blocks = _in_order(reader, kept, moved, pair.options.seed, frame)
    else:
        allowance = pair.relation_bytes()
        plan = reader.plan(facing, allowance=allowance, most_layers=most, differing=pair.differing)
        blocks = reader.blocks(plan)
    return _told_of_heads(_measured(blocks, pair.options.seed, pair=pair), pair)


def _told_of_heads(deltas: Deltas, pair: ModelPair) -> Deltas:
    """Do not say how keys and values changed if more or fewer query heads share them.

    A mean of heads, which is how they are made fewer, looks like training.
    """
    cut = changed_widths(pair.candidate.architecture, pair.base.architecture)
    if "kv_heads" not in cut or "heads" in cut:
        return deltas
    return replace(
        deltas,
        changes=tuple(
            replace(item, what="changed") if item.role in _SHARED_BY_HEADS and item.what in _CHANGED else item
            for item in deltas.changes
        ),
    )


def _measured(
    blocks: Iterable[Block], seed: int, turn: Turn | None = None, pair: ModelPair | None = None
) -> Deltas:
    """Say what became of each tensor, and for a pair that was not rotated, whether factors are taken back."""
    changes: list[TensorChange] = []
    held: list[Factored] = []
    directions: dict[str, list[npt.NDArray[np.float32]]] = {}
    for block in blocks:
        found = measure(block, seed=seed)
        if found is None:
            continue
        if pair is not None and block.places is not None:
            held.append(factored(len(changes), found, block))
        changes.append(found)
        if found.role in _WRITERS and found.rank is not None and 0 < found.rank <= _FEW_DIRECTIONS:
            directions.setdefault(found.role, []).append(leading_direction(block.candidate - block.base))
    if not changes:
        return Deltas(skipped=say("delta-none"))
    if pair is not None:
        changes = with_factors_left(changes, held, pair.base.architecture, pair.base.config or {})
    return Deltas(changes=tuple(changes), common_direction=_least_cosine(directions.values()), turn=turn)


def _rotated(
    pair: ModelPair, layers: Layers, tokens: Tokens, rotation: npt.NDArray[np.float32] | None
) -> Deltas:
    """Subtract what faces each other after rotating the candidate's residual stream back."""
    widths = [model.architecture.sizes.get("residual") for model in pair.models]
    if widths[0] != widths[1]:
        return Deltas(skipped=say("delta-width", n=widths[0], m=widths[1]))
    if rotation is None or rotation.shape != (widths[0], widths[0]):
        return Deltas(skipped=say("delta-rotated"))
    seed = pair.options.seed
    reader = TurnedReader(candidate=pair.candidate, base=pair.base, tokens=tokens, seed=seed)
    facing = _whole(pair, reader, facing_tensors(*pair.models, layers, split=True))
    if not facing:
        return Deltas(skipped=say("delta-order"))
    orders, moved = Orders(), frozenset({*_UNITS, "heads"})
    matrices = TurnedMatrices(pair.models, matrix=rotation)
    numbers = sorted({item.layer for item in facing if item.layer is not None})
    first = [item for item in facing if item.layer in numbers[:1]]
    outside = [item for item in facing if item.layer is None]
    # Orders are searched for in the coordinates found; they need no better ones.
    layer_orders(orders, matrices, first, moved=moved, seed=seed)
    of_tokens, own = (turned_tables(reader, items, orders, matrices) for items in (outside, first))
    turn = learned_turn(rotation, [*of_tokens, *own])
    if turn is None:
        return Deltas(skipped=say("delta-rotated"))
    # Without tokens, a map learned from changed matrices takes part of the change for its own.
    if turn.error > EXACT and not any(turn.holds(table) for table in of_tokens):
        return Deltas(skipped=say("delta-rotated"))
    del of_tokens, own  # they hold the matrices of the first layer: 2.5 GB at a width of 5,120
    matrices.matrix = turn.matrix
    reader = replace(reader, error=turn.error)

    def blocks() -> Iterator[Block]:
        for layer in [*numbers, None]:
            items = [item for item in facing if item.layer == layer]
            if layer is not None:
                layer_orders(orders, matrices, items, moved=moved, seed=seed)
            yield from reader.ordered(items, orders, matrices, n_rows=_ORDERED_ROWS)
            matrices.forget()

    return _measured(blocks(), seed, turn)


def wanted_deltas(
    pair: ModelPair, tokens: Tokens, *, reordered: bool
) -> tuple[list[TensorSlice], list[TensorSlice]]:
    """Return what `read_deltas` would read of both models, if layers of equal number face each other."""
    reader = DeltaReader(candidate=pair.candidate, base=pair.base, tokens=tokens, seed=pair.options.seed)
    numbers = set(pair.candidate.architecture.layers) & set(pair.base.architecture.layers)
    facing = facing_tensors(*pair.models, [(number, number) for number in sorted(numbers)])
    if reordered:
        kept = [item for item in _whole(pair, reader, facing) if item.layer is not None]
        mine = [TensorSlice.whole(item.candidate) for item in kept]
        return mine, [TensorSlice.whole(item.base) for item in kept]
    most = _MOST_LAYERS[pair.options.depth]
    return reader.slices(reader.plan(facing, allowance=pair.relation_bytes(), most_layers=most))


def deltas_at_most(pair: ModelPair, tokens: Tokens) -> tuple[int, int]:
    """Return how many bytes `read_deltas` reads of each model at most, whichever layers face each other."""
    if pair.options.depth == "quick":
        return 0, 0
    ways = [_sampled_at_most(pair, tokens)]
    # Without alignment an order is searched for only if a width was cut; for remote models, not even then.
    if pair.is_deep or (not pair.is_far and _moved(pair, "identity", "identity")):
        ways.append(_ordered_at_most(pair, tokens))
    return max(mine for mine, _ in ways), max(theirs for _, theirs in ways)


def _sampled_at_most(pair: ModelPair, tokens: Tokens) -> tuple[int, int]:
    allowance, most = pair.relation_bytes(), _MOST_LAYERS[pair.options.depth]
    outside = _outside(pair)
    reader = DeltaReader(candidate=pair.candidate, base=pair.base, tokens=tokens, seed=pair.options.seed)
    wanted = reader.slices(DeltaPlan(facing=tuple(outside), n_rows=MOST_ROWS))
    found = []
    for model, slices in zip(pair.models, wanted, strict=True):
        own = DeltaReader(candidate=model, base=model, tokens=tokens, seed=pair.options.seed)

        def layer_cost(items: Sequence[FacingTensors], own: DeltaReader = own) -> int:
            return own.one_by_one(own.slices(DeltaPlan(facing=tuple(items), n_rows=MOST_ROWS))[0])

        everything = own.one_by_one(slices) + _heaviest(pair, model, layer_cost, most)
        # What is planned fits; read tensor by tensor, gaps between rows of tokens may be read too.
        fitting = int(allowance * (1 + pair.options.fetch.max_waste)) + FREE_WASTE * len(slices)
        found.append(min(everything, fitting))
    return found[0], found[1]


def _ordered_at_most(pair: ModelPair, tokens: Tokens) -> tuple[int, int]:
    allowance = pair.relation_bytes() if pair.is_far else _WHOLE_LAYERS_HERE
    outside = _outside(pair)
    reader = DeltaReader(candidate=pair.candidate, base=pair.base, tokens=tokens, seed=pair.options.seed)
    found = []
    for side, model in enumerate(pair.models):

        def layer_cost(items: Sequence[FacingTensors], model: Model = model) -> int:
            return sum(model.cost([TensorSlice.whole(item.candidate)]) for item in items)

        inner = min(allowance, _heaviest(pair, model, layer_cost, _ORDERED_LAYERS))
        names = [(item.candidate, item.base)[side] for item in outside if item.role not in TOKEN_ROLES]
        tables = [rows[side] for item in outside if (rows := reader.tokens_to_order(item)) is not None]
        # Rows of tokens are read to find an order, and fewer of them again in that order.
        found.append(
            inner
            + sum(model.cost([TensorSlice.whole(name)]) for name in names)
            + 2 * sum(model.cost([rows]) for rows in tables)
        )
    return found[0], found[1]


def _outside(pair: ModelPair) -> list[FacingTensors]:
    return [item for item in facing_tensors(*pair.models, ()) if item.layer is None]


def _heaviest(
    pair: ModelPair, model: Model, layer_cost: Callable[[Sequence[FacingTensors]], int], most: int
) -> int:
    """Return what this many layers of a model cost at most; one may face several of the other."""
    layers = model.architecture.layers
    facing = facing_tensors(model, model, [(number, number) for number in layers])
    costs = []
    for layer in layers:
        costs.append(layer_cost(some_experts([item for item in facing if item.layer == layer])))
    if pair.is_deep and len({len(one.architecture.layers) for one in pair.models}) > 1:
        return max(costs, default=0) * min(most, max(len(one.architecture.layers) for one in pair.models))
    return sum(sorted(costs, reverse=True)[:most])


def _whole(pair: ModelPair, reader: DeltaReader, facing: Sequence[FacingTensors]) -> list[FacingTensors]:
    allowance = pair.relation_bytes() if pair.is_far else _WHOLE_LAYERS_HERE
    return reader.whole_layers(facing, allowance=allowance, most_layers=_ORDERED_LAYERS)


def _in_order(
    reader: DeltaReader,
    facing: Sequence[FacingTensors],
    moved: frozenset[str],
    seed: int,
    frame: Frame | None,
) -> Iterator[Block]:
    """Yield blocks layer by layer, each in the order that was found for it."""
    orders, matrices = Orders(), Matrices((reader.candidate, reader.base))
    if "residual" in moved and not (frame is not None and order_of_frame(orders, frame)):
        residual_order(orders, facing, reader.rows_of_tokens, seed=seed)
    for layer in [None, *sorted({item.layer for item in facing if item.layer is not None})]:
        items = [item for item in facing if item.layer == layer]
        if layer is not None:
            layer_orders(orders, matrices, items, moved=moved, seed=seed)
        yield from reader.ordered(items, orders, matrices, n_rows=_ORDERED_ROWS)
        matrices.forget()


def _with_layers_left(pair: ModelPair, layers: Layers) -> Layers:
    """Add layers that face none, by number, if models are equally deep.

    Nothing was found in them. Subtraction shows whether they come from another model.
    """
    mine, theirs = (set(model.architecture.layers) for model in pair.models)
    if len(mine) != len(theirs):
        return layers
    left = (mine - {layer for layer, _ in layers}) & (theirs - {facing for _, facing in layers})
    return sorted([*layers, *((number, number) for number in left)])


def _moved(pair: ModelPair, residual: str, units: str) -> frozenset[str]:
    """Return the spaces whose entries may have moved."""
    cut = set(changed_widths(pair.candidate.architecture, pair.base.architecture))
    moved: set[str] = set()
    if residual not in ("identity", "none") or "residual" in cut:
        moved.add("residual")
    if units == "reordered" or moved or cut & {"mlp", "expert_mlp", "experts"}:
        moved |= _UNITS
    if units == "reordered" or moved & {"residual"} or cut & {"heads", "kv_heads"}:
        moved.add("heads")
    return frozenset(moved)


def _least_cosine(groups: Iterable[Sequence[npt.NDArray[np.float32]]]) -> float | None:
    least: float | None = None
    for vectors in groups:
        if len(vectors) < 2 or len({len(vector) for vector in vectors}) > 1:
            continue
        rows = np.stack(vectors)
        cosines = np.abs(rows @ rows.T)[np.triu_indices(len(rows), 1)]
        least = float(cosines.min()) if least is None else min(least, float(cosines.min()))
    return least
