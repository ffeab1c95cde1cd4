"""The baselines of one role: what each measure is when nothing, or something known, connects the tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np

from modelkin.describe.measures import (
    MEASURES,
    NOTHING,
    PART_VALUES,
    Baseline,
    Distribution,
    Draws,
    LayerMatrix,
    LayerPairing,
    Measure,
    MeasuredPairs,
    Pairs,
    Stack,
    distribution,
    draws_for,
    layer_zero,
    measured,
    measured_all,
    measured_mean,
    off_diagonal,
    offset_profile,
    permuted_pairs,
    random_draws,
    random_pairs,
    shuffle_draws,
    too_many_to_draw,
)
from modelkin.message import Message, say

from ._items import Layer, Signature, all_of
from ._options import BASELINES, MatrixOptions, RoleChoice
from ._reading import Shelf

Masked = np.ma.MaskedArray[Any, Any]
TokenStacks = tuple[Stack, Stack, Message]
FoundKey = tuple[str, str, tuple[tuple[Layer, Layer], ...]]
"""Two models, and the pairs of layers."""
Facing = tuple[Layer, Layer]
_TOKEN_DRAWS = 20
"""Reorderings of tokens: each gives one cosine for every row, so few are many."""
_RELATED = 0.3
"""Mean correlation over layers far above any seen between independent models (below 0.1)."""
_TOKEN_PAIRS = 2000
"""Random pairs of rows: enough for quantiles at 5 and 95 %."""
_NOTHING_MEASURED = say("baseline-nothing-measured")
_DEPENDENT = say("baseline-dependent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the baselines of one role are computed from: its vectors, and which of them face each other."""

    choice: RoleChoice
    shelves: Mapping[str, Shelf]
    measures: tuple[Measure, ...]
    options: MatrixOptions
    pairs: Callable[[RoleChoice, str, str, Sequence[LayerPairing] | None], list[tuple[Layer, Layer]]]
    tokens: Mapping[tuple[str, str], TokenStacks | Message]
    found: Mapping[FoundKey, Mapping[str, MeasuredPairs]]
    """What was measured for the table, by models and layers."""
    joints: dict[tuple[str, str, tuple[LayerPairing, ...] | None], Joint | Message] = field(
        default_factory=dict, repr=False
    )
    """Those computed so far: several baselines use the same pairs."""

    def row(
        self,
        baseline: str,
        measure: Measure,
        scope: Message,
        values: Masked | Distribution | Message | None,
        *,
        observed: float | None = None,
        reason: Message = _NOTHING_MEASURED,
        note: Message = NOTHING,
    ) -> Baseline:
        """Summarise numbers as one baseline; or say why there are none."""
        if isinstance(values, Message):
            reason, values = values, None
        null = values if values is None or isinstance(values, Distribution) else distribution(values)
        return Baseline(
            baseline=baseline,
            measure=measure.name,
            role=self.choice.label,
            scope=scope,
            observed=observed,
            null=null,
            reason=reason if null is None else None,
            note=note,
        )

    def refused(self, baseline: str, scope: Message, reason: Message) -> Iterator[Baseline]:
        """Say for every measure why there is no baseline."""
        return (self.row(baseline, measure, scope, reason) for measure in self.measures)

    def joint(self, a: str, b: str, pairings: Sequence[LayerPairing] | None = None) -> Joint | Message:
        """Return the vectors of two models and their pairs."""
        key = a, b, None if pairings is None else tuple(pairings)
        if key not in self.joints:
            self.joints[key] = self._joint(a, b, pairings)
        return self.joints[key]

    def _joint(self, a: str, b: str, pairings: Sequence[LayerPairing] | None) -> Joint | Message:
        shelves = self.shelves[a], self.shelves[b]
        expect = pairings is None and "expectation" in self.options.baselines
        if pairings is None:
            # If the table pairs layers in several ways, baselines use the first.
            pairings = [next((item for item in self.options.pairs if (item == "within") == (a == b)), "same")]
        asked = self.pairs(self.choice, a, b, pairings)
        layers: dict[Signature, list[Facing]] = {}
        for mine, theirs in asked:
            places = shelves[0].places.get(mine), shelves[1].places.get(theirs)
            if places[0] is not None and places[1] is not None and places[0][0] == places[1][0]:
                layers.setdefault(places[0][0], []).append((mine, theirs))
        if not layers:
            return say("baseline-no-equal-shapes")
        parts = []
        for signature, facing in layers.items():
            stacks = [shelf.stacks[signature] for shelf in shelves]
            rows = [[shelf.places[pair[side]][1] for pair in facing] for side, shelf in enumerate(shelves)]
            pairs = Pairs.of(*rows)
            known = self.found.get((a, b, tuple(facing)))
            found = known or measured_all(self.measures, stacks[0], stacks[1], pairs, expect=expect)
            parts.append(JointPart(a=stacks[0], b=stacks[1], pairs=pairs, layers=tuple(facing), found=found))
            for shelf in shelves:
                shelf.let_go(signature)
        return Joint(parts=tuple(parts), n_asked=len(asked))

    def model_pairs(self) -> Iterator[tuple[str, str, Joint | Message]]:
        """Yield all pairs of models with what they have in common, as the table pairs their layers."""
        only_within = set(self.options.pairs) == {"within"}
        for a, b in combinations_with_replacement(self.shelves, 2):
            if (a == b) == only_within:
                yield a, b, self.joint(a, b)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPart:
    """Vectors of two models that hold equally many values, and which face each other."""

    a: Stack
    b: Stack
    pairs: Pairs
    layers: tuple[Facing, ...]
    found: Mapping[str, MeasuredPairs]
    """What each measure is of all pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """Vectors of two models and which face each other: layers of one shape and size are one part."""

    parts: tuple[JointPart, ...]
    n_asked: int
    """Pairs of layers that were asked for; those that cannot be compared are in no part."""

    @property
    def layers(self) -> tuple[Facing, ...]:
        """Which layers face each other, part after part."""
        return tuple(pair for part in self.parts for pair in part.layers)

    @property
    def n_values(self) -> int:
        """Values of one side."""
        return sum(len(part.a) * part.a.n for part in self.parts)

    @property
    def left_out(self) -> Message:
        """How many pairs of layers no number here is of; nothing if there are none."""
        n = self.n_asked - len(self.layers)
        return say("baseline-left-out", n=n, m=self.n_asked) if n else NOTHING

    def let_go(self, part: JointPart) -> None:
        """Release the features of a part, unless those of all parts may be held at the same time."""
        if len(self.parts) > 1 and self.n_values > PART_VALUES:
            part.a.forget()
            part.b.forget()

    def values(self, measure: Measure) -> Masked:
        """Return what a measure is of all pairs."""
        return _end_to_end([part.found[measure.name].values for part in self.parts])

    def expected(self, measure: Measure) -> Masked:
        """Return what reordering would make of all pairs."""
        return _end_to_end([part.found[measure.name].expected for part in self.parts])

    def matrix(self, measure: Measure) -> LayerMatrix:
        """Measure all pairs, as a matrix of layers; other cells are masked."""
        found = self.values(measure).filled(np.nan)
        rows = sorted({mine for mine, _ in self.layers if mine is not None})
        columns = sorted({theirs for _, theirs in self.layers if theirs is not None})
        at = {layer: k for k, layer in enumerate(rows)}, {layer: k for k, layer in enumerate(columns)}
        cells = np.full((len(rows), len(columns)), np.nan)
        for (mine, theirs), value in zip(self.layers, found, strict=True):
            if mine is not None and theirs is not None:
                cells[at[0][mine], at[1][theirs]] = value
        values = np.ma.masked_invalid(cells)
        return LayerMatrix(values=values, expected=values, layers_a=tuple(rows), layers_b=tuple(columns))


def _end_to_end(parts: Sequence[Masked], *, axis: int = 0) -> Masked:
    """Concatenate; NaN is how a masked value is stored everywhere here."""
    return np.ma.masked_invalid(np.concatenate([part.filled(np.nan) for part in parts], axis=axis))


def baseline_rows(ground: Ground) -> Iterator[Baseline]:
    """Make the baselines that were asked for."""
    for name in BASELINES:
        if name in ground.options.baselines:
            yield from _MAKERS[name](ground)


def _pair(a: str, b: str) -> Message:
    return say("scope.pair", a=a, b=b)


def _expectation(ground: Ground) -> Iterator[Baseline]:
    for a, b, joint in ground.model_pairs():
        if isinstance(joint, Message):
            yield from ground.refused("expectation", _pair(a, b), joint)
            continue
        for measure in ground.measures:
            yield ground.row(
                "expectation",
                measure,
                _pair(a, b),
                joint.expected(measure),
                observed=measured_mean(joint.values(measure)),
                reason=say("baseline-no-expectation"),
                note=all_of([say("baseline-exact", n=len(joint.layers)), joint.left_out]),
            )


def _drawn(name: str, draw: Callable[..., Draws], ground: Ground) -> Iterator[Baseline]:
    for a, b, joint in ground.model_pairs():
        if isinstance(joint, Message):
            yield from ground.refused(name, _pair(a, b), joint)
            continue
        n_pairs = len(joint.layers)
        if name == "random" and too_many_to_draw(joint.n_values):
            largest = max(part.a.n for part in joint.parts)
            yield from ground.refused(
                name, _pair(a, b), say("baseline-too-many-values", n=largest, m=n_pairs)
            )
            continue
        draws = draws_for(joint.n_values, ground.options.draws)
        drawn: dict[str, list[Masked]] = {measure.name: [] for measure in ground.measures}
        for part in joint.parts:
            # Layers of another size have other places, which no order can be shared with.
            key = f"{ground.choice.label}|{a}|{b}" + (f"|{part.a.n}" if len(joint.parts) > 1 else "")
            found = draw(
                ground.measures, part.a, part.b, part.pairs, draws=draws, seed=ground.options.seed, key=key
            )
            joint.let_go(part)
            for measure in ground.measures:
                drawn[measure.name].append(found[measure.name])
        note = say(f"baseline-{name}", n=draws, m=n_pairs)
        if name == "shuffle" and len(joint.parts) > 1:
            note = say("baseline-shuffle-sizes", n=draws, m=n_pairs, k=len(joint.parts))
        for measure in ground.measures:
            yield ground.row(
                name,
                measure,
                _pair(a, b),
                _end_to_end(drawn[measure.name], axis=1).mean(axis=1),
                observed=measured_mean(joint.values(measure)),
                reason=say("baseline-not-drawn"),
                note=all_of([note, joint.left_out]),
            )


def _mismatched(ground: Ground) -> Iterator[Baseline]:
    for a, b in combinations(ground.shelves, 2):
        joint = ground.joint(a, b, ["all"])
        if isinstance(joint, Message) or joint.layers == ((None, None),):
            why = joint if isinstance(joint, Message) else say("baseline-outside-layers")
            yield from ground.refused("mismatched", _pair(a, b), why)
            continue
        for measure in ground.measures:
            matrix = joint.matrix(measure)
            profile = offset_profile(matrix)
            row = partial(
                ground.row, "mismatched", measure, observed=profile[0].mean if 0 in profile else None
            )
            note = all_of([_DEPENDENT, joint.left_out])
            yield row(say("scope.other-layers", a=a, b=b), off_diagonal(matrix), note=note)
            for offset, item in profile.items():
                if offset:
                    scope = say("scope.offset", a=a, b=b, offset=offset)
                    yield row(scope, item, note=all_of([say("baseline-offset"), joint.left_out]))


def _layer_zero(ground: Ground) -> Iterator[Baseline]:
    for name in ground.shelves:
        joint = ground.joint(name, name, ["within"])
        if isinstance(joint, Message):
            yield from ground.refused("layer-0", say("scope.model", model=name), joint)
            continue
        for measure in ground.measures:
            first, others = layer_zero(joint.matrix(measure))
            row = partial(ground.row, "layer-0", measure, reason=say("baseline-no-such-layers"))
            notes = [all_of([note, joint.left_out]) for note in (say("baseline-layer-zero"), _DEPENDENT)]
            yield row(say("scope.layer-zero", model=name), first, note=notes[0])
            yield row(say("scope.later-layers", model=name), others, note=notes[1])


def _within(ground: Ground) -> Iterator[Baseline]:
    for name in ground.shelves:
        joint = ground.joint(name, name, ["within"])
        note = all_of([_DEPENDENT, _left_out(joint)])
        for measure in ground.measures:
            values = joint if isinstance(joint, Message) else joint.values(measure)
            yield ground.row("within", measure, say("scope.model", model=name), values, note=note)


def _left_out(joint: Joint | Message) -> Message:
    return NOTHING if isinstance(joint, Message) else joint.left_out


def _known(relation: str, ground: Ground) -> Iterator[Baseline]:
    pairs = [(item.model_a, item.model_b) for item in ground.options.known if item.relation == relation]
    if not pairs:
        why = say("baseline-none-declared", relation=say(f"baseline-word.{relation}"))
        yield from ground.refused(relation, say("word.none"), why)
    for a, b in pairs:
        joint = ground.joint(a, b)
        if relation == "independent" and not isinstance(joint, Message):
            joint = _no_control(joint) or joint
        declared = say("baseline-declared", relation=say(f"baseline-word.{relation}"))
        note = all_of([declared, _left_out(joint)])
        for measure in ground.measures:
            values = joint if isinstance(joint, Message) else joint.values(measure)
            yield ground.row(relation, measure, _pair(a, b), values, note=note)


def _no_control(joint: Joint) -> Message | None:
    """Say why a pair that was declared independent cannot serve as a negative control, if so."""
    pearson = MEASURES["pearson"]
    found = [
        (
            part.found.get(pearson.name) or measured_all([pearson], part.a, part.b, part.pairs)[pearson.name]
        ).values
        for part in joint.parts
    ]
    r = measured_mean(_end_to_end(found))
    shortest = min(part.a.n for part in joint.parts)
    # Five standard deviations of the correlation of unrelated vectors, where these are short.
    if r is None or abs(r) < max(_RELATED, 5.0 / max(1, shortest - 1) ** 0.5):
        return None
    return say("baseline-relative", r=r)


def _groups(ground: Ground) -> Iterator[Baseline]:
    groups = ground.options.groups
    joints = {frozenset((a, b)): joint for a, b, joint in ground.model_pairs() if a != b}
    for measure in ground.measures:
        means = {
            pair: None if isinstance(joint, Message) else measured_mean(joint.values(measure))
            for pair, joint in joints.items()
        }
        if not groups:
            yield ground.row("groups", measure, say("word.none"), say("baseline-no-groups"))
        for first, second in combinations_with_replacement(groups, 2):
            # Unique and in this order: a mean over a set would differ in its last digit between runs.
            members = dict.fromkeys(
                frozenset((a, b)) for a in groups[first] for b in groups[second] if a != b
            )
            found = [means.get(pair) for pair in members]
            note = say("baseline-groups", why=_DEPENDENT)
            if None in found:
                note = say("baseline-groups-some", why=_DEPENDENT, n=found.count(None), m=len(found))
            yield ground.row(
                "groups",
                measure,
                _pair(first, second),
                np.ma.masked_invalid(np.array([np.nan if v is None else v for v in found], dtype=np.float64)),
                reason=say("baseline-no-pair"),
                note=note,
            )


def _random_tokens(ground: Ground) -> Iterator[Baseline]:
    for (a, b), found in ground.tokens.items():
        if isinstance(found, Message):
            yield from ground.refused("random-tokens", _pair(a, b), found)
            continue
        for measure in ground.measures:
            observed = _same_tokens(measure, found)
            for name, stack in ((a, found[0]), (b, found[1])):
                pairs = random_pairs(len(stack), count=_TOKEN_PAIRS, seed=ground.options.seed)
                yield ground.row(
                    "random-tokens",
                    measure,
                    say("scope.two-tokens", model=name),
                    measured(measure, stack, stack, pairs).values,
                    observed=observed,
                    note=say("baseline-random-tokens", tokens=found[2]),
                )


def _permuted_tokens(ground: Ground) -> Iterator[Baseline]:
    for (a, b), found in ground.tokens.items():
        if isinstance(found, Message):
            yield from ground.refused("permuted-tokens", _pair(a, b), found)
            continue
        for measure in ground.measures:
            drawn = [
                measured(measure, found[0], found[1], pairs).values.filled(np.nan)
                for pairs in permuted_pairs(len(found[0]), draws=_TOKEN_DRAWS, seed=ground.options.seed)
            ]
            yield ground.row(
                "permuted-tokens",
                measure,
                _pair(a, b),
                np.ma.masked_invalid(np.concatenate(drawn)),
                observed=_same_tokens(measure, found),
                reason=say("baseline-widths"),
                note=say("baseline-permuted-tokens", tokens=found[2], n=_TOKEN_DRAWS),
            )


def _same_tokens(measure: Measure, found: TokenStacks) -> float | None:
    return measured_mean(measured(measure, found[0], found[1], Pairs.diagonal(len(found[0]))).values)


_MAKERS: Mapping[str, Callable[[Ground], Iterator[Baseline]]] = {
    "expectation": _expectation,
    "shuffle": partial(_drawn, "shuffle", shuffle_draws),
    "random": partial(_drawn, "random", random_draws),
    "mismatched": _mismatched,
    "layer-0": _layer_zero,
    "within": _within,
    "independent": partial(_known, "independent"),
    "derived": partial(_known, "derived"),
    "groups": _groups,
    "random-tokens": _random_tokens,
    "permuted-tokens": _permuted_tokens,
}
