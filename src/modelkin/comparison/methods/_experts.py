"""Experts: rows of the router over experts, and rows of single experts over their units."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, final

from modelkin.architecture import Role
from modelkin.message import say

from ._interface import MethodCard, Pair
from ._unit_rows import Place, Target, UnitRows


@final
class RouterRows(UnitRows):
    """Ask whether the router sends the same directions to experts of the same number."""

    card: ClassVar[MethodCard] = MethodCard(
        name="router-rows",
        version="1",
        claim="the router reads the same directions for experts of the same number in both models",
        component="router",
        axis="experts",
        exact=True,
        null=say("null-experts"),
        needs="equal hidden size and equal number of experts, at least 16",
        defeated_by="permuted experts; a permutation or rotation of the residual stream",
        reference="docs/methods/router-rows.md",
        stage="standard",
    )

    def targets(self, pair: Pair) -> tuple[Target, ...]:
        """Return the router."""
        return (Target(role=Role.ROUTER, space="experts", share=0.08),)


@final
class ExpertUnits(UnitRows):
    """Ask whether units of the same number, in experts of the same number, read the same directions."""

    card: ClassVar[MethodCard] = MethodCard(
        name="expert-units",
        version="1",
        claim="units of the same number in experts of the same number read the same directions",
        component="experts",
        axis="expert_mlp",
        exact=True,
        null=say("null-expert-units"),
        needs="equal hidden size, equal number and width of experts",
        defeated_by="permuted experts or units; a permutation or rotation of the residual stream",
        reference="docs/methods/expert-units.md",
        stage="standard",
    )

    def targets(self, pair: Pair) -> tuple[Target, ...]:
        """Return gate and down of the experts."""
        return (
            Target(role=Role.EXPERT_GATE, space="expert_mlp", share=0.4),
            Target(role=Role.EXPERT_DOWN, space="expert_mlp", share=0.1, sign_free=True),
        )

    def places(self, pair: Pair, target: Target) -> Iterable[Place]:
        """Yield one expert a layer, another one in each."""
        architectures = pair.candidate.architecture, pair.base.architecture
        for number, place in enumerate(super().places(pair, target)):
            mine, theirs = (set(a.experts_of(place.layer, target.role)) for a in architectures)
            both = sorted(mine & theirs)
            if both:
                yield Place(layer=place.layer, expert=both[(pair.seed + number) % len(both)])
