"""Rows of the MLP, over its hidden units."""

from __future__ import annotations

from typing import ClassVar, final

from modelkin.architecture import Role
from modelkin.message import say

from ._interface import MethodCard, Pair
from ._unit_rows import Target, UnitRows

_GATED = (
    Target(role=Role.MLP_GATE, space="mlp", share=0.4),
    Target(role=Role.MLP_UP, space="mlp", share=0.1, sign_free=True),
    Target(role=Role.MLP_DOWN, space="mlp", share=0.08, sign_free=True),
)
# Without a gate the activation sits on the up rows: their sign is fixed, and that of the down columns is.
_PLAIN = (
    Target(role=Role.MLP_UP, space="mlp", share=0.4),
    Target(role=Role.MLP_DOWN, space="mlp", share=0.1),
)


@final
class MlpUnits(UnitRows):
    """Ask whether units of the same number read and write the same directions."""

    card: ClassVar[MethodCard] = MethodCard(
        name="mlp-units",
        version="1",
        claim="MLP units of the same number read and write the same directions in both models",
        component="mlp",
        axis="mlp",
        exact=True,
        null=say("null-mlp"),
        needs="equal hidden size and equal MLP width",
        defeated_by="permuted units; a permutation or rotation of the residual stream; retrained MLPs",
        reference="docs/methods/mlp-units.md",
        stage="standard",
    )

    def targets(self, pair: Pair) -> tuple[Target, ...]:
        """Return the tensors of a gated or of a plain MLP, whichever the base has."""
        return _GATED if pair.base.architecture.layers_of(Role.MLP_GATE) else _PLAIN
