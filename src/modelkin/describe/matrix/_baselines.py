"""The baselines of one role: what each measure is where nothing, or something known, connects the tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, combinations_with_replacement

import numpy as np

from modelkin.describe.measures import (
    MEASURES,
    Baseline,
    Draws,
    Measure,
    Pairs,
    draws_for,
    layer_zero,
    measured,
    off_diagonal,
    offset_profile,
    permuted_pairs,
    random_draws,
    random_pairs,
    shuffle_draws,
)

from ._ground import Ground, Joint, TokenStacks, mean_of
from ._options import BASELINES

_TOKEN_DRAWS = 20
_RELATED = 0.3
"""Mean correlation over layers far above what independent models were ever seen to have (below 0.1)."""
_TOKEN_PAIRS = 2000
_DEPENDENT = "pairs share models and layers, so the standard deviation is no error of the mean"


def baseline_rows(ground: Ground) -> Iterator[Baseline]:
    """Make the baselines that were asked for."""
    for name in BASELINES:
        if name in ground.options.baselines:
            yield from _MAKERS[name](ground)


def _expectation(ground: Ground) -> Iterator[Baseline]:
    for a, b, joint in ground.model_pairs():
        for measure in ground.measures:
            if isinstance(joint, str):
                yield ground.row("expectation", measure, f"{a} x {b}", None, reason=joint)
                continue
            found = measured(measure, joint.a, joint.b, joint.pairs, expect=True)
            yield ground.row(
                "expectation",
                measure,
                f"{a} x {b}",
                found.expected,
                observed=mean_of(found.values),
                reason="no exact expectation is known",
                note=f"exact, over {len(joint.pairs)} pairs of layers",
            )


def _drawn(name: str, draw: Callable[..., Draws], words: str, ground: Ground) -> Iterator[Baseline]:
    for a, b, joint in ground.model_pairs():
        if isinstance(joint, str):
            for measure in ground.measures:
                yield ground.row(name, measure, f"{a} x {b}", None, reason=joint)
            continue
        draws = draws_for(joint.a, ground.options.draws)
        found = draw(
            ground.measures,
            joint.a,
            joint.b,
            joint.pairs,
            draws=draws,
            seed=ground.options.seed,
            key=f"{ground.choice.label}|{a}|{b}",
        )
        for measure in ground.measures:
            yield ground.row(
                name,
                measure,
                f"{a} x {b}",
                found[measure.name].mean(axis=1),
                observed=mean_of(joint.values(measure)),
                reason="it cannot be measured on drawn numbers",
                note=f"{draws} draws of {words}, each the mean over {len(joint.pairs)} pairs of layers",
            )


def _shuffle(ground: Ground) -> Iterator[Baseline]:
    return _drawn("shuffle", shuffle_draws, "one order of places for all layers", ground)


def _random(ground: Ground) -> Iterator[Baseline]:
    return _drawn("random", random_draws, "normal numbers with the data's means and deviations", ground)


def _mismatched(ground: Ground) -> Iterator[Baseline]:
    for a, b in combinations(ground.shelves, 2):
        joint = ground.joint(a, b, ["all"])
        for measure in ground.measures:
            if isinstance(joint, str) or joint.layers == ((None, None),):
                why = joint if isinstance(joint, str) else "the role is outside the layers"
                yield ground.row("mismatched", measure, f"{a} x {b}", None, reason=why)
                continue
            matrix = joint.matrix(measure)
            profile = offset_profile(matrix)
            on = profile[0].mean if 0 in profile else None
            others = off_diagonal(matrix)
            yield Baseline(
                baseline="mismatched",
                measure=measure.name,
                role=ground.choice.label,
                scope=f"{a} x {b}, all different layers",
                observed=on,
                null=others,
                reason=None if others else "nothing could be measured",
                note=_DEPENDENT,
            )
            for offset, item in profile.items():
                if offset:
                    yield Baseline(
                        baseline="mismatched",
                        measure=measure.name,
                        role=ground.choice.label,
                        scope=f"{a} x {b}, offset {offset:+d}",
                        observed=on,
                        null=item,
                        reason=None,
                        note="layer of b minus layer of a",
                    )


def _layer_zero(ground: Ground) -> Iterator[Baseline]:
    outlier = "layer 0 is an outlier in most models: no baseline for other layers"
    for name in ground.shelves:
        joint = ground.joint(name, name, ["within"])
        for measure in ground.measures:
            if isinstance(joint, str):
                yield ground.row("layer-0", measure, name, None, reason=joint)
                continue
            found = layer_zero(joint.matrix(measure))
            parts = (
                ("layer 0 with each other", found.first, outlier),
                ("every two others", found.others, _DEPENDENT),
            )
            for words, item, note in parts:
                yield Baseline(
                    baseline="layer-0",
                    measure=measure.name,
                    role=ground.choice.label,
                    scope=f"{name}, {words}",
                    observed=None,
                    null=item,
                    reason=None if item else "there are no such layers, or they cannot be measured",
                    note=note,
                )


def _within(ground: Ground) -> Iterator[Baseline]:
    for name in ground.shelves:
        joint = ground.joint(name, name, ["within"])
        for measure in ground.measures:
            values = None if isinstance(joint, str) else joint.values(measure)
            why = joint if isinstance(joint, str) else "nothing could be measured"
            yield ground.row("within", measure, name, values, reason=why, note=_DEPENDENT)


def _known(relation: str, ground: Ground) -> Iterator[Baseline]:
    pairs = [(item.model_a, item.model_b) for item in ground.options.known if item.relation == relation]
    for measure in ground.measures if not pairs else ():
        yield ground.row(relation, measure, "none", None, reason=f"no pair of models was declared {relation}")
    for a, b in pairs:
        joint = ground.joint(a, b)
        if relation == "independent" and not isinstance(joint, str):
            joint = _no_control(joint) or joint
        for measure in ground.measures:
            values = None if isinstance(joint, str) else joint.values(measure)
            why = joint if isinstance(joint, str) else "nothing could be measured"
            note = f"declared {relation} by the caller; values of single layers"
            yield ground.row(relation, measure, f"{a} x {b}", values, reason=why, note=note)


def _no_control(joint: Joint) -> str | None:
    """Say why a pair that was declared independent cannot serve as a negative control, if so."""
    r = mean_of(joint.values(MEASURES["pearson"]))
    if r is None or abs(r) < max(_RELATED, 5.0 / max(1, joint.a.n - 1) ** 0.5):
        return None
    return f"declared independent, but the values agree (mean r {r:.2f}): a relative is no negative control"


def _independent(ground: Ground) -> Iterator[Baseline]:
    return _known("independent", ground)


def _derived(ground: Ground) -> Iterator[Baseline]:
    return _known("derived", ground)


def _groups(ground: Ground) -> Iterator[Baseline]:
    groups = ground.options.groups
    joints = {frozenset((a, b)): joint for a, b, joint in ground.model_pairs() if a != b}
    for measure in ground.measures:
        means = {
            pair: None if isinstance(joint, str) else mean_of(joint.values(measure))
            for pair, joint in joints.items()
        }
        if not groups:
            yield ground.row("groups", measure, "none", None, reason="no groups were given")
        for first, second in combinations_with_replacement(groups, 2):
            members = {frozenset((a, b)) for a in groups[first] for b in groups[second] if a != b}
            found = [means.get(pair) for pair in members]
            values = np.ma.masked_invalid(
                np.array([np.nan if v is None else v for v in found], dtype=np.float64)
            )
            left_out = (
                f", {found.count(None)} of {len(found)} pairs could not be measured" if None in found else ""
            )
            yield ground.row(
                "groups",
                measure,
                f"{first} x {second}",
                values,
                reason="no pair of these groups could be measured",
                note=f"one number for each pair of models, the mean over layers; {_DEPENDENT}{left_out}",
            )


def _random_tokens(ground: Ground) -> Iterator[Baseline]:
    for (a, b), found in ground.tokens.items():
        for measure in ground.measures:
            if isinstance(found, str):
                yield ground.row("random-tokens", measure, f"{a} x {b}", None, reason=found)
                continue
            observed = _same_tokens(measure, found)
            for name, stack in ((a, found[0]), (b, found[1])):
                pairs = random_pairs(len(stack), count=_TOKEN_PAIRS, seed=ground.options.seed)
                yield ground.row(
                    "random-tokens",
                    measure,
                    f"{name}, two tokens",
                    measured(measure, stack, stack, pairs).values,
                    observed=observed,
                    note=f"{found[2]}; inside one model, so no null of the pairing across models",
                )


def _permuted_tokens(ground: Ground) -> Iterator[Baseline]:
    for (a, b), found in ground.tokens.items():
        for measure in ground.measures:
            if isinstance(found, str):
                yield ground.row("permuted-tokens", measure, f"{a} x {b}", None, reason=found)
                continue
            drawn = [
                measured(measure, found[0], found[1], pairs).values.filled(np.nan)
                for pairs in permuted_pairs(len(found[0]), draws=_TOKEN_DRAWS, seed=ground.options.seed)
            ]
            yield ground.row(
                "permuted-tokens",
                measure,
                f"{a} x {b}",
                np.ma.masked_invalid(np.concatenate(drawn)),
                observed=_same_tokens(measure, found),
                reason="the rows have different widths, or cannot be measured",
                note=f"{found[2]}; {_TOKEN_DRAWS} pairings in which no token meets itself",
            )


def _same_tokens(measure: Measure, found: TokenStacks) -> float | None:
    return mean_of(measured(measure, found[0], found[1], Pairs.diagonal(len(found[0]))).values)


_MAKERS: Mapping[str, Callable[[Ground], Iterator[Baseline]]] = {
    "expectation": _expectation,
    "shuffle": _shuffle,
    "random": _random,
    "mismatched": _mismatched,
    "layer-0": _layer_zero,
    "within": _within,
    "independent": _independent,
    "derived": _derived,
    "groups": _groups,
    "random-tokens": _random_tokens,
    "permuted-tokens": _permuted_tokens,
}
