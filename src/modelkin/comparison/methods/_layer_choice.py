"""Which layers are read to contrast them, and how much of each: as the bytes allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.comparison.alignment import LayerUnits
from modelkin.message import Message, say
from modelkin.tensors import Array

from ._interface import Pair, Part, Side
from ._layer_parts import (
    HeadMatrices,
    KeyMatrix,
    LayerMatrices,
    ReadingDepth,
    gain_parts,
    head_matrices,
    key_matrix,
    layer_matrices,
)
from .blocks import spread
from .tied import is_tied

_MOST_LAYERS = 6
"""Each pair of layers is evidence of its own; more pairs would take bytes that complete layers need."""
_ENOUGH_LAYERS = 4
"""With fewer, one odd layer would decide: from here on whole units are worth more than further layers."""
_SHARE_OF_UNITS = 0.6
"""Share of the bytes for units, if enough layers fit into it; the rest is for heads. It is less if only that
leaves room for the heads of two layers, as at a width of 5,120."""
_DEPTHS = tuple(
    ReadingDepth(share=share, writes=writes, routed=routed)
    for routed in (True, False)
    for writes, shares in ((True, (1.0, 0.5, 0.25)), (False, (1.0, 0.5, 0.25, 0.12, 0.09)))
    for share in shares
)
"""From everything to the least that is useful."""
TOO_FEW_LAYERS = say("own-layers-few")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenLayers:
    """What is read of both models."""

    how: ReadingDepth
    layers: tuple[tuple[LayerMatrices, ...], tuple[LayerMatrices, ...]]
    heads: tuple[tuple[HeadMatrices, ...], tuple[HeadMatrices, ...]]
    keys: tuple[tuple[KeyMatrix, ...], tuple[KeyMatrix, ...]]
    pairs: tuple[tuple[int, int], ...]
    """Layers that are assumed to face each other."""
    search: bool
    """Whether to find out which layers face each other: then all of them are read."""


def choose_layers(pair: Pair) -> ChosenLayers | Message:
    """Choose layers and how much of each, so that the bytes suffice: more layers before larger parts."""
    every = [
        {layer: found for layer in side.architecture.layers if (found := layer_matrices(side, layer))}
        for side in pair.sides
    ]
    kinds = {item.gated for side in every for item in side.values()}
    if min(len(side) for side in every) < 2:
        return _heads_alone(pair)
    if len(kinds) != 1:
        return say("own-layers-kinds")
    whole = _DEPTHS[0]
    all_cost = max(sum(item.cost(whole) for item in side.values()) for side in every)
    known = [(i, j) for i, j in pair.layer_pairs if i in every[0] and j in every[1]]
    same_depth = [side.architecture.n_layers for side in pair.sides]
    search = same_depth[0] != same_depth[1] and all_cost <= pair.byte_allowance
    if search:
        pairs, how = tuple(known), whole
        wanted = [sorted(side) for side in every]
    else:
        for_units = int(_SHARE_OF_UNITS * pair.byte_allowance)
        for allowance in (min(for_units, pair.byte_allowance - _two_heads(pair)), for_units):
            fitting = _fitting(allowance, every, known)
            if fitting is not None and len(fitting[0]) >= _ENOUGH_LAYERS:
                break
        else:
            fitting = _fitting(pair.byte_allowance, every, known)
        if fitting is None:
            return say("layer-large")
        pairs, how = fitting
        wanted = [sorted({pair_[at] for pair_ in pairs}) for at in (0, 1)]
    layers = tuple(tuple(every[at][layer] for layer in wanted[at]) for at in (0, 1))
    spent = max(sum(item.cost(how) for item in side) for side in layers)
    heads = _heads_of(pair, pairs, wanted, pair.byte_allowance - spent)
    spent += max(sum(item.cost() for item in side) for side in heads)
    # Of large models, whose layers are read in part, keys were tried before.
    keys = _keys_of(pair, wanted, pair.byte_allowance - spent) if how.share == 1.0 else ((), ())
    return ChosenLayers(
        how=how,
        layers=(layers[0], layers[1]),
        heads=heads,
        keys=keys,
        pairs=pairs,
        search=search,
    )


def _heads_alone(pair: Pair) -> ChosenLayers | Message:
    """Choose heads where units of MLPs are not known: by themselves, with keys to learn coordinates from."""
    wanted = [sorted({both[at] for both in pair.layer_pairs}) for at in (0, 1)]
    heads = _heads_of(pair, pair.layer_pairs, wanted, pair.byte_allowance)
    if min(map(len, heads)) < 2:
        return TOO_FEW_LAYERS
    read = [[item.layer for item in side] for side in heads]
    left = pair.byte_allowance - max(sum(item.cost() for item in side) for side in heads)
    return ChosenLayers(
        how=_DEPTHS[0],
        layers=((), ()),
        heads=heads,
        keys=_keys_of(pair, read, left),
        pairs=tuple((i, j) for i, j in pair.layer_pairs if i in read[0] and j in read[1]),
        search=False,
    )


def whole_layers_fit(pair: Pair) -> bool:
    """Say whether all units of the layers that would be read fit into the bytes."""
    chosen = choose_layers(pair)
    return not isinstance(chosen, Message) and chosen.how.share == 1.0


def _fitting(
    allowance: int, every: Sequence[dict[int, LayerMatrices]], known: Sequence[tuple[int, int]]
) -> tuple[tuple[tuple[int, int], ...], ReadingDepth] | None:
    """Choose pairs of layers spread over the depth, and the largest part of each that the bytes allow."""
    best: tuple[tuple[tuple[int, int], ...], ReadingDepth] | None = None
    for how in _DEPTHS:
        for n_layers in range(min(len(known), _MOST_LAYERS), 1, -1):
            pairs = tuple(known[at] for at in spread(len(known), n_layers))
            cost = max(
                sum(every[at][layer].cost(how) for layer in {pair_[at] for pair_ in pairs}) for at in (0, 1)
            )
            if cost > allowance:
                continue
            if best is None or len(pairs) > len(best[0]):
                best = pairs, how
            break
        if best is not None and len(best[0]) >= min(_ENOUGH_LAYERS, len(known)):
            return best
    return best


def _heads_of(
    pair: Pair, pairs: Sequence[tuple[int, int]], wanted: Sequence[Sequence[int]], room: int
) -> tuple[tuple[HeadMatrices, ...], tuple[HeadMatrices, ...]]:
    """Choose heads of the same layers, of as many layers as the remaining bytes allow."""
    found = [
        {layer: made for layer in layers if (made := head_matrices(side, layer))}
        for side, layers in zip(pair.sides, wanted, strict=True)
    ]
    if all(sum(item.cost() for item in side.values()) <= room for side in found):
        return tuple(found[0].values()), tuple(found[1].values())
    both = [(i, j) for i, j in pairs if i in found[0] and j in found[1]]
    for n_layers in range(len(both) - 1, 1, -1):
        some = [both[at] for at in spread(len(both), n_layers)]
        chosen = [[found[at][layer] for layer in sorted({pair_[at] for pair_ in some})] for at in (0, 1)]
        if all(sum(item.cost() for item in side) <= room for side in chosen):
            return tuple(chosen[0]), tuple(chosen[1])
    return (), ()


def _two_heads(pair: Pair) -> int:
    """Return the bytes of the heads of two layers, the fewest that can be contrasted."""
    costs = [
        made.cost()
        for side in pair.sides
        for layer in side.architecture.layers[:1]
        if (made := head_matrices(side, layer))
    ]
    return 2 * max(costs, default=0)


def _keys_of(
    pair: Pair, wanted: Sequence[Sequence[int]], room: int
) -> tuple[tuple[KeyMatrix, ...], tuple[KeyMatrix, ...]]:
    """Choose keys of the same layers: all of them or none."""
    mine, theirs = (
        tuple(made for layer in layers if (made := key_matrix(side, layer)))
        for side, layers in zip(pair.sides, wanted, strict=True)
    )
    too_much = max(sum(item.cost() for item in side) for side in (mine, theirs)) > room
    alike = len({item.width for item in (*mine, *theirs)}) == 1
    return ((), ()) if too_much or not alike else (mine, theirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideUnits:
    """Units, heads and keys of one model, by layer."""

    units: dict[int, LayerUnits]
    heads: dict[int, LayerUnits]
    keys: dict[int, Array]
    tied: dict[int, bool]
    gains: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePlan:
    """What is read of one model."""

    side: Side
    layers: tuple[LayerMatrices, ...]
    heads: tuple[HeadMatrices, ...]
    keys: tuple[KeyMatrix, ...]
    how: ReadingDepth

    def parts(self) -> Iterator[Part]:
        """Yield units, heads, keys and gains, in this order."""
        for layer in self.layers:
            yield from layer.parts(self.side, self.how)
        for head in self.heads:
            yield from head.parts(self.side)
        for key in self.keys:
            yield key.part(self.side)
        yield from gain_parts(self.side, [item.layer for item in self.layers or self.heads])

    def units(self, arrays: list[Array]) -> SideUnits:
        """Make units from what was read, in the order of `parts`."""
        units: dict[int, LayerUnits] = {}
        heads: dict[int, LayerUnits] = {}
        tied: dict[int, bool] = {}
        arrays.reverse()  # so that each is handed over and freed

        def taken(count: int) -> list[Array]:
            return [arrays.pop() for _ in range(count)]

        for layer in self.layers:
            held = taken(len(layer.parts(self.side, self.how)))
            tied[layer.layer] = is_tied(held[0])
            made = layer.units(self.side, self.how, held)
            units |= {layer.layer: made} if made is not None else {}
        for head in self.heads:
            found = head.units(self.side, taken(2))
            heads |= {head.layer: found} if found is not None else {}
        keys = {key.layer: taken(1)[0] for key in self.keys}
        gains = np.stack(taken(len(arrays))) if arrays else np.zeros((0, 0), dtype=np.float32)
        return SideUnits(units=units, heads=heads, keys=keys, tied=tied, gains=gains)
