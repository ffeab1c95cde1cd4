"""Which layers are paired before anything is known of them, or where nothing was found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from modelkin.architecture import Architecture


def by_depth(candidate: Architecture, base: Architecture) -> tuple[tuple[int, int], ...]:
    """Pair layers of equal relative depth."""
    mine, theirs = candidate.layers, base.layers
    if not mine or not theirs:
        return ()
    scale = (len(theirs) - 1) / max(1, len(mine) - 1)
    return tuple((layer, theirs[math.floor(number * scale + 0.5)]) for number, layer in enumerate(mine))


def completed(
    found: Iterable[tuple[int, int]], mine: Iterable[int], theirs: Iterable[int]
) -> tuple[tuple[int, int], ...]:
    """Pair each layer at most once: as found, else with the layer of its number if that is left over too.

    Pairing what nobody found keeps a share of the layers from being taken for all of them. What was found
    first counts first, and the same pairs come out whichever model is the candidate.

    >>> completed([(0, 0), (1, 0), (2, 1)], range(4), range(4))
    ((0, 0), (2, 1), (3, 3))
    """
    pairs: dict[int, int] = {}
    for layer, facing in found:
        if layer not in pairs and facing not in pairs.values():
            pairs[layer] = facing
    left = {*theirs} - {*pairs.values()}
    pairs.update({layer: layer for layer in mine if layer not in pairs and layer in left})
    return tuple(sorted(pairs.items()))


def with_all(mine: Sequence[int], theirs: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Pair equal numbers, and the layers that only one model has with the last layer of the other."""
    if not mine or not theirs:
        return ()
    pairs = [(layer, layer if layer in theirs else theirs[-1]) for layer in mine]
    return (*pairs, *((mine[-1], layer) for layer in theirs if layer not in mine))


def spread_pairs(pairs: Sequence[tuple[int, int]], most: int) -> tuple[tuple[int, int], ...]:
    """Choose pairs of layers spread over the depth."""
    if len(pairs) <= most:
        return tuple(pairs)
    return tuple(pairs[math.floor((2 * i + 1) * len(pairs) / (2 * most))] for i in range(most))
