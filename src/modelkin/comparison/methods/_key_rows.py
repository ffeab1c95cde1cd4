"""Which key matrices are read to learn a map of the residual stream."""

from __future__ import annotations

from dataclasses import dataclass

from modelkin.architecture import Role
from modelkin.comparison.alignment import enough_rows

from ._interface import Pair, Part
from ._sketch import RowSource, rows_part, source_of
from .blocks import spread

_SHARE = 0.1
"""Share of the byte allowance: two layers of a 7B model, four of a 70B one with eight groups of heads."""
_ROWS_A_DIMENSION = 3
"""If dimensions are few, as for tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMatrices:
    """Key matrices of layers that are assumed to face each other."""

    candidate: tuple[Part, ...]
    base: tuple[Part, ...]
    pairs: tuple[tuple[int, int], ...]
    """The layers."""
    head_width: int


def key_matrices(pair: Pair) -> KeyMatrices | None:
    """Plan enough layers for enough rows, spread over the depth; None if heads have no such rows."""
    widths = {side.architecture.sizes.get("qk_dim") for side in pair.sides}
    width = widths.pop()
    if widths or not width or width % 2:
        return None
    found = {
        (i, j): both
        for i, j in pair.layer_pairs
        if (both := _sources(pair, i, j)) is not None and all(one.n_units % width == 0 for one in both)
    }
    n_rows = enough_rows(max(size or 0 for size in pair.widths), most=_ROWS_A_DIMENSION)
    allowance = int(_SHARE * pair.byte_allowance)
    for n_layers in range(len(found), 0, -1):
        pairs = tuple(list(found)[at] for at in spread(len(found), n_layers))
        chosen = [found[layers] for layers in pairs]
        costs = [sum(both[at].cost(both[at].n_units) for both in chosen) for at in (0, 1)]
        fewest = min(sum(both[at].n_units for both in chosen[1:]) for at in (0, 1))
        if max(costs) <= allowance and (fewest < n_rows or n_layers == 1):
            mine, theirs = (
                tuple(rows_part(side, both[at]) for both in chosen) for at, side in enumerate(pair.sides)
            )
            return KeyMatrices(candidate=mine, base=theirs, pairs=pairs, head_width=width)
    return None


def _sources(pair: Pair, layer: int, facing: int) -> tuple[RowSource, RowSource] | None:
    mine, theirs = (
        source_of(side, Role.ATTENTION_KEY, "qk_dim", number)
        for side, number in zip(pair.sides, (layer, facing), strict=True)
    )
    if mine is None or theirs is None or (mine.n_features, theirs.n_features) != pair.widths:
        return None
    return mine, theirs
