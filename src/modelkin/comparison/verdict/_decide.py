"""Apply the rule to the evidence. Pure: the same evidence gives the same verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from modelkin.comparison.methods import HEADS_ALIKE, ORDERED, Agreement, Contrast, Evidence, Skipped, Tested
from modelkin.message import Message, say

from ._components import certain_tests, judge_component, not_testable, without_echoes
from ._rule import DecisionRule
from .pattern import BODY, STREAM, UNITS, pattern_of
from .result import ComponentVerdict, Conclusion, Verdict
from .words import at_most_agreed, headline, is_part, limitations, summary

_HEADS = "attention"
"""The component that heads belong to."""
_SHARED = {Conclusion.SHARED, Conclusion.SHARED_PARTIAL, Conclusion.SHARED_REPARAMETRISED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What is known about plain equality, before and beside any statistic."""

    all_files_equal: bool = False
    """Every file with weights has the same published digest on both sides, or every byte was compared."""
    how: Message | None = None
    """How it is known; not None for equal files."""


def decide(
    evidence: Sequence[Evidence],
    rule: DecisionRule,
    *,
    candidate: str,
    base: str,
    stage: str,
    identity: Identity | None = None,
    extra_limitations: Sequence[Message] = (),
    parameters: Mapping[str, int] | None = None,
    unfaced: Mapping[str, Collection[int]] | None = None,
) -> Verdict:
    """Turn evidence into a verdict.

    `parameters` are those of the candidate, by component: the verdict says how much it is about. `unfaced`
    are layers of the base that resemble no layer of the candidate, by component: the verdict on a model and a
    part of it is the same whichever of them is the candidate.

    The p-value of the verdict is that of its strongest component, corrected for the number of components
    tested (Bonferroni) and for the stages at which reading could have stopped.
    """
    identity = identity or Identity()
    components = sorted({test.component for test in evidence})
    tested = {test.component for test in evidence if isinstance(test, Tested)}
    looked_at = tested | {test.component for test in evidence if isinstance(test, Contrast)}
    penalty = math.log10(max(1, len(looked_at))) + rule.stage_penalty(stage)
    judged = {
        name: judge_component([test for test in evidence if test.component == name], rule, penalty=penalty)
        for name in components
    }
    n_tests = len(evidence)
    evidence, judged = _without_alike_heads(evidence, judged, rule, penalty=penalty)
    if any(item.conclusion in _SHARED for item in judged.values()):
        changed = _only_in_changed_coordinates(evidence, judged, rule, penalty=penalty)
        judged = {
            name: _knowing_of_others(
                [test for test in evidence if test.component == name], item, rule, changed
            )
            for name, item in judged.items()
        }
    else:
        judged = {name: _seen(evidence, name, item, rule) for name, item in judged.items()}
    judged = {
        name: _without_counterpart(
            [test for test in evidence if test.component == name], item, rule, (unfaced or {}).get(name, ())
        )
        for name, item in judged.items()
    }
    if parameters is not None:
        judged = {name: replace(item, parameters=parameters.get(name, 0)) for name, item in judged.items()}
    conclusion = _overall(judged, tested, identity, rule)
    matched = _only_matched(evidence, judged, rule, penalty=penalty)
    same_numbers = _same_numbers(evidence, judged)
    reading = pattern_of(
        conclusion,
        judged,
        evidence,
        stage=stage,
        alike_heads=len(evidence) < n_tests,
        matched=matched,
        same_numbers=same_numbers,
    )
    share = _shared_share(judged, parameters)
    exactly = any(_exactly_shared(item, rule, penalty) for item in judged.values())
    by_layers = [item for item in judged.values() if item.basis == "own-layers"]
    contrasted = bool(by_layers) and not exactly
    best = _strongest(by_layers if contrasted else [item for item in judged.values() if item.is_exact])
    log10_p = None if best is None or best.log10_p is None else min(0.0, best.log10_p + penalty)
    by_controls = [item for item in judged.values() if item.basis == "rank" and item.log10_p is not None]
    ranked = bool(by_controls) and not exactly and not contrasted
    if ranked:  # one test, planned as such: it was not chosen from several
        best = by_controls[0]
        log10_p = best.log10_p
    same_numbers = same_numbers if contrasted else {}
    limits = {name: item.detection_limit for name, item in judged.items() if item.detection_limit is not None}
    return Verdict(
        conclusion=conclusion,
        related=conclusion.related,
        log10_p=log10_p,
        # Beside a p-value of another kind, the tail of an exact test that did not decide would mislead.
        log10_p_extrapolated=None if contrasted or ranked else _extrapolated(evidence),
        effect=best.effect if best is not None else None,
        detection_limit=min(limits.values(), default=None),
        components=judged,
        shared_parameters=share,
        reading=reading,
        headline=headline(
            conclusion,
            reading,
            judged,
            share=share,
            ranked=ranked,
            contrasted=contrasted,
            same_numbers=bool(same_numbers) and _all_units_read(evidence, same_numbers, judged),
        ),
        summary=summary(
            conclusion,
            judged,
            identity.how,
            candidate=candidate,
            base=base,
            limits=limits,
            stage=stage,
            ranked=ranked,
            contrasted=contrasted,
            reading=reading,
            same_numbers=same_numbers,
            agreed=_agreed(evidence, rule, say("summary.pair", candidate=candidate, base=base)),
        ),
        limitations=(
            *limitations(
                conclusion,
                stage=stage,
                ranked=bool(by_controls),
                contrasted=bool(by_layers) or any(item.contrasted_layers for item in judged.values()),
                units_in_part=_units_in_part(evidence),
                in_part=is_part(judged),
                matched=bool(matched) and not same_numbers,
            ),
            *extra_limitations,
        ),
        rule=say("rule", n=rule.version),
        stage=stage,
    )


def _only_matched(
    evidence: Sequence[Evidence],
    judged: Mapping[str, ComponentVerdict],
    rule: DecisionRule,
    *,
    penalty: float,
) -> set[str]:
    """Name the components of which units or heads were found again, and nothing keeps its number.

    What is tested of them is the order of residual dimensions, which shared coordinates explain together with
    units that came to do the same.
    """
    found = {name for name, item in judged.items() if name in BODY and item.conclusion in _SHARED}
    return {
        name
        for name in found
        if all(
            test.axis == "residual"
            for test in certain_tests(
                [test for test in evidence if isinstance(test, Tested) and test.component == name],
                rule,
                penalty=penalty,
            )
        )
    }


def _without_alike_heads(
    evidence: Sequence[Evidence],
    judged: Mapping[str, ComponentVerdict],
    rule: DecisionRule,
    *,
    penalty: float,
) -> tuple[Sequence[Evidence], dict[str, ComponentVerdict]]:
    """Leave out heads that are alike and not the same, if coordinates are shared and no units are.

    What is tested of matched heads is the order of residual dimensions: shared coordinates are enough for it,
    with heads that came to do the same work. A student of hidden states has both. In shared coordinates,
    directions of such heads agree in facing layers more than in others, too.
    """
    shared = {name for name, item in judged.items() if item.conclusion in _SHARED}
    if not rule.coordinates or not shared & STREAM or shared & UNITS:
        return evidence, dict(judged)
    left, again = _left_out(evidence, judged, rule, penalty=penalty, where=_is_flagged_alike)
    if not _agree_as_the_same(left, again.get(_HEADS), rule):
        left, again = _left_out(left, again, rule, penalty=penalty, where=_is_contrast_of_heads)
    return left, again


def _is_flagged_alike(test: Evidence) -> bool:
    return isinstance(test, Tested) and HEADS_ALIKE in test.flags


def _is_contrast_of_heads(test: Evidence) -> bool:
    return isinstance(test, Contrast) and test.component == _HEADS


def _agree_as_the_same(
    evidence: Sequence[Evidence], item: ComponentVerdict | None, rule: DecisionRule
) -> bool:
    """Say whether heads of most layers that a contrast found agree as much as only the same heads do."""
    if item is None or item.basis != "own-layers":
        return True  # nothing rests on them
    made = [
        test
        for test in evidence
        if isinstance(test, Contrast) and test.component == _HEADS and {*test.layers} <= {*item.layers}
    ]
    same = [test for test in made if test.effect.low > rule.own_layers.get("same", 0.0)]
    return 2 * len(same) > len(made)


def _left_out(
    evidence: Sequence[Evidence],
    judged: Mapping[str, ComponentVerdict],
    rule: DecisionRule,
    *,
    penalty: float,
    where: Callable[[Evidence], bool],
) -> tuple[Sequence[Evidence], dict[str, ComponentVerdict]]:
    """Judge anew without some of the evidence, all of which says that heads are alike."""
    left, again = [test for test in evidence if not where(test)], dict(judged)
    for name in {test.component for test in evidence if where(test)}:
        tests = [test for test in left if test.component == name]
        again[name] = judge_component(tests, rule, penalty=penalty)
        if not any(isinstance(test, Tested | Contrast) for test in tests):
            again[name] = not_testable(say("heads-alike"))
    return left, again


def _seen(
    evidence: Sequence[Evidence], name: str, item: ComponentVerdict, rule: DecisionRule
) -> ComponentVerdict:
    """Call a component not testable if no test of it could have found even equal weights.

    Only where nothing is shared, so that a pair is not cleared by blind tests. Beside a finding, saying "no
    evidence" of the rest keeps the claim narrow.
    """
    tests = [test for test in evidence if test.component == name and isinstance(test, Tested)]
    contrasted = any(test.component == name and isinstance(test, Contrast) for test in evidence)
    if not tests or contrasted or not all(_is_blind(test, rule) for test in tests):
        return item
    ordered = all(ORDERED & {*test.flags} for test in tests)
    return not_testable(say("units-ordered" if ordered else "blind", n=max(test.n for test in tests)))


def _is_blind(test: Tested, rule: DecisionRule) -> bool:
    """Say whether a test could not have found even equal weights reliably."""
    if rule.blind_from < math.inf and ORDERED & {*test.flags}:
        return True
    return test.detection_limit is not None and test.detection_limit >= rule.blind_from


def _only_in_changed_coordinates(
    evidence: Sequence[Evidence],
    judged: Mapping[str, ComponentVerdict],
    rule: DecisionRule,
    *,
    penalty: float,
) -> bool:
    """Say whether everything was found in coordinates other than those the models came with.

    It needs a finding: that a map of the residual stream was tried, or fits, says nothing about the original
    coordinates. And one finding in these is enough to know that the models share them: of directions that
    agree, since gains say nothing about signs, and flipped signs leave a pattern that is found without
    agreeing.
    """
    shared = {name for name, item in judged.items() if item.conclusion in _SHARED}
    found: list[Evidence] = [
        test
        for test in evidence
        if isinstance(test, Agreement | Contrast)
        and test.component in shared
        and not judged[test.component].is_exact
    ]
    for name in sorted(shared):
        made = [test for test in evidence if isinstance(test, Tested) and test.component == name]
        found += without_echoes(certain_tests(made, rule, penalty=penalty), rule)
    only_signs = {test.frame for test in found if test.frame != "identity"} == {"signed-permutation"}
    as_stored = any(
        isinstance(test, Tested)
        and test.frame == "identity"
        and not (only_signs and test.component == "norms")
        and judged[test.component].conclusion is not Conclusion.SHARED_REPARAMETRISED
        for test in found
    )
    return not as_stored and any(test.frame != "identity" for test in found)


def _knowing_of_others(
    tests: Sequence[Evidence], item: ComponentVerdict, rule: DecisionRule, changed: bool
) -> ComponentVerdict:
    """Judge a component anew, knowing that the models share weights somewhere.

    Agreement of units then says where, without needing a p-value. And if the models share only other
    coordinates, a component that was tested in the old ones was not really tested. In all other cases a
    tested component keeps its result.
    """
    if item.conclusion is not Conclusion.NO_EVIDENCE:
        return item
    agreeing = [test for test in tests if isinstance(test, Agreement)]
    strong = [test for test in agreeing if test.effect.low > rule.agreement["attributed"]]
    if strong and len(strong) == len(agreeing):
        layers = tuple(sorted({layer for test in strong for layer in test.layers}))
        return replace(
            item, conclusion=Conclusion.SHARED_REPARAMETRISED, effect=strong[0].effect, layers=layers
        )
    if any(isinstance(test, Contrast) for test in tests):
        return item  # it was contrasted with mismatched layers in the coordinates that were found
    if changed and all(test.frame == "identity" for test in tests if isinstance(test, Tested)):
        return replace(item, conclusion=Conclusion.NOT_TESTABLE, reason=say("other-coordinates"))
    return item


def _without_counterpart(
    tests: Sequence[Evidence], item: ComponentVerdict, rule: DecisionRule, unfaced: Collection[int]
) -> ComponentVerdict:
    """Call a component partly shared if all layers of the candidate are found, but not all of the base.

    A candidate with one layer counts, too: its one test says which layer of the base it faces.
    """
    if item.conclusion is not Conclusion.SHARED:
        return item
    facing = {
        layer
        for test in tests
        if isinstance(test, Tested) and len(test.layers) == 1 and test.log10_p < rule.layer_log10_p
        for layer in test.base_layers or test.layers
    }
    left = tuple(sorted(set(unfaced) - facing))
    if not left or not facing:
        return item
    return replace(item, conclusion=Conclusion.SHARED_PARTIAL, unfaced_base_layers=left)


def _overall(
    judged: Mapping[str, ComponentVerdict], tested: set[str], identity: Identity, rule: DecisionRule
) -> Conclusion:
    if identity.all_files_equal:
        return Conclusion.IDENTICAL
    shared = {name: item for name, item in judged.items() if item.conclusion in _SHARED}
    if not shared:
        without = any(item.conclusion is Conclusion.NO_EVIDENCE for item in judged.values())
        return Conclusion.NO_EVIDENCE if without else Conclusion.NOT_TESTABLE
    if any(item.conclusion is Conclusion.SHARED_REPARAMETRISED for item in shared.values()):
        return Conclusion.SHARED_REPARAMETRISED
    counted = [judged[name] for name in tested if judged[name].conclusion is not Conclusion.NOT_TESTABLE]
    whole = all(item.conclusion is Conclusion.SHARED for item in counted)
    has_body = not rule.body or any(name in shared for name in rule.body)
    return Conclusion.SHARED if whole and has_body else Conclusion.SHARED_PARTIAL


def _shared_share(
    judged: Mapping[str, ComponentVerdict], parameters: Mapping[str, int] | None
) -> float | None:
    """Return the share of all parameters that was found shared, as far as layers were tested."""
    if parameters is None or not sum(parameters.values()):
        return None
    found = sum(parameters.get(name, 0) * item.share_found for name, item in judged.items())
    return found / sum(parameters.values())


def _exactly_shared(item: ComponentVerdict, rule: DecisionRule, penalty: float) -> bool:
    """Say whether an exact test shows a component to be shared, not controls or other components."""
    if not item.is_exact or item.conclusion not in _SHARED or item.log10_p is None:
        return False
    return item.log10_p + penalty < rule.log10_p


def _same_numbers(
    evidence: Sequence[Evidence], judged: Mapping[str, ComponentVerdict]
) -> dict[str, tuple[int, ...]]:
    """Name the components in whose shared layers all units hold exactly the numbers of the other model's.

    Each comes with these layers, if others were tested.
    """
    shares: dict[str, list[float | None]] = {}
    for test in evidence:
        if not isinstance(test, Contrast) or judged[test.component].basis != "own-layers":
            continue
        if set(test.layers) <= set(judged[test.component].layers):
            shares.setdefault(test.component, []).append(test.same_numbers)
    return {
        name: judged[name].layers if judged[name].other_layers else ()
        for name, found in shares.items()
        if all(share == 1.0 for share in found)
    }


def _all_units_read(
    evidence: Sequence[Evidence], names: Collection[str], judged: Mapping[str, ComponentVerdict]
) -> bool:
    """Say whether equality was seen in all units of all layers that were read, not in some of them."""
    units = {test.component for test in evidence if isinstance(test, Contrast)} & {"mlp", "experts"}
    part = any(judged[name].other_layers for name in names) or _units_in_part(evidence)
    return units <= set(names) and not part


def _agreed(evidence: Sequence[Evidence], rule: DecisionRule, pair: Message) -> Message | None:
    """Say how many units of facing layers agree at most, if layers were contrasted."""
    highest = [
        test.effect.high for test in evidence if isinstance(test, Contrast) and test.component in UNITS
    ]
    return at_most_agreed(pair, max(highest), rule.own_layers["floor"]) if highest else None


def _units_in_part(evidence: Sequence[Evidence]) -> bool:
    """Say whether contrasted layers were too large to be read whole."""
    return any(
        (isinstance(test, Contrast) and test.could_agree < 1)
        or (isinstance(test, Skipped) and test.method == "own-layers" and test.reason.code == "layer-large")
        for test in evidence
    )


def _strongest(judged: Iterable[ComponentVerdict]) -> ComponentVerdict | None:
    made = [item for item in judged if item.log10_p is not None]
    return min(made, key=lambda item: item.log10_p or 0.0, default=None)


def _extrapolated(evidence: Sequence[Evidence]) -> float | None:
    """Return the smallest normal tail, corrected for the number of tests it was chosen from."""
    tails = [
        test.log10_p_extrapolated
        for test in evidence
        if isinstance(test, Tested) and test.log10_p_extrapolated is not None
    ]
    return min(0.0, min(tails) + math.log10(len(tails))) if tails else None
