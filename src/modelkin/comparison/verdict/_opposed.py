"""Gates that point away from each other: what public random numbers give by chance, and no working copy has.

Weights that are made from public numbers (hashed weights, a public basis for each matrix) are multiples of
the same matrices in every model, each with a sign of its own. Signs of units can be flipped in up and down
together, but not in a gate: there a copy agrees, in whatever layers it has. Only changed signs of residual
dimensions, or rotations, turn gates around, and those are undone before anything is said of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from modelkin.comparison.methods import Tested

from ._rule import DecisionRule

AWAY = -4.5
"""z from which a gate points away: of strangers one in 300,000 does."""
LARGE = 0.5
"""Size of an effect that public matrices do not explain: where 50 of them are all there is, strangers have it
in one matrix of 4,000."""


def without_opposed(found: Sequence[Tested], made: Sequence[Tested], rule: DecisionRule) -> list[Tested]:
    """Leave out small findings in the original coordinates if a gate points away from its counterpart."""
    if not rule.opposed or not any(_points_away(test) for test in made):
        return list(found)
    return [test for test in found if not _as_stored(test) or abs(test.effect.value) >= LARGE]


def _points_away(test: Tested) -> bool:
    is_gate = test.role is not None and test.role.endswith("_gate")
    return is_gate and not test.sign_free and _as_stored(test) and test.z is not None and test.z < AWAY


def _as_stored(test: Tested) -> bool:
    return test.frame == "identity" and not test.reordered
