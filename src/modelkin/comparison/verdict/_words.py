"""The sentences of a verdict: what it says to a person, and what it does not say."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ._result import ComponentVerdict, Conclusion

_DISTILLATION = (
    "Distillation, training on another model's output and retraining from scratch leave no trace in weights."
)
_NOT_PLAGIARISM = "A common origin of weights is a technical finding, not a finding of wrongdoing."
_ANCESTOR = (
    "A common ancestor looks the same as parent and child: the verdict does not say which came from which."
)
_SEED = "Two models started from the same initialisation (the same seed) share weights without derivation."
_FROZEN = (
    "A part both models took from a third one (a frozen encoder, published embeddings) is shared as well."
)
_SAMPLED = "Parts of the models that were not read are not covered."
_NOTHING = "Nothing could be tested, so nothing follows: neither kinship nor independence."

_OTHER_SHAPES = (
    "Models of other shapes can often be tested with --depth deep, which looks for the parts that face each "
    "other."
)
_NOT_UNDONE = (
    "Deliberate disguises (permuted or rotated weights) are not undone at this depth and can hide a common "
    "origin; --depth deep undoes most of them."
)
_BOTH_CHANGED = (
    "Reordered units in a residual stream that was changed as well can be found by comparison with controls "
    "only."
)
_NO_COORDINATES = (
    "Re-initialised embeddings, a rotated residual stream and permuted units together leave nothing to find "
    "coordinates by."
)
_RANKED = (
    "A part of this rests on controls: no pair with one of the unrelated models agreed as much. That is a "
    "rank among them, not an exact p-value; other controls could give another."
)
GUESSED = (
    "The names of tensors say nothing in at least one of the models: what they are for was guessed from "
    "their shapes, and what could not be told apart was left out."
)
"""For comparisons with such a model."""

_RELATED = (_ANCESTOR, _SEED, _FROZEN, _NOT_PLAGIARISM, _SAMPLED)


def limitations(conclusion: Conclusion, *, stage: str, ranked: bool) -> tuple[str, ...]:
    """Say what a verdict does not say.

    Parameters
    ----------
    stage
        The last stage that was read: only the deep one undoes disguises.
    ranked
        Whether a part of the verdict rests on controls.
    """
    hidden = (_BOTH_CHANGED, _NO_COORDINATES) if stage == "deep" else (_NOT_UNDONE,)
    match conclusion:
        case Conclusion.IDENTICAL:
            return (_ANCESTOR, _NOT_PLAGIARISM)
        case Conclusion.NO_EVIDENCE:
            return (_DISTILLATION, *hidden, _SAMPLED)
        case Conclusion.NOT_TESTABLE:
            return (_NOTHING,) if stage == "deep" else (_NOTHING, _OTHER_SHAPES)
        case Conclusion.SHARED_PARTIAL:  # what shows nothing may be disguised
            return (*_RELATED, *hidden)
        case _:
            return (_RANKED, *_RELATED) if ranked else _RELATED


def summary(
    conclusion: Conclusion,
    components: Mapping[str, ComponentVerdict],
    identity: str,
    *,
    candidate: str,
    base: str,
    limits: Mapping[str, float],
    ranked: bool = False,
) -> str:
    """Say the verdict in one sentence; `ranked` is one that rests on nothing but controls."""
    pair = f"{candidate} and {base}"
    shared = [
        name
        for name, item in components.items()
        if item.conclusion not in (Conclusion.NO_EVIDENCE, Conclusion.NOT_TESTABLE)
    ]
    rest = [name for name, item in components.items() if item.conclusion is Conclusion.NO_EVIDENCE]
    match conclusion:
        case Conclusion.IDENTICAL:
            return f"{pair} hold identical weights ({identity})."
        case Conclusion.SHARED:
            return f"{pair} share weights of common origin in everything that was tested: {_list(shared)}."
        case Conclusion.SHARED_PARTIAL:
            return (
                f"{pair} share weights of common origin in part: {_parts(components, shared)}{_not_in(rest)}."
            )
        case Conclusion.SHARED_REPARAMETRISED:
            if ranked:
                return (
                    f"{pair} agree in a changed form more than any control pair does, which points to "
                    f"weights of common origin: {_list(shared)}."
                )
            return (
                f"{pair} share weights of common origin in a changed form (reordered, flipped or rotated): "
                f"{_list(shared)}."
            )
        case Conclusion.NO_EVIDENCE:
            return f"No evidence that {pair} share weights of common origin{_found_above(limits)}."
        case Conclusion.NOT_TESTABLE:
            return f"Whether {pair} share weights could not be tested: {_why(components)}."


def _list(names: list[str]) -> str:
    return ", ".join(names) if names else "every value that was compared"


def _parts(components: Mapping[str, ComponentVerdict], shared: list[str]) -> str:
    words = []
    for name in shared:
        item = components[name]
        where = f" (layers {', '.join(map(str, item.layers))} of those tested)" if item.other_layers else ""
        words.append(f"{name}{where}")
    return ", ".join(words)


def _not_in(rest: list[str]) -> str:
    return f"; no evidence in {', '.join(rest)}" if rest else ""


def _found_above(limits: Mapping[str, float]) -> str:
    """Say what would have been found, for the most and the least sensitive component."""
    if not limits:
        return ""
    ordered = sorted(limits, key=lambda name: limits[name])
    words = [f"{_rounded_up(limits[ordered[0]])} in {ordered[0]}"]
    if len(ordered) > 1:
        words.append(f"{_rounded_up(limits[ordered[-1]])} in {ordered[-1]}")
    return f"; a shared direction above {' or '.join(words)} would have been found"


def _rounded_up(value: float) -> str:
    """Write a limit with two digits, never smaller than it is."""
    digits = 1 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{math.ceil(value * 10**digits) / 10**digits:g}"


def _why(components: Mapping[str, ComponentVerdict]) -> str:
    reasons = dict.fromkeys(item.reason for item in components.values() if item.reason)
    return "; ".join(reason for reason in list(reasons)[:3] if reason) or "no method applies"
