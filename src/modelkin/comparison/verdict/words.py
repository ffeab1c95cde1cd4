"""What a verdict says to a person, and what it does not say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from modelkin.message import Message, joined, say

from ._result import ComponentVerdict, Conclusion

GUESSED = say("limitation.guessed")
"""For comparisons with a model whose tensor names say nothing."""


def limitations(conclusion: Conclusion, *, stage: str, ranked: bool) -> tuple[Message, ...]:
    """Say what a verdict does not say.

    Parameters
    ----------
    stage
        The last stage that was read: only the deep one undoes disguises.
    ranked
        Whether a part of the verdict rests on controls.
    """
    related = _limitations("ancestor", "seed", "frozen", "wrongdoing", "sampled")
    deep = stage == "deep"
    hidden = ("both_changed", "no_coordinates") if deep else ("not_undone",)
    match conclusion:
        case Conclusion.IDENTICAL:
            return _limitations("ancestor", "wrongdoing")
        case Conclusion.NO_EVIDENCE:
            return _limitations("distillation", *hidden, "sampled")
        case Conclusion.NOT_TESTABLE:
            return _limitations("nothing") if deep else _limitations("nothing", "other_shapes")
        case Conclusion.SHARED_PARTIAL:  # what shows nothing may be disguised
            return (*related, *_limitations(*hidden))
        case _:
            return (*_limitations("ranked"), *related) if ranked else related


def _limitations(*names: str) -> tuple[Message, ...]:
    return tuple(say(f"limitation.{name}") for name in names)


def summary(
    conclusion: Conclusion,
    components: Mapping[str, ComponentVerdict],
    identity: Message | None,
    *,
    candidate: str,
    base: str,
    limits: Mapping[str, float],
    ranked: bool = False,
) -> Message:
    """Say the verdict in one sentence; `ranked` is one that rests on nothing but controls."""
    pair = say("summary.pair", candidate=candidate, base=base)
    shared = [
        name
        for name, item in components.items()
        if item.conclusion not in (Conclusion.NO_EVIDENCE, Conclusion.NOT_TESTABLE)
    ]
    rest = [name for name, item in components.items() if item.conclusion is Conclusion.NO_EVIDENCE]
    match conclusion:
        case Conclusion.IDENTICAL:
            return say("summary.identical", pair=pair, reason=identity)
        case Conclusion.SHARED:
            return say("summary.shared", pair=pair, parts=_named(shared))
        case Conclusion.SHARED_PARTIAL:
            parts = tuple(_part(name, components[name]) for name in shared)
            if not rest:
                return say("summary.shared-partial-layers", pair=pair, parts=parts)
            return say("summary.shared-partial", pair=pair, parts=parts, rest=_named(rest))
        case Conclusion.SHARED_REPARAMETRISED:
            code = "summary.shared-ranked" if ranked else "summary.shared-reparametrised"
            return say(code, pair=pair, parts=_named(shared))
        case Conclusion.NO_EVIDENCE:
            return _no_evidence(pair, limits)
        case Conclusion.NOT_TESTABLE:
            reasons = dict.fromkeys(item.reason for item in components.values() if item.reason)
            told = [reason for reason in reasons if reason][:3]
            return say("summary.not-testable", pair=pair, reason=joined(told or [say("no-method")]))


def _named(names: Iterable[str]) -> tuple[Message, ...]:
    return tuple(say(f"component.{name}") for name in names) or (say("summary.everything"),)


def _part(name: str, item: ComponentVerdict) -> Message:
    """Name a component, and the layers of it that are shared if others are not."""
    part = say(f"component.{name}")
    return say("summary.some_layers", part=part, layers=item.layers) if item.other_layers else part


def _no_evidence(pair: Message, limits: Mapping[str, float]) -> Message:
    """Say what would have been found, for the most and the least sensitive component."""
    if not limits:
        return say("summary.no-evidence-none", pair=pair)
    ordered = sorted(limits, key=lambda name: limits[name])
    part, limit = say(f"component.{ordered[0]}"), _rounded_up(limits[ordered[0]])
    if len(ordered) == 1:
        return say("summary.no-evidence-one", pair=pair, part=part, limit=limit)
    return say(
        "summary.no-evidence",
        pair=pair,
        part=part,
        limit=limit,
        other_part=say(f"component.{ordered[-1]}"),
        other_limit=_rounded_up(limits[ordered[-1]]),
    )


def _rounded_up(value: float) -> float:
    """Return a limit with two digits, never smaller than it is."""
    digits = 1 - math.floor(math.log10(value)) if value > 0 else 0
    return math.ceil(value * 10.0**digits) / 10.0**digits
