"""Apply the rule to the evidence. Pure: the same evidence gives the same verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from modelkin.comparison.methods import Agreement, Evidence, Tested
from modelkin.message import Message, say

from ._components import judge_component
from ._result import ComponentVerdict, Conclusion, Verdict
from ._rule import DecisionRule
from .words import limitations, summary

_SHARED = {Conclusion.SHARED, Conclusion.SHARED_PARTIAL, Conclusion.SHARED_REPARAMETRISED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What is known about plain equality, before and beside any statistic."""

    all_files_equal: bool = False
    """Every file with weights has the same published digest on both sides, or every byte was compared."""
    how: Message | None = None
    """In what way it is known; not None for equal files."""


def decide(
    evidence: Sequence[Evidence],
    rule: DecisionRule,
    *,
    candidate: str,
    base: str,
    stage: str,
    identity: Identity | None = None,
    extra_limitations: Sequence[Message] = (),
    frame: str = "identity",
) -> Verdict:
    """Turn evidence into a verdict.

    `frame` names the coordinates in which something was found, if not in those the models came with.

    The p-value of the verdict is that of its strongest component, corrected for the number of components
    tested (Bonferroni) and for the stages at which reading could have stopped.
    """
    identity = identity or Identity()
    components = sorted({test.component for test in evidence})
    tested = {test.component for test in evidence if isinstance(test, Tested)}
    penalty = math.log10(max(1, len(tested))) + rule.stage_penalty(stage)
    judged = {
        name: judge_component([test for test in evidence if test.component == name], rule, penalty=penalty)
        for name in components
    }
    if any(item.conclusion in _SHARED for item in judged.values()):
        judged = {
            name: _in_changed_form(item, [test for test in evidence if test.component == name], rule, frame)
            for name, item in judged.items()
        }
    conclusion = _overall(judged, tested, identity)
    best = _strongest(judged)
    log10_p = None if best is None or best.log10_p is None else min(0.0, best.log10_p + penalty)
    by_controls = [item.log10_p for item in judged.values() if item.calibrated and item.log10_p is not None]
    ranked = bool(by_controls) and not any(_exactly_shared(item, rule, penalty) for item in judged.values())
    if ranked:  # one test, planned as such: there is nothing that it was chosen from
        best = next(item for item in judged.values() if item.calibrated)
        log10_p = best.log10_p
    limits = {name: item.detection_limit for name, item in judged.items() if item.detection_limit is not None}
    return Verdict(
        conclusion=conclusion,
        related=conclusion.related,
        log10_p=log10_p,
        log10_p_extrapolated=_extrapolated(evidence),
        effect=best.effect if best is not None else None,
        detection_limit=min(limits.values(), default=None),
        components=judged,
        summary=summary(
            conclusion,
            judged,
            identity.how,
            candidate=candidate,
            base=base,
            limits=limits,
            ranked=ranked,
        ),
        limitations=(*limitations(conclusion, stage=stage, ranked=bool(by_controls)), *extra_limitations),
        rule=say("rule", n=rule.version),
        stage=stage,
    )


def _in_changed_form(
    item: ComponentVerdict, tests: Sequence[Evidence], rule: DecisionRule, frame: str
) -> ComponentVerdict:
    """Judge a component anew, knowing that the models share weights somewhere.

    Agreement of units then says where; it needs no p-value for that. And a component that was tested only in
    coordinates which the models do not share was not really tested.
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
    if frame != "identity":
        return replace(item, conclusion=Conclusion.NOT_TESTABLE, reason=say("other-coordinates"))
    return item


def _overall(judged: Mapping[str, ComponentVerdict], tested: set[str], identity: Identity) -> Conclusion:
    if identity.all_files_equal:
        return Conclusion.IDENTICAL
    shared = {name: item for name, item in judged.items() if item.conclusion in _SHARED}
    if not shared:
        return Conclusion.NO_EVIDENCE if tested else Conclusion.NOT_TESTABLE
    if any(item.conclusion is Conclusion.SHARED_REPARAMETRISED for item in shared.values()):
        return Conclusion.SHARED_REPARAMETRISED
    counted = [judged[name] for name in tested if judged[name].conclusion is not Conclusion.NOT_TESTABLE]
    whole = all(item.conclusion is Conclusion.SHARED for item in counted)
    return Conclusion.SHARED if whole else Conclusion.SHARED_PARTIAL


def _exactly_shared(item: ComponentVerdict, rule: DecisionRule, penalty: float) -> bool:
    """Say whether a component is shared by an exact test, not by controls or by what others showed."""
    if item.calibrated or item.conclusion not in _SHARED or item.log10_p is None:
        return False
    return item.log10_p + penalty < rule.log10_p


def _strongest(judged: Mapping[str, ComponentVerdict]) -> ComponentVerdict | None:
    made = [item for item in judged.values() if item.log10_p is not None]
    return min(made, key=lambda item: item.log10_p or 0.0, default=None)


def _extrapolated(evidence: Sequence[Evidence]) -> float | None:
    """Return the smallest normal tail, corrected for the number of tests it was chosen from."""
    tails = [
        test.log10_p_extrapolated
        for test in evidence
        if isinstance(test, Tested) and test.log10_p_extrapolated is not None
    ]
    return min(0.0, min(tails) + math.log10(len(tails))) if tails else None
