"""From two related models to what became of each tensor: what is read, in which order, within which bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from modelkin.comparison.pair import ModelPair
from modelkin.comparison.tokens import Tokens
from modelkin.message import Message, say
from modelkin.tensors import TensorSlice

from .deltas import DeltaReader
from .facing import FacingTensors, facing_tensors
from .measure import Block, measure
from .orders import Matrices, Orders, layer_orders, residual_order
from .result import TensorChange
from .shapes import WIDTHS
from .spectrum import leading_direction

Layers = Sequence[tuple[int, int]]
_WRITERS = ("attention_output", "mlp_down", "expert_down")
_UNITS = frozenset({"mlp", "expert_mlp", "shared_mlp", "encoder_mlp"})
_MOST_LAYERS = {"quick": 0, "standard": 6, "deep": 12, "full": 12}
_FEW_DIRECTIONS = 2
_ORDERED_LAYERS, _ORDERED_ROWS = 4, 256
_WHOLE_LAYERS_HERE = 4_000_000_000
"""Bytes of layers that are read whole to find orders in them, of models that lie here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deltas:
    """What became of the tensors that were looked at."""

    changes: tuple[TensorChange, ...] = ()
    common_direction: float | None = None
    """Least cosine between the single directions in which matrices of one role changed, over layers; None
    where there are no two of them."""
    skipped: Message | None = None
    """Why nothing was subtracted."""

    def unlike_in(self, components: Collection[str]) -> Deltas:
        """Call nothing of a component trained on that shows no sign of a common origin.

        Rows of frequent tokens, and means, agree between strangers: enough to look like a large change of one
        model, and not enough to be found by a test.
        """
        return replace(
            self,
            changes=tuple(
                replace(item, what="unlike")
                if item.component in components and item.what not in ("equal", "rounded")
                else item
                for item in self.changes
            ),
        )


def read_deltas(pair: ModelPair, layers: Layers, tokens: Tokens, *, residual: str, units: str) -> Deltas:
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
    """
    if residual == "rotation":
        return Deltas(skipped=say("delta-rotated"))
    reader = DeltaReader(candidate=pair.candidate, base=pair.base, tokens=tokens, seed=pair.options.seed)
    facing = facing_tensors(*pair.models, layers)
    most = _MOST_LAYERS[pair.options.depth]
    if moved := _moved(pair, residual, units):
        kept = [] if pair.is_far and not pair.is_deep else _whole(pair, reader, facing)
        if not kept:
            return Deltas(skipped=say("delta-order"))
        blocks = _in_order(reader, kept, moved, pair.options.seed)
    else:
        blocks = reader.blocks(reader.plan(facing, allowance=pair.relation_bytes(), most_layers=most))
    changes: list[TensorChange] = []
    directions: dict[str, list[npt.NDArray[np.float32]]] = {}
    for block in blocks:
        found = measure(block, seed=pair.options.seed)
        if found is None:
            continue
        changes.append(found)
        if found.role in _WRITERS and found.rank is not None and 0 < found.rank <= _FEW_DIRECTIONS:
            directions.setdefault(found.role, []).append(leading_direction(block.candidate - block.base))
    if not changes:
        return Deltas(skipped=say("delta-none"))
    return Deltas(changes=tuple(changes), common_direction=_least_cosine(directions.values()))


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


def _whole(pair: ModelPair, reader: DeltaReader, facing: Sequence[FacingTensors]) -> list[FacingTensors]:
    allowance = pair.relation_bytes() if pair.is_far else _WHOLE_LAYERS_HERE
    return reader.whole_layers(facing, allowance=allowance, most_layers=_ORDERED_LAYERS)


def _in_order(
    reader: DeltaReader, facing: Sequence[FacingTensors], moved: frozenset[str], seed: int
) -> Iterator[Block]:
    """Yield blocks layer by layer, each in the order that was found for it."""
    orders, matrices = Orders(), Matrices((reader.candidate, reader.base))
    if "residual" in moved:
        residual_order(orders, facing, reader.rows_of_tokens, seed=seed)
    for layer in [None, *sorted({item.layer for item in facing if item.layer is not None})]:
        items = [item for item in facing if item.layer == layer]
        if layer is not None:
            layer_orders(orders, matrices, items, moved=moved, seed=seed)
        yield from reader.ordered(items, orders, matrices, n_rows=_ORDERED_ROWS)
        matrices.forget()


def _moved(pair: ModelPair, residual: str, units: str) -> frozenset[str]:
    """Return the spaces in which an entry may be in another place."""
    mine, theirs = (model.architecture.sizes for model in pair.models)
    cut = {name for name in WIDTHS if name in mine and name in theirs and mine[name] != theirs[name]}
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
