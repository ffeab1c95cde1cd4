"""Which layer of one model is held against which layer of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

LayerPairing = Literal["same", "all", "within", "relative", "mixed"]
"""`same`: equal numbers. `all`: every layer with every layer of another model. `within`: every two layers of
one model. `relative`: nearest relative depth. `mixed`: first chosen with first chosen, second with second."""
PAIRINGS: tuple[LayerPairing, ...] = get_args(LayerPairing)


def layer_pairs(
    pairing: LayerPairing, first: Sequence[int], second: Sequence[int], *, depths: tuple[int, int] = (0, 0)
) -> tuple[tuple[int, int], ...]:
    """Return pairs of layers.

    Parameters
    ----------
    pairing
        Which.
    first, second
        The chosen layers of each model; for `within` the same twice.
    depths
        Number of layers of each model, for `relative`: the chosen ones need not be all.

    Examples
    --------
    >>> layer_pairs("relative", [0, 1, 2], [0, 1, 2, 3, 4], depths=(3, 5))
    ((0, 0), (1, 2), (2, 4))
    >>> layer_pairs("within", [0, 5, 9], [0, 5, 9])
    ((0, 5), (0, 9), (5, 9))
    """
    match pairing:
        case "same":
            return tuple((layer, layer) for layer in sorted({*first, *second}))
        case "all":
            return tuple((mine, theirs) for mine in first for theirs in second)
        case "within":
            return tuple((mine, other) for at, mine in enumerate(first) for other in first[at + 1 :])
        case "mixed":
            return tuple(zip(first, second, strict=False))
        case "relative":
            return _relative(first, second, depths)


def _relative(
    first: Sequence[int], second: Sequence[int], depths: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    if not first or not second:
        return ()
    deepest = [max(depth - 1, 1) for depth in depths]
    # Exact whole numbers: a half must not fall to either side by rounding. Ties go to the shallower layer.
    return tuple(
        (mine, min(second, key=lambda theirs: (abs(mine * deepest[1] - theirs * deepest[0]), theirs)))
        for mine in first
    )
