"""Words that all reports share: what a conclusion is called, and how names of strangers are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from modelkin.comparison import Comparison
from modelkin.comparison.methods import Evidence, Skipped
from modelkin.comparison.verdict import ComponentVerdict, Conclusion
from modelkin.message import Message

from ._evidence import details_of
from ._sentences import known_sentence, sentence_text
from .language import ENGLISH, Language
from .numbers import limit_text, runs_text, value_text


def _by_conclusion(table: str) -> Mapping[Conclusion, str]:
    return {conclusion: ENGLISH.say(f"{table}.{conclusion.value}") for conclusion in Conclusion}


HEADLINE = _by_conclusion("headline")
SHORT = _by_conclusion("short")
STRENGTH = _by_conclusion("strength")
SCALE = ENGLISH.say("text.scale")


def strongest_component(result: Comparison) -> str | None:
    """Name the component whose effect is the verdict's."""
    effect = result.verdict.effect
    return next((name for name, item in tested_components(result) if effect and item.effect == effect), None)


def tested_components(result: Comparison) -> Iterator[tuple[str, ComponentVerdict]]:
    """Yield the components for which a test was made, the strongest first."""
    made = [
        item
        for item in result.verdict.components.items()
        if item[1].log10_p is not None and item[1].conclusion is not Conclusion.NOT_TESTABLE
    ]
    yield from sorted(made, key=lambda item: (item[1].log10_p or 0.0, item[0]))


def facing_layers(test: Evidence) -> tuple[int, ...]:
    """Return the base's layers that a test looked at, where they are not those of the candidate."""
    return test.base_layers if test.base_layers != test.layers else ()


def undone(frame: str) -> str | None:
    """Return what was undone in the coordinates, such as a permutation; None where they are as stored."""
    return None if frame == "identity" else frame


def summary_of(result: Comparison, language: Language) -> str:
    """Say the verdict in one sentence."""
    return language.tell(result.verdict.summary)


def limitations_of(result: Comparison, language: Language) -> Iterator[str]:
    """Yield what the verdict does not say."""
    for sentence in result.verdict.limitations:
        yield language.tell(sentence)


def layers_text(name: str, item: ComponentVerdict, result: Comparison, language: Language = ENGLISH) -> str:
    """Say which layers were tested, and where a component is shared in only some of them."""
    if item.other_layers:
        shared = runs_text(item.layers) or language.say("word.none")
        return language.say("text.shared_layers", shared=shared, other=runs_text(item.other_layers))
    return tested_layers(name, result) or "-"


def tested_layers(name: str, result: Comparison) -> str:
    """List the layers of a component in which a test was made."""
    made = (
        test.layers for test in result.evidence if test.component == name and not isinstance(test, Skipped)
    )
    return runs_text(sorted({layer for layers in made for layer in layers}))


def limits_text(result: Comparison, language: Language = ENGLISH) -> str:
    """Say from which effect on each component without evidence would have been found."""
    parts = [
        language.say(
            "text.limit_of",
            component=language.word("component", name),
            limit=limit_text(item.detection_limit),
        )
        for name, item in sorted(
            result.verdict.components.items(), key=lambda found: found[1].detection_limit or 0.0
        )
        if item.conclusion is Conclusion.NO_EVIDENCE and item.detection_limit is not None
    ]
    return ", ".join(parts)


def not_examined(result: Comparison, language: Language = ENGLISH) -> Iterator[str]:
    """Yield everything that was left out, with its reason; equal reasons are told once."""
    groups: dict[tuple[str, str], list[Skipped]] = {}
    for test in result.evidence:
        if isinstance(test, Skipped):
            groups.setdefault((test.component, reason_text(test.reason, language)), []).append(test)
    merged: dict[tuple[str, str], list[str]] = {}
    for (component, reason), tests in groups.items():
        where = runs_text(sorted({layer for test in tests for layer in test.layers}))
        merged.setdefault((reason, where), []).append(language.word("component", component))
    for (reason, where), names in merged.items():
        key = "text.layers_of" if where else "text.no_layers_of"
        yield language.say(key, components=", ".join(names), layers=where, reason=reason)
    yield from _in_other_coordinates(result, language)
    for side, model in (("candidate", result.candidate), ("base", result.base)):
        for text in model.skipped:
            told = sentence_text(text, language)
            yield language.say("text.of_side", side=language.say(f"side.{side}"), text=told)
    yield from (sentence_text(text, language) for text in result.alignment.unpaired)
    used = {test.method for test in result.evidence}
    unused = [name for name in result.environment.methods if name not in used]
    decided = result.verdict.conclusion is Conclusion.IDENTICAL
    if unused and not decided and result.verdict.stage == "quick":
        yield language.say("text.unused", stage=result.verdict.stage, methods=", ".join(unused))


def _in_other_coordinates(result: Comparison, language: Language) -> Iterator[str]:
    """Yield the components whose tests say nothing, since they were made in the wrong coordinates."""
    reasons: dict[Message, list[str]] = {}
    for name, item in result.verdict.components.items():
        if item.conclusion is Conclusion.NOT_TESTABLE and item.log10_p is not None and item.reason:
            reasons.setdefault(item.reason, []).append(language.word("component", name))
    for reason, names in reasons.items():
        told = reason_text(reason, language)
        yield language.say("text.no_layers_of", components=", ".join(names), reason=told)


def reason_text(reason: Message | None, language: Language = ENGLISH) -> str:
    """Say why something was not done."""
    return language.tell(reason) if reason else language.say("word.no_reason")


def name_text(name: str, language: Language = ENGLISH) -> str:
    """Write the name of a field of the record."""
    known = language.word("detail", name)
    return name.replace("_", " ") if known == name else known


def told_value(value: str | float | bool | Message | None, language: Language = ENGLISH) -> str:
    """Write a value of any kind, with words in a language."""
    match value:
        case bool():
            return language.say("word.yes" if value else "word.no")
        case Message():
            return language.tell(value)
        case str():
            return known_sentence(value, language)
        case _:
            return value_text(value)


def details_text(test: Evidence, language: Language = ENGLISH) -> str:
    """Write what a test says beside its numbers."""
    return "; ".join(
        f"{name_text(name, language)} {told_value(value, language)}"
        for name, value in details_of(test).items()
    )


def relation_text(result: Comparison, language: Language = ENGLISH) -> str:
    """Say what kind of relation it is and who came first, as far as known."""
    relation = result.relation
    unknown = relation.kind == "unknown"
    kind = language.say("text.kind_unknown") if unknown else language.word("relation", relation.kind)
    parent = relation.direction.parent
    known = language.say("text.parent", parent=parent) if parent else language.say("text.parent_unknown")
    return f"{kind}; {known}"
