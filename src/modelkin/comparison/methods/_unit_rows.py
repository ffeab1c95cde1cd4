"""Tests over units that are numbered independently in every layer: MLP units, value dimensions, experts."""

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
from ._interface import Findings, Method, Pair, Part, Planned, Probe
from ._result import Evidence
from ._sketch import RowSource, as_source, find_entry, none_shared, shared_layers
from .axis import unit_evidence
from .beginnings import Remembered, other_layers
from .blocks import Matrix, UnitBlock, UnitChoice, n_units, spread, step_bytes, unit_axis

MOST_UNITS = 512
"""Per layer: the smallest detectable effect falls with the root of units times features, so beyond this it is
better to read more layers."""
FEWEST_UNITS = 16
"""16! orders are enough for a finding after all corrections; see `LOG10_ALPHA`."""
FEWEST_FEATURES = 8
"""With fewer, directions of independent units agree too often by chance for any effect to stand out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One tensor of one layer that is tested."""

    role: Role
    space: str
    """The space whose indices are the units."""
    share: float
    """Share of the byte allowance, over all its layers."""
    sign_free: bool = False
    """Whether a unit's sign is arbitrary, so that only the square of a cosine is meaningful."""


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
    """Shared base of the methods over units of one layer: choose, read, fold, test."""

    @abstractmethod
    def targets(self, pair: Pair) -> tuple[Target, ...]:
        """Return the tensors that are tested in each layer."""

    def places(self, pair: Pair, target: Target) -> Iterable[Place]:
        """Yield where the target is tested: layers of equal number, spread over the depth."""
        both = shared_layers(pair, target.role)
        for number in spread(len(both), pair.n_layers):
            yield Place(layer=both[number])

    def planned(self, pair: Pair) -> Iterable[Planned]:
        """Plan one probe for each target: its layers are tested one by one, and compared with each other."""
        found = [(target, list(self.places(pair, target))) for target in self.targets(pair)]
        for target, places in found:
            chosen = []
            for place in places:
                made = self._at(pair, target, place, n_places=len(places))
                if isinstance(made, Message):
                    yield self.skip(made, layers=(place.layer,), role=target.role.value)
                else:
                    chosen.append(made)
            if chosen:
                yield self._probe(pair, target, chosen)
        if not any(places for _, places in found):
            yield none_shared(pair, (target.role for target, _ in found))

    def _at(self, pair: Pair, target: Target, place: Place, *, n_places: int) -> _ReadUnits | Message:
        mine, theirs = (find_entry(side, target.role, place.layer, place.expert) for side in pair.sides)
        if mine is None or theirs is None:
            return say("lacks-tensor")
        problem = pair.order_problem(target.space, target.space)
        if problem is not None:
            return problem
        if unit_axis(mine, target.space) is None or unit_axis(theirs, target.space) is None:
            return say("no-axis", space=target.space)
        sources = [
            as_source(side, entry, target.space, expert=place.expert)
            for side, entry in zip(pair.sides, (mine, theirs), strict=True)
        ]
        one, two = ((source.n_units, source.n_features) for source in sources)
        if one != two:
            return say("shapes-differ", n=one[0], m=one[1], k=two[0], l=two[1])
        choice = _choice(pair, place, sources, int(target.share * pair.byte_allowance) // n_places)
        if choice.n_units < FEWEST_UNITS:
            return say("few-units", n=choice.n_units)
        gains = [
            gain_before(side.architecture, source.entry)
            for source, side in zip(sources, pair.sides, strict=True)
        ]
        if None in gains or choice.n_features < sources[0].n_features:
            gains = [None, None]  # folded on both sides or on none, and only where all features were read
        return _ReadUnits(
            place=place,
            choice=choice,
            blocks=tuple(
                source.block(side, choice) for source, side in zip(sources, pair.sides, strict=True)
            ),
            gains=tuple(gains),
        )

    def _probe(self, pair: Pair, target: Target, chosen: Sequence[_ReadUnits]) -> Probe[Findings]:
        def evaluate(candidate: Sequence[Array], base: Sequence[Array]) -> Findings:
            rows, known = (_rows(pair, chosen, candidate, 0), _rows(pair, chosen, base, 1)), Remembered()
            return Findings(
                evidence=tuple(
                    self._tested(pair, target, item, rows, at, known) for at, item in enumerate(chosen)
                )
            )

        mine, theirs = (
            tuple(Part(slices=(item,)) for place in chosen for item in place.slices(side)) for side in (0, 1)
        )
        return Probe(candidate=mine, base=theirs, evaluate=evaluate, same_parts=True)

    def _tested(
        self,
        pair: Pair,
        target: Target,
        chosen: _ReadUnits,
        rows: tuple[list[Matrix], list[Matrix]],
        at: int,
        known: Remembered,
    ) -> Evidence:
        details: dict[str, float | int | str] = {"first_unit": chosen.choice.first_unit}
        if chosen.place.expert is not None:
            details["expert"] = chosen.place.expert
        return unit_evidence(
            self,
            (rows[0][at], rows[1][at]),
            seed=pair.seed,
            sign_free=target.sign_free,
            layers=(chosen.place.layer,),
            role=target.role.value,
            details=details,
            others=other_layers(*rows, at, known),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadUnits:
    """Units of one layer that are read of both models."""

    place: Place
    choice: UnitChoice
    blocks: tuple[UnitBlock, ...]
    """Of the candidate and of the base."""
    gains: tuple[RoleEntry | None, ...]

    def slices(self, side: int) -> tuple[TensorSlice, ...]:
        return (self.blocks[side].slice, *gain_slices(self.gains[side]))


def _rows(pair: Pair, chosen: Sequence[_ReadUnits], arrays: Sequence[Array], side: int) -> list[Matrix]:
    """Return the units of each layer, with the gain in front of them folded in."""
    held, found = iter(arrays), []
    for item in chosen:
        matrix = item.blocks[side].matrix(next(held))
        if item.gains[side] is not None:
            matrix = np.asarray(matrix * acting_gain(next(held), pair.sides[side].architecture), np.float32)
        found.append(matrix)
    return found


def _choice(pair: Pair, place: Place, sources: Sequence[RowSource], allowance: int) -> UnitChoice:
    """Choose a block of units at a seeded place, as many as the stored rows that the bytes allow.

    It is the same in all layers, so that these can be compared with each other.
    Units that lie across the stored rows are in every row: there, rows buy features instead.
    The models may differ in that; both then get the same units and the same features.
    """
    width = sources[0].n_features
    first, group = place.first_unit or 0, place.group or sources[0].n_units
    most_units, most_features = MOST_UNITS, width
    for side, source in zip(pair.sides, sources, strict=True):
        n_rows = max(1, allowance // max(1, step_bytes(side.index[source.entry.tensor])))
        if source.along_columns:
            most_features = min(most_features, max(FEWEST_FEATURES, n_rows))
        else:
            most_units = min(most_units, max(FEWEST_UNITS, n_rows))
    wanted = min(group, most_units)
    spread_seed = pair.seed * 2_654_435_761
    return UnitChoice(
        first_unit=first + spread_seed % (group - wanted + 1),
        n_units=wanted,
        first_feature=spread_seed % (width - most_features + 1),
        n_features=most_features,
    )


# Gates keep their signs and are tested best; up and down can be scaled and flipped against each other.
_GATED = (
    Target(role=Role.MLP_GATE, space="mlp", share=0.4),
    Target(role=Role.MLP_UP, space="mlp", share=0.1, sign_free=True),
    Target(role=Role.MLP_DOWN, space="mlp", share=0.08, sign_free=True),
)
# Without a gate the activation follows the up rows: their sign is fixed, and so is the down columns'.
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

    Heads are not mixed: dimensions can be exchanged within a head, not between heads. Query and key
    dimensions are not tested at all: RoPE fixes their order.
    """

    def targets(self, pair: Pair) -> tuple[Target, ...]:
        """Return the value matrix, and the output projection, which reads what it writes."""
        return (
            Target(role=Role.ATTENTION_VALUE, space="v_dim", share=0.16),
            Target(role=Role.ATTENTION_OUTPUT, space="v_dim", share=0.04),
        )

    def places(self, pair: Pair, target: Target) -> Iterable[Place]:
        """Yield one head per layer, with the same number in each: of the narrower kind, if heads differ."""
        architecture = pair.base.architecture
        widths = [side.architecture.sizes.get("v_dim") for side in pair.sides]
        width = min(filter(None, widths)) if widths[1] else None
        for place in super().places(pair, target):
            entry = architecture.find(target.role, layer=place.layer)
            if entry is None or not width:
                yield place
                continue
            n_heads = max(1, n_units(entry, pair.base.index[entry.tensor], "v_dim") // width)
            head = pair.seed % n_heads
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
        """Yield one expert per layer, with the same number in each."""
        for place in super().places(pair, target):
            mine, theirs = (
                set(side.architecture.experts_of(place.layer, target.role)) for side in pair.sides
            )
            both = sorted(mine & theirs)
            if both:
                yield Place(layer=place.layer, expert=both[pair.seed % len(both)])
