"""From single tests to one answer for each component."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from modelkin.comparison.methods import (
    FEW_ORDERS,
    LOG10_ALPHA,
    Agreement,
    Contrast,
    Effect,
    Evidence,
    Likeness,
    Skipped,
    Tested,
)
from modelkin.message import Message, joined, say
from modelkin.stats import bonferroni

from ._opposed import without_opposed
from ._rule import DecisionRule
from .result import ComponentVerdict, Conclusion


def judge_component(tests: Sequence[Evidence], rule: DecisionRule, *, penalty: float) -> ComponentVerdict:
    """Combine all evidence of one component, including skipped tests.

    The best test counts, corrected for the number of tests (Bonferroni). Layers number their units
    independently of each other in most models, which would allow stronger combinations, but not in all: a
    model that repeats its layers would count one coincidence many times, and accuse another such stranger.

    One layer that is certain is a finding. What is claimed must not be negligible: each layer is held to the
    effect floor by itself, so that others in which nothing is shared do not hide it. `penalty` is added to
    log10 p for looking at several components and for stages.
    """
    made = [test for test in tests if isinstance(test, Tested)]
    by_layer = _by_layer(made)
    certain = certain_tests(made, rule, penalty=penalty)
    contrasted = _contrasted(tests, rule, penalty=penalty)
    if not certain:
        inexact = contrasted or _calibrated(tests, rule)
        if inexact is not None:
            return inexact
    if not made:
        reasons = sorted({test.reason for test in tests if isinstance(test, Skipped)}, key=str)
        reasons += _measures(tests)
        return not_testable(joined(reasons or [say("nothing-to-test")]))
    if not certain and all(FEW_ORDERS in test.flags for test in made):
        # Nothing could have been found, so finding nothing says nothing.
        return not_testable(say("few-orders", n=max(test.n for test in made), p=LOG10_ALPHA))
    shared, other = _split_layers(by_layer, rule) if certain else ((), ())
    again = tuple(sorted({*other} & _the_same(tests, contrasted, rule)))
    shared, other = tuple(sorted({*shared, *again})), tuple(layer for layer in other if layer not in again)
    return ComponentVerdict(
        conclusion=_conclusion(without_echoes(certain, rule), other),
        log10_p=bonferroni([_best_of(group) for group in by_layer.values()]),
        effect=_deciding_effect(certain, made, set(other)),
        n_tests=len(made),
        layers=shared,
        other_layers=other,
        contrasted_layers=again,
        detection_limit=min((t.detection_limit for t in made if t.detection_limit is not None), default=None),
        layer_detection_limit=_layer_limit(by_layer),
    )


def certain_tests(made: Sequence[Tested], rule: DecisionRule, *, penalty: float) -> list[Tested]:
    """Return the tests of a component that are findings, corrected for all of them, and not negligible."""
    by_layer = _by_layer(made)
    found = _certain(by_layer, rule.log10_p - penalty - math.log10(max(1, len(by_layer))), rule)
    return without_opposed(found, made, rule)


def without_echoes(found: Sequence[Tested], rule: DecisionRule) -> list[Tested]:
    """Leave out what shows faintly in the original coordinates but is found in others."""
    changed: dict[tuple[int, ...], float] = {}
    for test in found:
        if test.frame != "identity":
            changed[test.layers] = max(changed.get(test.layers, 0.0), abs(test.effect.value))
    return [
        test
        for test in found
        if test.frame != "identity" or abs(test.effect.value) >= rule.echo * changed.get(test.layers, 0.0)
    ]


def not_testable(reason: Message) -> ComponentVerdict:
    """Judge a component of which nothing can be said."""
    return ComponentVerdict(
        conclusion=Conclusion.NOT_TESTABLE, log10_p=None, effect=None, n_tests=0, reason=reason
    )


def _calibrated(tests: Sequence[Evidence], rule: DecisionRule) -> ComponentVerdict | None:
    """Judge what was calibrated on controls: evidence that is not exact and may still decide."""
    made = [(test, test.rank) for test in tests if isinstance(test, Agreement) and test.rank]
    if not made:
        return None
    limits = rule.agreement
    strong = [test for test, _ in made if test.effect.low > limits["floor"]]
    log10_p = max(rank.log10_p for _, rank in made)
    n_pairs = min(rank.control_pairs for _, rank in made)
    # Among many pairs even the second rank is a small p-value, but not enough: 1 / (n + 1), not 2 / (n + 1).
    beats_all = log10_p < math.log10(1.5 / (1 + n_pairs))
    if not beats_all or n_pairs < limits["control_pairs"] or len(strong) < min(limits["layers"], len(made)):
        return None
    return ComponentVerdict(
        conclusion=Conclusion.SHARED_REPARAMETRISED,
        log10_p=log10_p,
        effect=_effect(strong),
        n_tests=len(made),
        layers=tuple(sorted({layer for test in strong for layer in test.layers})),
        basis="rank",
    )


def _contrasted(tests: Sequence[Evidence], rule: DecisionRule, *, penalty: float) -> ComponentVerdict | None:
    """Judge what was contrasted with mismatched layers of the same two models, if that is enough.

    It has no exact null, so a small p-value is not enough: much must agree, in several layers.
    """
    made = [test for test in tests if isinstance(test, Contrast)]
    limits = rule.own_layers
    level = rule.layer_log10_p - math.log10(max(1, len(made)))
    strong = [test for test in made if test.effect.low > limits["floor"] and test.log10_p < level]
    # If fewer layers were read than required, all of them must agree: a feature that depends on depth
    # appears in facing layers too, and in one or two it does not show a copy.
    if not strong or len(strong) < min(limits["layers"], len(made)):
        return None
    log10_p = bonferroni([test.log10_p for test in made])
    if log10_p + penalty >= rule.log10_p:
        return None
    shared = sorted({layer for test in strong for layer in test.layers})
    return ComponentVerdict(
        conclusion=Conclusion.SHARED_REPARAMETRISED,
        log10_p=log10_p,
        effect=_effect(strong),
        n_tests=len(made),
        layers=tuple(shared),
        other_layers=tuple(sorted({layer for test in made for layer in test.layers} - set(shared))),
        basis="own-layers",
    )


def _the_same(tests: Sequence[Evidence], contrasted: ComponentVerdict | None, rule: DecisionRule) -> set[int]:
    """Return the layers that a contrast found and in which nearly all agrees, as in a copy.

    Exact tests of a reordered copy find some of its heads, those that kept their places by chance. Layers
    without any are not layers without evidence.
    """
    least = rule.own_layers.get("beside")
    if contrasted is None or least is None:
        return set()
    made = [test for test in tests if isinstance(test, Contrast) and test.effect.low > least]
    return {layer for test in made for layer in test.layers} & {*contrasted.layers}


def _measures(tests: Sequence[Evidence]) -> list[Message]:
    """Report what was measured without a test: it decides nothing, but readers want to know."""
    alike = [test for test in tests if isinstance(test, Likeness)]
    if not alike:
        return []
    correlations = [test.pearson for test in alike if test.pearson is not None]
    share = _mean(test.share_equal for test in alike)
    if not correlations:
        return [say("measured", n=len(alike), share=share)]
    return [say("measured-r", n=len(alike), share=share, r=median(correlations))]


def _certain(
    by_layer: Mapping[tuple[int, ...], Sequence[Tested]], level: float, rule: DecisionRule
) -> list[Tested]:
    """Return the tests that are below a level, corrected for those of the same layer, and not negligible."""
    return [
        test
        for group in by_layer.values()
        for test in group
        if test.log10_p + math.log10(len(group)) < level and _not_negligible(test, rule)
    ]


def _not_negligible(test: Tested, rule: DecisionRule) -> bool:
    if test.n_matched >= rule.matched_floor:
        return True
    return test.effect.low > rule.effect_floor or test.effect.high < -rule.effect_floor


def _conclusion(certain: Sequence[Tested], other: tuple[int, ...]) -> Conclusion:
    if not certain:
        return Conclusion.NO_EVIDENCE
    # A square has no sign, so it says nothing about a changed form if other tests do.
    signed = [test for test in certain if not test.sign_free]
    if all(_in_changed_form(test) for test in signed or certain):
        return Conclusion.SHARED_REPARAMETRISED
    return Conclusion.SHARED_PARTIAL if other else Conclusion.SHARED


def _in_changed_form(test: Tested) -> bool:
    """Say whether a finding is about moved units, other coordinates, or changed signs.

    Chance never anti-correlates strongly enough for a test to be certain: a flipped or rotated copy does.
    """
    turned = "signs" in test.flags or (not test.sign_free and test.effect.high < 0)
    return test.frame != "identity" or test.reordered or turned


def _by_layer(made: Sequence[Tested]) -> dict[tuple[int, ...], list[Tested]]:
    groups: dict[tuple[int, ...], list[Tested]] = {}
    for test in made:
        groups.setdefault(test.layers, []).append(test)
    return groups


def _best_of(group: Sequence[Tested]) -> float:
    best = min(test.log10_p for test in group)
    return min(0.0, best + math.log10(len(group)))


def _effect(made: Sequence[Agreement | Contrast]) -> Effect:
    """Average the effect over layers, for the tensor with the largest effects: others have freedoms left."""
    by_role: dict[tuple[str, str | None, str], list[Effect]] = {}
    for test in made:
        by_role.setdefault((test.method, test.role, test.frame), []).append(test.effect)
    return _mean_effect(
        max(by_role.values(), key=lambda effects: abs(_mean(effect.value for effect in effects)))
    )


def _mean_effect(effects: Sequence[Effect]) -> Effect:
    value = _mean(effect.value for effect in effects)
    # As wide as the widest of one layer: layers need not be independent, so averaging gains nothing.
    below = max(effect.value - effect.low for effect in effects)
    above = max(effect.high - effect.value for effect in effects)
    return Effect(value=value, low=value - below, high=value + above, level=effects[0].level)


def _mean(values: Iterable[float]) -> float:
    held = list(values)
    return math.fsum(held) / len(held)


def _deciding_effect(certain: Sequence[Tested], made: Sequence[Tested], other: set[int]) -> Effect:
    """Return the effect of the test that decided, over the layers that are claimed.

    If nothing is claimed it is that of the best test, over all layers. Squares are used there only if there
    is nothing else: they are never far below zero, which makes chance look larger than it is.
    """
    signed = [test for test in made if not test.sign_free]
    best = min(
        certain or signed or made, key=lambda test: (test.log10_p, test.sign_free, -abs(test.effect.value))
    )
    alike = [
        test
        for test in made
        if _kind(test) == _kind(best) and (len(test.layers) != 1 or test.layers[0] not in other)
    ]
    return _mean_effect([test.effect for test in alike])


def _kind(test: Tested) -> tuple[object, ...]:
    """Return what tests have in common that differ in the layer only; one of many layers stands alone."""
    facing = test.base_layers if len(test.layers) > 1 else ()
    return test.method, test.role, test.frame, "signs" in test.flags, facing


def _layer_limit(by_layer: Mapping[tuple[int, ...], Sequence[Tested]]) -> float | None:
    """Return the effect from which any one of the tested layers would have been found."""
    limits = [
        min((test.detection_limit for test in group if test.detection_limit is not None), default=None)
        for layers, group in by_layer.items()
        if len(layers) == 1
    ]
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(limits) > 1 and len(known) == len(limits) else None


def _split_layers(
    by_layer: Mapping[tuple[int, ...], Sequence[Tested]], rule: DecisionRule
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Say in which of the tested layers the component is shared. Only where layers are tested one by one."""
    single: dict[tuple[int, ...], Sequence[Tested]] = {
        layers: group for layers, group in by_layer.items() if len(layers) == 1
    }
    if len(single) < 2:
        return (), ()
    level = rule.layer_log10_p - math.log10(len(single))
    shared = {test.layers[0] for test in _certain(single, level, rule)}
    return tuple(sorted(shared)), tuple(sorted({layers[0] for layers in single} - shared))
