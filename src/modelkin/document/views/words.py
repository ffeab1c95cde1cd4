"""What views say about parts of a comparison: texts in a language, not yet escaped."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from modelkin.comparison import Comparison, ModelSummary
from modelkin.comparison.methods import Agreement, Contrast, Effect, Evidence, Skipped, Tested
from modelkin.comparison.verdict import NEVER, ComponentVerdict, Conclusion, rounded_up
from modelkin.document.blocks import Bar, Chip, Tone
from modelkin.document.evidence import details_of, evidence_row
from modelkin.document.language import Language
from modelkin.document.numbers import bound_text, effect_text, limit_text, runs_text, value_text
from modelkin.message import Message
from modelkin.source import pinned
from modelkin.untrusted import visible

_TONE: dict[Conclusion, Tone] = {Conclusion.NO_EVIDENCE: "none", Conclusion.NOT_TESTABLE: "open"}


def tone(conclusion: Conclusion) -> Tone:
    """Return the colour of a conclusion."""
    return _TONE.get(conclusion, "shared")


def labels(language: Language, *keys: str) -> tuple[str, ...]:
    """Return titles of columns; an empty key is a column without one."""
    return tuple(language.say(f"label.{key}") if key else "" for key in keys)


def chip(conclusion: Conclusion, language: Language) -> Chip:
    """Return a conclusion in one word."""
    return Chip(language.say(f"short.{conclusion.value}"), tone(conclusion))


# -- what the record says ------------------------------------------------------------------------------


def reason_text(reason: Message | None, language: Language) -> str:
    """Say why something was not done."""
    return language.tell(reason) if reason else language.say("word.no_reason")


def name_text(name: str, language: Language) -> str:
    """Write the name of a field of the record."""
    known = language.word("detail", name)
    return name.replace("_", " ") if known == name else known


def told_value(value: str | Message | float | bool | None, language: Language) -> str:
    """Write a value of any kind, with words in a language."""
    match value:
        case bool():
            return language.say("word.yes" if value else "word.no")
        case Message():
            return language.tell(value)
        case _:
            return value_text(value)


def config_value(value: object, language: Language) -> str:
    """Write a value of a config, which is JSON, or say that there is none."""
    return language.say("word.absent") if value == "absent" else str(value)


def details_text(test: Evidence, language: Language) -> str:
    """Write what a test says in addition to its numbers."""
    return "; ".join(
        f"{name_text(name, language)} {told_value(value, language)}"
        for name, value in details_of(test).items()
    )


# -- components ----------------------------------------------------------------------------------------


def tested_components(result: Comparison) -> Iterator[tuple[str, ComponentVerdict]]:
    """Yield the components for which a test was made, the strongest first."""
    made = [
        item
        for item in result.verdict.components.items()
        if item[1].log10_p is not None and item[1].conclusion is not Conclusion.NOT_TESTABLE
    ]
    yield from sorted(made, key=lambda item: (item[1].log10_p or 0.0, item[0]))


def effect_place(result: Comparison, language: Language) -> str:
    """Write the effect of the verdict, the component that shows it, and what it measures."""
    effect, where = result.verdict.effect, result.verdict.deciding
    assert effect is not None
    measure = effect_measure(result, language)
    if where is None:
        return language.say("text.in_no_component", effect=effect_text(effect), measure=measure)
    component = language.word("component", where)
    key = "text.in_component" if result.verdict.related else "text.best_component"
    return language.say(key, effect=effect_text(effect), component=component, measure=measure)


def effect_measure(result: Comparison, language: Language) -> str:
    """Say what the effect of the verdict measures: a cosine, or the share of units that agree."""
    shares = share_measure(result, result.verdict.deciding, language)
    if shares is not None:
        return shares
    assert result.verdict.effect is not None
    return language.say("text.excess_cosine", scale=_scale_text(result.verdict.effect, language))


def effect_scale(result: Comparison, language: Language) -> str:
    """Say what the numbers of the verdict's effect mean, where there is little room."""
    assert result.verdict.effect is not None
    shares = share_measure(result, result.verdict.deciding, language)
    return shares or _scale_text(result.verdict.effect, language)


_SHARES = {"mlp-order": "text.share_in_order", "same-rows": "text.share_of_rows"}
"""Exact tests whose effect is a share and no cosine, and what it is a share of."""


def share_measure(result: Comparison, name: str | None, language: Language) -> str | None:
    """Say that the effect of a component is a share of its units, and how large it is by chance.

    None if it is a cosine.
    """
    item = None if name is None else result.verdict.components[name]
    if item is None:
        return None
    if item.is_exact:
        made = [test for test in result.evidence if test.component == name and isinstance(test, Tested)]
        key = _SHARES.get(min(made, key=lambda test: test.log10_p).method) if made else None
        return None if key is None else language.say(key)
    found = [test for test in result.evidence if test.component == name]
    if item.basis == "own-layers":
        largest = [test.mismatched.largest for test in found if isinstance(test, Contrast)]
        key = "text.share_of_heads" if name == "attention" else "text.share_of_units"
    else:
        largest = [test.rank.largest_control for test in found if isinstance(test, Agreement) and test.rank]
        key = "text.share_among_controls"
    return language.say(key, largest=f"{rounded_up(max(largest, default=0.0)):.2g}")


def _scale_text(effect: Effect, language: Language) -> str:
    """Say what the numbers of a cosine mean; one below zero needs other words."""
    return language.say("text.scale_below" if effect.high < 0 else "text.scale")


def p_texts(result: Comparison, language: Language) -> str | None:
    """Say how the p-value of the verdict follows from that of its best component; None if they are equal."""
    verdict, best = result.verdict, result.verdict.deciding
    if best is None or verdict.log10_p is None:
        return None
    log10_p = verdict.components[best].log10_p
    if log10_p is None or bound_text(log10_p) == bound_text(verdict.log10_p):
        return None
    counted = {test.component for test in result.evidence if isinstance(test, Tested | Contrast)}
    # Tests from which nothing follows have no row, and still count: what they show must not decide that.
    others = sorted(counted - {name for name, _ in tested_components(result)})
    return language.say(
        "text.two_p_others" if others else "text.two_p",
        component=language.word("component", best),
        p=bound_text(log10_p),
        number=str(len(counted)),
        others=", ".join(language.word("component", name) for name in others),
    )


def effect_bar(item: ComponentVerdict, label: str, start: float) -> Bar | str:
    """Draw the effect of a component, or nothing if it has none."""
    effect = item.effect
    if effect is None:
        return ""
    return Bar(
        value=effect.value,
        low=effect.low,
        high=effect.high,
        start=start,
        limit=item.detection_limit,
        label=f"{label}: {effect_text(effect)}",
    )


def layers_text(name: str, item: ComponentVerdict, result: Comparison, language: Language) -> str:
    """Say which layers were tested, and where a component is shared in only some of them."""
    if item.other_layers:
        shared = runs_text(item.layers) or language.say("word.none")
        said = language.say("text.shared_layers", shared=shared, other=runs_text(item.other_layers))
    else:
        made = (test for test in result.evidence if test.component == name and not isinstance(test, Skipped))
        said = runs_text(sorted({layer for test in made for layer in test.layers})) or "-"
    if not item.contrasted_layers:
        return said
    return language.say("text.contrasted_layers", layers=said, contrasted=runs_text(item.contrasted_layers))


def limits_text(result: Comparison, language: Language) -> str:
    """Say the smallest effect at which each component without evidence would have been found."""
    parts = [
        language.say(
            "text.limit_of" if item.layer_detection_limit is None else "text.limit_of_layers",
            component=language.word("component", name),
            limit=_from_text(item.detection_limit, language),
            layer_limit=_from_text(item.layer_detection_limit or 0.0, language),
        )
        for name, item in sorted(
            result.verdict.components.items(), key=lambda found: found[1].detection_limit or 0.0
        )
        if item.conclusion is Conclusion.NO_EVIDENCE and item.detection_limit is not None
    ]
    return ", ".join(parts)


def _from_text(limit: float, language: Language) -> str:
    """Say from which size on something would have been found, or that it would not at any size."""
    return language.say("text.at_no_size" if limit >= NEVER else "text.limit_from", limit=limit_text(limit))


# -- what rests on controls ----------------------------------------------------------------------------


def ranked_among(result: Comparison, name: str | None = None) -> int | None:
    """Return among how many control pairs a component, or the verdict, was ranked; None if p is exact."""
    components = result.verdict.components
    # The p-value of a verdict is that of an exact test if there is one besides the rank.
    wanted = [key for key, item in components.items() if item.log10_p == result.verdict.log10_p]
    named = wanted if name is None else [name]
    ranked = [key for key in named if key in components and components[key].basis == "rank"]
    numbers = [
        test.rank.control_pairs
        for test in result.evidence
        if test.component in ranked and isinstance(test, Agreement) and test.rank
    ]
    return max(numbers, default=0) if ranked else None


def ranked_text(result: Comparison, language: Language, name: str | None = None) -> str | None:
    """Say that a p-value is a rank among controls; None where it is exact."""
    number = ranked_among(result, name)
    if number is None:
        return None
    ranks = [test.rank for test in result.evidence if isinstance(test, Agreement) and test.rank]
    packaged = max((rank.packaged_pairs for rank in ranks), default=0)
    if not packaged:
        return language.say("text.ranked", number=value_text(number))
    return language.say("text.ranked_packaged", number=value_text(number), packaged=value_text(packaged))


def own_layers_text(result: Comparison, language: Language, name: str | None = None) -> str | None:
    """Say that a p-value is calibrated on the pair's own layers; None where it is not."""
    components = result.verdict.components
    named = (tuple(components) if result.verdict.basis == "own-layers" else ()) if name is None else (name,)
    held = [key for key in named if key in components and components[key].basis == "own-layers"]
    if not held:
        return None
    found = [test for test in result.evidence if test.component in held and isinstance(test, Contrast)]
    number = max((test.mismatched.n_pairs for test in found), default=0)
    return language.say("text.own_layers", number=value_text(number))


def basis_text(result: Comparison, language: Language, name: str | None = None) -> str | None:
    """Say what the p-value of a component, or of the verdict, rests on; None where it is exact."""
    return ranked_text(result, language, name) or own_layers_text(result, language, name)


# -- evidence ------------------------------------------------------------------------------------------


def facing_layers(test: Evidence) -> tuple[int, ...]:
    """Return the base's layers that a test looked at, if they differ from the candidate's."""
    return test.base_layers if test.base_layers != test.layers else ()


def undone(frame: str) -> str | None:
    """Return what was undone in the coordinates, such as a permutation; None if they are as stored."""
    return None if frame == "identity" else frame


def remarks_text(test: Evidence, language: Language) -> str:
    """Write the remarks on a piece of evidence besides its numbers."""
    say = language.say
    remarks = []
    if isinstance(test, Skipped):
        remarks.append(say("text.not_made", reason=reason_text(test.reason, language)))
    coordinates, others = undone(test.frame), facing_layers(test)
    remarks += [say("text.frame", frame=language.word("frame", coordinates))] if coordinates else []
    remarks += [say("text.faces", layers=runs_text(others))] if others else []
    details = details_text(test, language)
    remarks += [details] if details else []
    remarks += [language.word("flag", flag) for flag in evidence_row(test).flags]
    return "; ".join(remarks)


def method_lines(result: Comparison, language: Language) -> Iterator[str]:
    """Yield one line for each method that was used, with its null hypothesis."""
    for test in {(test.method, test.version): test for test in result.evidence}.values():
        yield language.say(
            "text.method_line",
            method=test.method,
            version=test.version,
            exact=language.say("word.exact" if test.exact else "word.not_exact"),
            null=language.tell(test.null),
        )


def not_examined(result: Comparison, language: Language) -> Iterator[str]:
    """Yield everything that was left out, with its reason; equal reasons are told once."""
    groups: dict[tuple[str, str], set[int]] = {}
    examined = {test.component for test in result.evidence if isinstance(test, Tested | Contrast)}
    for test in result.evidence:
        if isinstance(test, Skipped) and test.reason.code != "no-part":  # not a gap
            if not test.layers and test.component in examined:
                continue  # the whole component was given up too early: other coordinates made it testable
            layers = groups.setdefault((test.component, reason_text(test.reason, language)), set())
            layers.update(test.layers)
    merged: dict[tuple[str, str], list[str]] = {}
    for (component, reason), layers in groups.items():
        where = runs_text(sorted(layers))
        merged.setdefault((reason, where), []).append(language.word("component", component))
    for (reason, where), names in merged.items():
        key = "text.layers_of" if where else "text.no_layers_of"
        yield language.say(key, components=", ".join(names), layers=where, reason=reason)
    yield from _in_other_coordinates(result, language)
    for side, model in (("candidate", result.candidate), ("base", result.base)):
        for skipped in model.skipped:
            side_name = language.say(f"side.{side}")
            yield language.say("text.of_side", side=side_name, text=language.tell(skipped))
    yield from (language.tell(unpaired) for unpaired in result.alignment.unpaired)
    used = {test.method for test in result.evidence}
    unused = [name for name in result.environment.methods if name not in used]
    decided = result.verdict.conclusion is Conclusion.IDENTICAL
    if unused and not decided and result.verdict.stage == "quick":
        yield language.say("text.unused", stage=result.verdict.stage, methods=", ".join(unused))


def _in_other_coordinates(result: Comparison, language: Language) -> Iterator[str]:
    """Yield the components whose tests say nothing because they were made in the wrong coordinates."""
    reasons: dict[str, list[str]] = {}
    for name, item in result.verdict.components.items():
        if item.conclusion is Conclusion.NOT_TESTABLE and item.log10_p is not None and item.reason:
            reason = reason_text(item.reason, language)
            reasons.setdefault(reason, []).append(language.word("component", name))
    for reason, names in reasons.items():
        yield language.say("text.no_layers_of", components=", ".join(names), reason=reason)


# -- how to repeat it ----------------------------------------------------------------------------------


def command_text(result: Comparison) -> str:
    """Write the command that repeats a comparison, with commits and folders pinned."""
    environment = result.environment
    words = ["modelkin", "compare", _pinned(result.candidate), _pinned(result.base)]
    words += ["--depth", environment.depth, "--seed", str(environment.seed)]
    for control in dict.fromkeys(item.pair[1] for item in result.controls):
        words += ["--control", control]
    return visible(shlex.join(words))


def _pinned(model: ModelSummary) -> str:
    """Name a model so that the same folder or commit is found again."""
    if model.kind == "local":
        return model.origin
    if model.kind != "hub" or model.revision is None:
        return model.ref
    return pinned(model.ref, model.revision)
