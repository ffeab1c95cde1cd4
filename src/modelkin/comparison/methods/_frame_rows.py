"""Rows to learn a map of the residual streams from, units or keys; and which layers may be tested in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modelkin.comparison.alignment import enough_rows
from modelkin.stats import cross_z
from modelkin.tensors import Array

from ._interface import Pair, Part
from ._layer_parts import KeyMatrix, key_matrix
from ._sketch import RowSource, mlp_reader, rows_part
from .blocks import spread

_SHARE = 0.19
"""Share of the byte allowance for rows from which a map of the residual streams is learned."""
_ROWS_A_DIMENSION = 4
"""For few dimensions: units of several layers, some of which may have been changed."""
_FEWEST_UNITS = 64
"""Per layer, for such rows."""
_COPY_Z = 5.0
"""z from which a layer counts as a copy of another in its own model. Both models must have the copy."""
COPY_UNITS = 128
"""Units of a layer used to detect that."""
_KEY_SHARE = 0.1
"""Of the byte allowance for key matrices: two layers of a 7B model, four of a 70B one with eight groups of
heads."""
_KEYS_A_DIMENSION = 3
"""Rows of keys for few dimensions, as with tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRows:
    """Units of the even layers, to learn from, and of the odd ones, which are left."""

    candidate: tuple[Part, ...]
    base: tuple[Part, ...]
    left: tuple[int, ...]
    left_candidate: tuple[Part, ...]
    left_base: tuple[Part, ...]


def frame_rows(pair: Pair) -> FrameRows | None:
    """Plan rows from which a map of the residual streams can be learned: units of the even layers.

    Odd layers number their units independently of even ones, so what is tested there is not what was fitted;
    `untouched_layers` says where that does not hold. None unless both models have layers of equal width under
    equal numbers, and the bytes suffice to read some.
    """
    mine, theirs = pair.candidate.architecture.layers, pair.base.architecture.layers
    shared = [layer for layer in mine if layer in theirs]
    found = {layer: _sources(pair, layer) for layer in shared}
    even = [layer for layer in shared if layer % 2 == 0]
    if not even or any(found[layer] is None for layer in even):
        return None
    left = tuple(layer for layer in shared if layer % 2 and found[layer] is not None)
    chosen, most = _fitting(
        [both for layer in even if (both := found[layer]) is not None],
        n_rows=enough_rows(max(width or 0 for width in pair.widths), most=_ROWS_A_DIMENSION),
        allowance=int(_SHARE * pair.byte_allowance),
    )
    if not left or not chosen:
        return None
    candidate, base = _parts(pair, chosen, most)
    left_candidate, left_base = _parts(pair, [found[layer] for layer in left], min(most, COPY_UNITS))
    return FrameRows(
        candidate=candidate, base=base, left=left, left_candidate=left_candidate, left_base=left_base
    )


def untouched_layers(
    layers: Sequence[int],
    *,
    learned: tuple[Sequence[Array], Sequence[Array]],
    left: tuple[Sequence[Array], Sequence[Array]],
) -> frozenset[int]:
    """Return the layers whose unit order had no part in a map that was learned from other layers.

    A model that was grown by copying layers, or that uses one layer many times, numbers the units of an odd
    layer like those of an even one. If both models do, the map was fitted to the very units that would be
    tested. One model without the copy is enough: the order of its units is independent of everything the map
    was learned from.

    `learned` are units of the layers that the map was learned from, the first `COPY_UNITS` at least, and
    `left` those of `layers`; both of candidate and base.
    """
    copied = [_copies(mine, theirs) for mine, theirs in zip(learned, left, strict=True)]
    return frozenset(layer for layer, *both in zip(layers, *copied, strict=True) if not all(both))


def _copies(learned: Sequence[Array], left: Sequence[Array]) -> list[bool]:
    """Say which layers number their units like one that the map was learned from."""
    count = min(len(rows) for rows in (*learned, *left))
    z = cross_z([rows[:count] for rows in left], [rows[:count] for rows in learned])
    return [bool((np.nan_to_num(np.abs(row)) > _COPY_Z).any()) for row in z]


def _fitting(
    found: Sequence[tuple[RowSource, RowSource]], *, n_rows: int, allowance: int
) -> tuple[list[tuple[RowSource, RowSource]], int]:
    """Choose layers, and how many units of each, so that there are enough rows and not too many bytes."""
    for n_layers in range(len(found), 0, -1):
        chosen = [found[number] for number in spread(len(found), n_layers)]
        dearest = max(sum(pair[side].row_bytes for pair in chosen) for side in (0, 1))
        count = min(max(_FEWEST_UNITS, n_rows // n_layers), allowance // max(1, dearest))
        cost = max(sum(pair[side].cost(count) for pair in chosen) for side in (0, 1))
        if count >= _FEWEST_UNITS and cost <= allowance:
            return chosen, count
    return [], 0


def _sources(pair: Pair, layer: int) -> tuple[RowSource, RowSource] | None:
    mine, theirs = (mlp_reader(side, layer, expert=pair.seed) for side in pair.sides)
    if mine is None or theirs is None or mine.n_units != theirs.n_units:
        return None
    return mine, theirs


def _parts(
    pair: Pair, sources: Sequence[tuple[RowSource, RowSource] | None], most: int
) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    held = [both for both in sources if both is not None]
    mine, theirs = (
        tuple(rows_part(side, both[at], count=min(both[at].n_units, most)) for both in held)
        for at, side in enumerate(pair.sides)
    )
    return mine, theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMatrices:
    """Key matrices of layers that are assumed to face each other."""

    candidate: tuple[Part, ...]
    base: tuple[Part, ...]
    pairs: tuple[tuple[int, int], ...]
    """The layers."""
    head_width: int


def key_matrices(pair: Pair) -> KeyMatrices | None:
    """Plan as few layers as give enough rows, spread over the depth; None if no keys can be paired."""
    found = {(i, j): both for i, j in pair.layer_pairs if (both := _facing_keys(pair, i, j)) is not None}
    n_rows = enough_rows(max(size or 0 for size in pair.widths), most=_KEYS_A_DIMENSION)
    allowance = int(_KEY_SHARE * pair.byte_allowance)
    for n_layers in range(len(found), 0, -1):
        pairs = tuple(list(found)[at] for at in spread(len(found), n_layers))
        chosen = [found[layers] for layers in pairs]
        costs = [sum(both[at].cost() for both in chosen) for at in (0, 1)]
        fewest = min(sum(both[at].source.n_units for both in chosen[1:]) for at in (0, 1))
        if max(costs) <= allowance and (fewest < n_rows or n_layers == 1):
            mine, theirs = (
                tuple(both[at].part(side) for both in chosen) for at, side in enumerate(pair.sides)
            )
            return KeyMatrices(candidate=mine, base=theirs, pairs=pairs, head_width=chosen[0][0].width)
    return None


def _facing_keys(pair: Pair, layer: int, facing: int) -> tuple[KeyMatrix, KeyMatrix] | None:
    mine, theirs = key_matrix(pair.candidate, layer), key_matrix(pair.base, facing)
    return None if mine is None or theirs is None or mine.width != theirs.width else (mine, theirs)
