"""Which key matrices are read to learn a map of the residual stream."""

from __future__ import annotations

from dataclasses import dataclass

from modelkin.comparison.alignment import enough_rows

from ._interface import Pair, Part
from ._layer_parts import KeyMatrix, key_matrix
from .blocks import spread

_SHARE = 0.1
"""Share of the byte allowance: two layers of a 7B model, four of a 70B one with eight groups of heads."""
_ROWS_A_DIMENSION = 3
"""In narrow models only, as with tokens."""


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
    n_rows = enough_rows(max(size or 0 for size in pair.widths), most=_ROWS_A_DIMENSION)
    allowance = int(_SHARE * pair.byte_allowance)
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
