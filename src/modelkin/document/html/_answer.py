"""The beginning of the page: the question, the verdict with its numbers, its limits, and the components."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.comparison import Comparison
from modelkin.comparison.methods import Effect
from modelkin.comparison.verdict import ComponentVerdict, Conclusion
from modelkin.document._alignment import ranked_text
from modelkin.document._rows import effect_place
from modelkin.document._words import (
    layers_text,
    limitations_of,
    limits_text,
    reason_text,
    strongest_component,
    summary_of,
    tested_components,
    told_value,
)
from modelkin.document.language import Language
from modelkin.document.numbers import bound_text, effect_text, limit_text, p_text

from ._bars import axis_start, effect_bar
from ._tables import Cell, Row, number, runs, table, words
from .markup import Html, element, escaped, joined, own_text, powers, with_names

# Neither red nor green: a common origin is no crime, and no evidence of one is no acquittal.
_TONE = {Conclusion.NO_EVIDENCE: "none", Conclusion.NOT_TESTABLE: "open"}


def tone(conclusion: Conclusion) -> str:
    """Return the class that colours a conclusion."""
    return f"tone-{_TONE.get(conclusion, 'shared')}"


def verdict_card(result: Comparison, language: Language) -> Html:
    """Show the verdict in plain words, then its numbers."""
    verdict, names = result.verdict, (result.candidate.ref, result.base.ref)
    ranked = ranked_text(result, language) is not None
    name = verdict.conclusion.value
    headline, meaning = (
        ("text.ranked_headline", "text.ranked_meaning") if ranked else (f"headline.{name}", f"meaning.{name}")
    )
    return element(
        "div",
        element("p", language.say(headline), class_="headline"),
        element("p", with_names(summary_of(result, language), names), class_="summary"),
        element("p", language.say(meaning), class_="meaning"),
        element("dl", *_keys(result, language), class_="keys"),
        element("dl", *_facts(result, language), class_="small-facts"),
        class_=f"card {tone(verdict.conclusion)}",
    )


def _keys(result: Comparison, language: Language) -> Iterator[Html]:
    """Yield the three numbers that a reader must see together."""
    verdict = result.verdict
    if verdict.log10_p is None:
        yield _key(language.say("text.key_p"), "-", language.say("text.no_p"))
    else:
        strength = language.say(f"strength.{verdict.conclusion.value}")
        note = ranked_text(result, language) or f"{strength}; {language.say('text.corrected')}"
        yield _key(language.say("text.key_p"), powers(p_text(verdict.log10_p)), note)
    if verdict.effect is not None:
        yield _effect_key(result, verdict.effect, language)
    limits = limits_text(result, language)
    if verdict.detection_limit is not None:
        note = language.say("text.power", limits=limits) if limits else language.say("text.power_short")
        yield _key(language.say("text.key_limit"), limit_text(verdict.detection_limit), note)


def _effect_key(result: Comparison, effect: Effect, language: Language) -> Html:
    place = strongest_component(result)
    interval = language.say("text.interval", level=f"{100 * effect.level:g}")
    where = f"{language.word('component', place)}; " if place else ""
    value, _, rest = effect_text(effect).partition(" ")
    bar = effect_bar(effect, start=axis_start([effect]), limit=None, label=effect_place(result, language))
    return element(
        "div",
        element("dt", language.say("text.key_effect")),
        element("dd", value, " ", element("small", rest), class_="big"),
        element("dd", bar),
        element("dd", f"{where}{interval}; {language.say('text.scale')}", class_="note"),
        class_="key",
    )


def _key(label: str, value: str, note: str) -> Html:
    return element(
        "div",
        element("dt", label),
        element("dd", value, class_="big"),
        element("dd", note, class_="note"),
        class_="key",
    )


def _facts(result: Comparison, language: Language) -> Iterator[Html]:
    verdict = result.verdict
    rows = {
        "decided": language.say("text.at_stage", stage=verdict.stage, rule=told_value(verdict.rule, language))
    }
    if verdict.related and verdict.log10_p_extrapolated is not None:
        far = powers(bound_text(verdict.log10_p_extrapolated))
        rows["extrapolated"] = language.say("text.p_about", p=far)
    rows["conclusion"] = verdict.conclusion.value
    for key, value in rows.items():
        yield element("div", element("dt", language.say(f"label.{key}")), element("dd", value))


def limits_list(result: Comparison, language: Language) -> Html:
    """Show what the verdict does not say."""
    items = [element("li", sentence) for sentence in limitations_of(result, language)]
    return element("ul", *items, class_="limits")


def chip(conclusion: Conclusion, language: Language) -> Html:
    """Show a conclusion in one coloured word."""
    return element("span", language.say(f"short.{conclusion.value}"), class_=f"chip {tone(conclusion)}")


def components_table(result: Comparison, language: Language) -> Html:
    """Show what was found in each component; those without a test come last, with the reason."""
    tested = list(tested_components(result))
    shown = {name for name, _ in tested}
    rest = [pair for pair in result.verdict.components.items() if pair[0] not in shown]
    if not tested and not rest:
        return element("p", language.say("text.no_component"))
    start = axis_start(item.effect for _, item in tested)
    rows = [_component_row(name, item, result, language, start) for name, item in tested]
    rows += [_untested_row(name, item, language) for name, item in rest]
    titles = ("component", "verdict", "effect", "", "p_at_most", "found_from", "tests", "layers")
    labels = [language.say(f"label.{key}") if key else "" for key in titles]
    made = table(labels, rows, language=language, kind="components stack", numeric=(2, 4, 5, 6))
    return element("div", made, element("p", own_text(language.say("text.about_components")), class_="note"))


def _component_row(
    name: str, item: ComponentVerdict, result: Comparison, language: Language, start: float
) -> Row:
    label = language.word("component", name)
    ranked = ranked_text(result, language, name)
    bar = Html("")
    if item.effect is not None:
        text = f"{label}: {effect_text(item.effect)}"
        bar = effect_bar(item.effect, start=start, limit=item.detection_limit, label=text)
    return Row(
        cells=(
            words(label),
            Cell(shown=joined([chip(item.conclusion, language), f" {ranked}" if ranked else None])),
            number(effect_text(item.effect) if item.effect else "-"),
            Cell(shown=bar, kind="picture"),
            number(powers(bound_text(item.log10_p)) if item.log10_p is not None else "-"),
            number(limit_text(item.detection_limit) if item.detection_limit is not None else "-"),
            number(str(item.n_tests)),
            Cell(shown=runs(layers_text(name, item, result, language))),
        ),
        kind=tone(item.conclusion),
    )


def _untested_row(name: str, item: ComponentVerdict, language: Language) -> Row:
    return Row(
        cells=(
            words(language.word("component", name)),
            Cell(shown=chip(item.conclusion, language)),
            Cell(shown=escaped(reason_text(item.reason, language)), span=6, kind="reason"),
        ),
        kind="skipped",
    )
