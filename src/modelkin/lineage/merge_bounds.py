"""Whether fitted weights can be those of a merge: points on a line are all combinations of each other."""

from __future__ import annotations

from collections.abc import Sequence

from modelkin.lineage.merge_methods import CHOOSING
from modelkin.lineage.merge_result import MergeMethod, MixtureShare
from modelkin.message import Message, say

NEGATIVE = -0.02
"""A weight below this counts as negative. Those nearer to zero, on either side, are within the error of any
recipe's numbers."""
_FARTHEST = 2.0
"""Largest weight of a parent that means something. Shares of mixtures are at most one, and recipes multiply
differences from a base by one and a half at most; a fit beyond twice a difference follows what the candidate
has of its own, along a direction in which the models hardly differ."""
_ASSEMBLED = ("passthrough", "mixture-of-experts")
"""Parts are copied: one mixture for all of them is not how such models were made."""


def meaningless_weights(
    method: MergeMethod | None, weights: Sequence[MixtureShare], names: Sequence[str], *, with_base: bool
) -> Message | None:
    """Say why weights cannot be those of a merge by a method; None if they can.

    Parameters
    ----------
    method
        How the candidate seems to have been made.
    weights, names
        Of the parents, the base last.
    with_base
        Whether there is one. It has what is left to one, so its weight has no bound; if none is named, any of
        the models may be it, and the smallest weight has none.
    """
    if method is None or method in _ASSEMBLED:
        return None
    values = [share.value for share in weights]
    above = [place for place, value in enumerate(values) if value > -NEGATIVE]
    # Of methods that choose differences, values that stayed as in the base are evidence of their own.
    if method not in CHOOSING and len(above) == 1 and min(values) < NEGATIVE:
        return say("merge-beyond", name=names[above[0]])
    base = len(values) - 1 if with_base else values.index(min(values))
    farthest = max((place for place in range(len(values)) if place != base), key=lambda p: abs(values[p]))
    if abs(values[farthest]) > _FARTHEST:
        return say("merge-far", name=names[farthest], share=f"{values[farthest]:.2f}")
    return None
