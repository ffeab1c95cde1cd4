"""From single tests to one answer for each component."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from modelkin.comparison.methods import Agreement, Effect, Evidence, Likeness, Skipped, Tested
from modelkin.message import Message, joined, say
from modelkin.stats import bonferroni

from ._result import ComponentVerdict, Conclusion
from ._rule import DecisionRule


def judge_component(tests: Sequence[Evidence], rule: DecisionRule, *, penalty: float) -> ComponentVerdict:
    """Combine the tests of one component.

    The best test counts, corrected for the number of tests (Bonferroni). Layers number their units
    independently of each other in most models, which would allow stronger combinations; but not in all: a
    model that repeats its layers would count one accident many times, and accuse another such stranger.

    Parameters
    ----------
    tests
        All evidence of the component, skipped ones included.
    rule
        When it is enough.
    penalty
        What is added to log10 p for looking at several components and for stages.
    """
    made = [test for test in tests if isinstance(test, Tested)]
    calibrated = _calibrated(tests, rule)
    if calibrated is not None:
        return calibrated
    if not made:
        reasons = sorted({test.reason for test in tests if isinstance(test, Skipped)}, key=str)
        reasons += _measures(tests)
        return ComponentVerdict(
            conclusion=Conclusion.NOT_TESTABLE,
            log10_p=None,
            effect=None,
            n_tests=0,
            reason=joined(reasons or [say("nothing-to-test")]),
        )
    by_layer = _by_layer(made)
    layer_p = {layers: _best_of(group) for layers, group in by_layer.items()}
    combined = bonferroni(list(layer_p.values()))
    effect = _effect(made)
    strong = combined + penalty < rule.log10_p and _not_negligible(made, effect, rule)
    shared, other = _split_layers(by_layer, layer_p, rule) if strong else ((), ())
    return ComponentVerdict(
        conclusion=_conclusion(strong, made, other, effect, rule),
        log10_p=combined,
        effect=effect,
        n_tests=len(made),
        layers=shared,
        other_layers=other,
        detection_limit=min((t.detection_limit for t in made if t.detection_limit is not None), default=None),
    )


def _calibrated(tests: Sequence[Evidence], rule: DecisionRule) -> ComponentVerdict | None:
    """Judge what was measured on controls: the only evidence that is not exact and may still decide."""
    made = [(test, test.rank) for test in tests if isinstance(test, Agreement) and test.rank]
    if not made:
        return None
    limits = rule.agreement
    strong = [test for test, _ in made if test.effect.low > limits["floor"]]
    log10_p = max(rank.log10_p for _, rank in made)
    n_pairs = min(rank.control_pairs for _, rank in made)
    # Among many pairs the second rank is a small p-value, too, and not enough: 1 / (n + 1), not 2 / (n + 1).
    beats_all = log10_p < math.log10(1.5 / (1 + n_pairs))
    if not beats_all or n_pairs < limits["control_pairs"] or len(strong) < min(limits["layers"], len(made)):
        return None
    return ComponentVerdict(
        conclusion=Conclusion.SHARED_REPARAMETRISED,
        log10_p=log10_p,
        effect=_effect(strong),
        n_tests=len(made),
        layers=tuple(sorted({layer for test in strong for layer in test.layers})),
        calibrated=True,
    )


def _measures(tests: Sequence[Evidence]) -> list[Message]:
    """Say what was measured without a test: it decides nothing, but a reader wants to know it."""
    alike = [test for test in tests if isinstance(test, Likeness)]
    if not alike:
        return []
    correlations = [test.pearson for test in alike if test.pearson is not None]
    share = _mean(test.share_equal for test in alike)
    if not correlations:
        return [say("measured", n=len(alike), share=share)]
    return [say("measured-r", n=len(alike), share=share, r=median(correlations))]


def _conclusion(
    strong: bool,
    made: Sequence[Tested],
    other: tuple[int, ...],
    effect: Effect,
    rule: DecisionRule,
) -> Conclusion:
    if not strong:
        return Conclusion.NO_EVIDENCE
    if effect.value < 0 and all(test.z is not None and test.z < 0 for test in made):
        # Chance never anti-correlates this much: a flipped or rotated copy does.
        return Conclusion.SHARED_REPARAMETRISED
    found = [test for test in made if test.log10_p < rule.log10_p]
    if found and all(test.frame != "identity" or test.reordered for test in found):
        return Conclusion.SHARED_REPARAMETRISED
    return Conclusion.SHARED_PARTIAL if other else Conclusion.SHARED


def _by_layer(made: Sequence[Tested]) -> dict[tuple[int, ...], list[Tested]]:
    groups: dict[tuple[int, ...], list[Tested]] = {}
    for test in made:
        groups.setdefault(test.layers, []).append(test)
    return groups


def _best_of(group: Sequence[Tested]) -> float:
    best = min(test.log10_p for test in group)
    return min(0.0, best + math.log10(len(group)))


def _effect(made: Sequence[Tested | Agreement]) -> Effect:
    """Average the effect over layers, of the tensor whose effects are largest: others have freedoms left.

    Tensors whose sign is free are used only where there are no others: their effect is never below zero by
    much, so that chance looks larger in them than it is.
    """
    by_role: dict[tuple[str, str | None, str], list[Effect]] = {}
    signed = [test for test in made if isinstance(test, Agreement) or not test.sign_free]
    for test in signed or made:
        by_role.setdefault((test.method, test.role, test.frame), []).append(test.effect)
    chosen = max(by_role.values(), key=lambda effects: abs(_mean(effect.value for effect in effects)))
    value = _mean(effect.value for effect in chosen)
    # As wide as the widest of one layer: layers need not be independent, so averaging buys nothing.
    below = max(effect.value - effect.low for effect in chosen)
    above = max(effect.high - effect.value for effect in chosen)
    return Effect(value=value, low=value - below, high=value + above, level=chosen[0].level)


def _mean(values: Iterable[float]) -> float:
    held = list(values)
    return math.fsum(held) / len(held)


def _not_negligible(made: Sequence[Tested], effect: Effect, rule: DecisionRule) -> bool:
    if any(test.n_matched >= rule.matched_floor for test in made):
        return True
    return effect.low > rule.effect_floor or effect.high < -rule.effect_floor


def _split_layers(
    by_layer: dict[tuple[int, ...], list[Tested]],
    layer_p: dict[tuple[int, ...], float],
    rule: DecisionRule,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Say in which of the tested layers the component is shared. Only where layers are tested one by one."""
    single = [layers for layers in by_layer if len(layers) == 1]
    if len(single) < 2:
        return (), ()
    level = rule.layer_log10_p - math.log10(len(single))
    shared = sorted(layers[0] for layers in single if layer_p[layers] < level)
    other = sorted(layers[0] for layers in single if layer_p[layers] >= level)
    return tuple(shared), tuple(other)
