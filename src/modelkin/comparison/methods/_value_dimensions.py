"""Value rows and output columns, over the dimensions inside a head."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, final

from modelkin.architecture import Role
from modelkin.message import say

from ._blocks import n_units
from ._interface import MethodCard, Pair
from ._unit_rows import Place, Target, UnitRows


@final
class ValueDimensions(UnitRows):
    """Ask whether value dimensions of the same number, in the same head, read the same directions.

    Heads are not mixed: dimensions may change places inside a head, not with those of another. Query and key
    dimensions are not tested at all: RoPE fixes their order.
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="value-dimensions",
        version="1",
        claim="value dimensions of the same number read and write the same directions in both models",
        component="attention",
        axis="v_dim",
        exact=True,
        null=say("null-values"),
        needs="equal hidden size, equal heads and head width",
        defeated_by="mixed value dimensions; permuted heads; a permutation or rotation of the residual "
        "stream; retrained attention",
        reference="docs/methods/value-dimensions.md",
        stage="standard",
    )

    def targets(self, pair: Pair) -> tuple[Target, ...]:
        """Return the value matrix, and the output projection, which reads what it writes."""
        return (
            Target(role=Role.ATTENTION_VALUE, space="v_dim", share=0.16),
            Target(role=Role.ATTENTION_OUTPUT, space="v_dim", share=0.04),
        )

    def places(self, pair: Pair, target: Target) -> Iterable[Place]:
        """Yield one head a layer, another one in each."""
        architecture = pair.base.architecture
        width = architecture.sizes.get("v_dim")
        for number, place in enumerate(super().places(pair, target)):
            entry = architecture.find(target.role, layer=place.layer)
            if entry is None or not width:
                yield place
                continue
            n_heads = max(1, n_units(entry, pair.base.index[entry.tensor], "v_dim") // width)
            head = (pair.seed + number) % n_heads
            yield Place(layer=place.layer, first_unit=head * width, group=width)
