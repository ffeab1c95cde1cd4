"""Tests over units that are numbered anew in every layer: MLP units, value dimensions, experts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from modelkin.architecture import Role, RoleEntry
from modelkin.message import Message, say
from modelkin.tensors import Array, TensorSlice

from ._gains import acting_gain, gain_before, gain_slices
from ._interface import Findings, Method, Pair, Plan, Probe, Side, sample_probe
from ._norm_profile import residual_problem
from ._result import Evidence, Skipped
from .axis import unit_evidence
from .blocks import (
    Matrix,
    UnitBlock,
    UnitChoice,
    n_features,
    n_units,
    spread,
    step_bytes,
    unit_axis,
    unit_block,
    units_across,
)

MOST_UNITS = 512
FEWEST_UNITS = 16
FEWEST_FEATURES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One tensor of one layer that is tested."""

    role: Role
    space: str
    """The space whose indices are the units."""
    share: float
    """Part of the byte allowance, over all its layers."""
    sign_free: bool = False
    """Whether a unit may change its sign at will, so that only the square of a cosine means something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in the models a target is tested."""

    layer: int
    expert: int | None = None
    first_unit: int | None = None
    """First unit of a group that must not be mixed with others, such as a head."""
    group: int | None = None
    """Number of units in that group."""


class UnitRows(Method):
    """Common part of the methods over units of one layer: choose, read, fold, test."""

    @abstractmethod
    def targets(self, pair: Pair) -> tuple[Target, ...]:
        """Return the tensors that are tested in each layer."""

    def places(self, pair: Pair, target: Target) -> Iterable[Place]:
        """Yield where the target is tested: layers of equal number, spread over the depth."""
        mine = pair.candidate.architecture.layers_of(target.role)
        theirs = set(pair.base.architecture.layers_of(target.role))
        both = [layer for layer in mine if layer in theirs]
        for number in spread(len(both), pair.n_layers):
            yield Place(layer=both[number])

    def plan(self, pair: Pair) -> Plan:
        """Plan one probe for each target and place."""
        problem = residual_problem(pair)
        if problem is not None:
            return Plan(skipped=(self.skip(problem),))
        probes: list[Probe[Findings]] = []
        skipped: list[Skipped] = []
        found = False
        for target in self.targets(pair):
            places = list(self.places(pair, target))
            found = found or bool(places)
            for place in places:
                planned = self._planned(pair, target, place, n_places=len(places))
                if isinstance(planned, Probe):
                    probes.append(planned)
                else:
                    skipped.append(self.skip(planned, layers=(place.layer,), role=target.role.value))
        if not found:
            skipped.append(self.skip(say("no-layers")))
        return Plan(probes=tuple(probes), skipped=tuple(skipped))

    def _planned(
        self, pair: Pair, target: Target, place: Place, *, n_places: int
    ) -> Probe[Findings] | Message:
        mine, theirs = (_entry(side, target.role, place) for side in (pair.candidate, pair.base))
        if mine is None or theirs is None:
            return say("lacks-tensor")
        for side in (pair.candidate, pair.base):
            space = side.architecture.space(target.space)
            if not space.exchangeable:
                return say("order-fixed", space=target.space, model=side.name, reason=space.why)
        infos = pair.candidate.index[mine.tensor], pair.base.index[theirs.tensor]
        if unit_axis(mine, target.space) is None or unit_axis(theirs, target.space) is None:
            return say("no-axis", space=target.space)
        counts = [
            n_units(entry, info, target.space) for entry, info in zip((mine, theirs), infos, strict=True)
        ]
        widths = [
            n_features(entry, info, target.space) for entry, info in zip((mine, theirs), infos, strict=True)
        ]
        if counts[0] != counts[1] or widths[0] != widths[1]:
            return say("shapes-differ", n=counts[0], m=widths[0], k=counts[1], l=widths[1])
        allowance = int(target.share * pair.byte_allowance) // n_places
        choice = _choice(
            pair,
            place,
            n_all=counts[0],
            width=widths[0],
            n_rows=[max(1, allowance // max(1, step_bytes(info))) for info in infos],
            across=[
                units_across(entry, info, target.space)
                for entry, info in zip((mine, theirs), infos, strict=True)
            ],
        )
        if choice.n_units < FEWEST_UNITS:
            return say("few-units", n=choice.n_units)
        return self._probe(pair, target, place, (mine, theirs), choice)

    def _probe(
        self,
        pair: Pair,
        target: Target,
        place: Place,
        entries: tuple[RoleEntry, RoleEntry],
        choice: UnitChoice,
    ) -> Probe[Findings]:
        sides = (pair.candidate, pair.base)
        blocks = [
            unit_block(
                entry, side.index[entry.tensor], space=target.space, choice=choice, expert=place.expert
            )
            for entry, side in zip(entries, sides, strict=True)
        ]
        gains = [gain_before(side.architecture, entry) for entry, side in zip(entries, sides, strict=True)]
        width = n_features(entries[0], sides[0].index[entries[0].tensor], target.space)
        if None in gains or choice.n_features < width:
            gains = [None, None]  # folded on both sides or on none, and only where all features were read

        def rows(number: int, arrays: Sequence[Array]) -> Matrix:
            matrix = blocks[number].matrix(arrays[0])
            if gains[number] is None:
                return matrix
            return np.asarray(matrix * acting_gain(arrays[1], sides[number].architecture), np.float32)

        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Evidence:
            details: dict[str, float | int | str] = {"first_unit": choice.first_unit}
            if place.expert is not None:
                details["expert"] = place.expert
            return unit_evidence(
                self,
                (rows(0, candidate), rows(1, base)),
                seed=pair.seed,
                sign_free=target.sign_free,
                layers=(place.layer,),
                role=target.role.value,
                details=details,
            )

        return sample_probe(
            candidate=_slices(blocks[0], gains[0]), base=_slices(blocks[1], gains[1]), evaluate=evaluate
        )


def _slices(block: UnitBlock, gain: RoleEntry | None) -> tuple[TensorSlice, ...]:
    return (block.slice, *gain_slices(gain))


def _entry(side: Side, role: Role, place: Place) -> RoleEntry | None:
    found = side.architecture.find(role, layer=place.layer)
    if found is None and place.expert is not None:
        found = side.architecture.find(role, layer=place.layer, expert=place.expert)
    return found


def _choice(
    pair: Pair, place: Place, *, n_all: int, width: int, n_rows: list[int], across: list[bool]
) -> UnitChoice:
    """Choose a block of units at a seeded place, as many as the bytes of `n_rows` stored rows allow.

    Units that lie across the stored rows are all in every one of these: there, rows buy features instead.
    The models may differ in that; both then get the same units and the same features.
    """
    first, group = place.first_unit or 0, place.group or n_all
    pairs = list(zip(n_rows, across, strict=True))
    most_units = min([MOST_UNITS, *(max(FEWEST_UNITS, rows) for rows, cross in pairs if not cross)])
    most_features = min([width, *(max(FEWEST_FEATURES, rows) for rows, cross in pairs if cross)])
    wanted = min(group, most_units)
    spread_seed = pair.seed * 2_654_435_761
    return UnitChoice(
        first_unit=first + (spread_seed + 7 * place.layer) % (group - wanted + 1),
        n_units=wanted,
        first_feature=(spread_seed + 11 * place.layer) % (width - most_features + 1),
        n_features=most_features,
    )


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

    def targets(self, pair: Pair) -> tuple[Target, ...]:
        """Return the tensors of a gated or of a plain MLP, whichever the base has."""
        return _GATED if pair.base.architecture.layers_of(Role.MLP_GATE) else _PLAIN


@final
class ValueDimensions(UnitRows):
    """Ask whether value dimensions of the same number, in the same head, read the same directions.

    Heads are not mixed: dimensions may change places inside a head, not with those of another. Query and key
    dimensions are not tested at all: RoPE fixes their order.
    """

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


@final
class RouterRows(UnitRows):
    """Ask whether the router sends the same directions to experts of the same number."""

    def targets(self, pair: Pair) -> tuple[Target, ...]:
        """Return the router."""
        return (Target(role=Role.ROUTER, space="experts", share=0.08),)


@final
class ExpertUnits(UnitRows):
    """Ask whether units of the same number, in experts of the same number, read the same directions."""

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
