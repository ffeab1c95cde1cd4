"""Groups of units as units themselves: KV groups of a layer, experts of a layer.

A group is represented by a few of its rows, the same ones in every group. Renumbering moves whole groups, so
the null permutes them whole. Of many groups some are read, with more rows each: every group is a request, and
the smallest detectable effect falls with the root of groups times values, whichever of them grows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from modelkin.architecture import Role
from modelkin.message import Message, say
from modelkin.stats import MIN_UNITS
from modelkin.tensors import Array

from ._interface import Findings, Method, Pair, Part, Planned, Probe, Side
from ._result import Evidence, Where
from ._sketch import find_entry, none_shared, shared_layers
from .axis import unit_evidence
from .beginnings import Remembered, other_layers
from .blocks import Matrix, UnitBlock, UnitChoice, n_units, spread, unit_axis, unit_block, units_across

MOST_GROUPS = 32
"""Per layer. 32! orders are far beyond any level that is asked for, and 128 experts, each in its own place of
a file, would cost four times the requests for the same bytes."""


class GroupRows(Method):
    """Shared base: find the groups of a layer, read some rows of each, test their numbering."""

    role: ClassVar[Role]
    n_rows: ClassVar[int]
    """Rows read per group where there are at most `MOST_GROUPS`."""
    n_layers: ClassVar[int]

    @abstractmethod
    def blocks(self, side: Side, layer: int) -> list[UnitBlock] | Message:
        """Return one block per group, all of them, or say why there are none."""

    def problem(self, pair: Pair) -> Message | None:
        """Also refuse groups whose own order is fixed."""
        return super().problem(pair) or pair.order_problem(self.card.axis, self.card.axis)

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Plan one probe for a few layers: they are tested one by one, and compared with each other."""
        both = shared_layers(pair, self.role)
        if not both:
            yield none_shared(pair, (self.role,))
        chosen = []
        for number in spread(len(both), min(self.n_layers, pair.n_layers)):
            made = self._at(pair, both[number])
            if isinstance(made, Message):
                yield self.skip(made, layers=(both[number],), role=self.role.value)
            else:
                chosen.append(made)
        if chosen:
            yield self._probe(pair, chosen)

    def _at(self, pair: Pair, layer: int) -> _LayerGroups | Message:
        mine, theirs = (self.blocks(side, layer) for side in pair.sides)
        if isinstance(mine, Message):
            return mine
        if isinstance(theirs, Message):
            return theirs
        if len(mine) != len(theirs):
            return say("groups-differ", n=len(mine), m=len(theirs))
        if len(mine) < MIN_UNITS:
            return say("few-groups", n=len(mine))
        numbers = spread(len(mine), MOST_GROUPS)
        return _LayerGroups(
            layer=layer, blocks=([mine[number] for number in numbers], [theirs[number] for number in numbers])
        )

    def rows_of(self, n_groups: int) -> int:
        """Return how many rows of each group are read: together as many as `n_rows` of all groups."""
        return max(self.n_rows, math.ceil(self.n_rows * n_groups / MOST_GROUPS))

    def _probe(self, pair: Pair, chosen: Sequence[_LayerGroups]) -> Probe[Findings]:
        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Findings:
            rows = _stacked(chosen, candidate, 0), _stacked(chosen, base, 1)
            known = Remembered()
            return Findings(
                evidence=tuple(self._tested(pair, item, rows, at, known) for at, item in enumerate(chosen))
            )

        mine, theirs = (
            tuple(Part(slices=(block.slice,)) for item in chosen for block in item.blocks[side])
            for side in (0, 1)
        )
        return Probe(candidate=mine, base=theirs, evaluate=evaluate, same_parts=True)

    def _tested(
        self,
        pair: Pair,
        groups: _LayerGroups,
        rows: tuple[Sequence[Matrix], Sequence[Matrix]],
        at: int,
        known: Remembered,
    ) -> Evidence:
        where = Where(layers=(groups.layer,), role=self.role.value)
        mine, theirs = rows[0][at], rows[1][at]
        if mine.shape != theirs.shape:
            return self.skip(say("features-differ", n=mine.shape[1], m=theirs.shape[1]), **where)
        return unit_evidence(
            self,
            (mine, theirs),
            seed=pair.seed,
            details={"rows_a_group": groups.blocks[0][0].shape[0]},
            others=other_layers(*rows, at, known),
            **where,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayerGroups:
    """Rows of the groups of one layer that are read, of candidate and base."""

    layer: int
    blocks: tuple[list[UnitBlock], list[UnitBlock]]


def _stacked(chosen: Sequence[_LayerGroups], arrays: Sequence[Array], side: int) -> list[Matrix]:
    """Return one row for each group, layer by layer."""
    held = iter(arrays)
    return [np.stack([block.matrix(next(held)).ravel() for block in item.blocks[side]]) for item in chosen]


@final
class KvGroups(GroupRows):
    """Ask whether KV groups of the same number read the same directions."""

    role = Role.ATTENTION_VALUE
    n_rows = 4
    n_layers = 4

    def blocks(self, side: Side, layer: int) -> list[UnitBlock] | Message:
        """Return the first value rows of each group."""
        entry, width = side.architecture.find(self.role, layer=layer), side.architecture.sizes.get("v_dim")
        if entry is None or not width:
            return say("head-width")
        info = side.index[entry.tensor]
        axis = unit_axis(entry, "v_dim")
        if axis is None or len(entry.axes[axis]) != 2:
            return say("not-by-heads")
        heads = side.architecture.space(entry.axes[axis][0])
        if not heads.exchangeable:  # if every head has its own values, heads are the groups
            return say("order-fixed", space=heads.name, model=side.name, reason=heads.why)
        if units_across(entry, info, "v_dim"):
            return say("values-input-first")
        n_groups = n_units(entry, info, "v_dim") // width
        n_rows = min(self.rows_of(n_groups), width)
        choices = (UnitChoice(first_unit=group * width, n_units=n_rows) for group in range(n_groups))
        return [unit_block(entry, info, space="v_dim", choice=choice) for choice in choices]


@final
class ExpertSets(GroupRows):
    """Ask whether experts of the same number hold the same rows."""

    role = Role.EXPERT_GATE
    n_rows = 1
    n_layers = 2

    def blocks(self, side: Side, layer: int) -> list[UnitBlock] | Message:
        """Return the first gate rows of each expert."""
        blocks: list[UnitBlock] = []
        experts = side.architecture.experts_of(layer, self.role)
        choice = UnitChoice(first_unit=0, n_units=self.rows_of(len(experts)))
        for expert in experts:
            entry = find_entry(side, self.role, layer, expert)
            if entry is None or unit_axis(entry, "expert_mlp") is None:
                return say("no-axis", space="expert_mlp")
            info = side.index[entry.tensor]
            if units_across(entry, info, "expert_mlp"):
                return say("experts-input-first")
            blocks.append(unit_block(entry, info, space="expert_mlp", choice=choice, expert=expert))
        return blocks or say("no-experts")
