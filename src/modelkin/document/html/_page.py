"""The page: its head with a policy that lets nothing in, its parts in order, its data."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.comparison import Comparison
from modelkin.document.language import ENGLISH, Language

from . import _records as records
from ._answer import components_table, limits_list, verdict_card
from ._curves import curves
from ._head import asset, digest_of, page_head
from ._heat_maps import heat_maps
from ._layer_map import layer_map
from ._scales import MEASURES
from ._series import Series, layer_series, layer_states
from .markup import Html, element, escaped, joined, own_text, with_names


def report_html(result: Comparison, language: Language = ENGLISH) -> str:
    """Write the page.

    Everything is in the file: it loads nothing, and its policy forbids it to. The only script that may run
    is the one whose digest stands in the policy, so a name that smuggles in another runs nothing.
    """
    style, script = asset("page.css"), asset("page.js")
    names = (result.candidate.ref, result.base.ref)
    question = language.say("title.question", candidate=names[0], base=names[1])
    policy = (
        f"default-src 'none'; style-src '{digest_of(style)}'; script-src '{digest_of(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = page_head(title=question, style=style, policy=policy, version=result.environment.modelkin)
    sections = list(_sections(result, language))
    body = element(
        "body",
        element("a", language.say("text.skip"), href="#verdict", class_="skip"),
        element(
            "header",
            element("span", "modelkin", class_="brand"),
            element("button", language.say("text.theme"), type="button", id="theme", class_="quiet"),
            class_="top",
        ),
        _contents(sections, language),
        element(
            "main",
            element("h1", with_names(question, names)),
            *(_section(key, made, language) for key, made in sections),
        ),
        _footer(result, language),
        element("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang=language.code, dir='ltr')}\n"


def _sections(result: Comparison, language: Language) -> Iterator[tuple[str, Html]]:
    yield "verdict", verdict_card(result, language)
    yield "limits", limits_list(result, language)
    if (flags := records.flags(result, language)) is not None:
        yield "flags", flags
    yield "components", components_table(result, language)
    yield "evidence", records.evidence_table(result, language)
    yield "controls", records.controls_table(result, language)
    yield "layers", _layers(result, language)
    yield "relation", records.relation(result, language)
    yield "models", records.models(result, language)
    yield "tokenizers", records.tokenizers(result, language)
    yield "config", records.configurations(result, language)
    yield "lineage", records.lineage(result, language)
    yield "missing", records.missing(result, language)
    yield "reading", records.reading(result, language)
    yield "repeat", records.repeat(result, language)
    yield "glossary", records.words_list(language)


def _section(key: str, made: Html, language: Language) -> Html:
    return element("section", element("h2", language.say(f"title.{key}")), made, id=key)


def _contents(sections: list[tuple[str, Html]], language: Language) -> Html:
    links = [element("li", element("a", language.say(f"title.{key}"), href=f"#{key}")) for key, _ in sections]
    return element("nav", element("ol", *links), aria_label=language.say("label.contents"))


def _footer(result: Comparison, language: Language) -> Html:
    made_by = language.say("text.made_by", version=result.environment.modelkin)
    return element(
        "footer", element("p", own_text(language.say("text.digits"))), element("p", escaped(made_by))
    )


# -- layers --------------------------------------------------------------------------------------------


def _layers(result: Comparison, language: Language) -> Html:
    series = layer_series(result)
    maps = heat_maps(result, language)
    parts: list[Html | None] = []
    if layer_states(result):
        parts += [_tools(series, language), *_figures(result, series, language)]
    else:
        parts.append(element("p", language.say("text.no_layer_tests")))
    if maps is not None:
        parts += [
            element("h3", language.say("title.maps")),
            element("p", language.say("text.about_maps"), class_="note"),
            maps,
        ]
    return joined(parts)


def _figures(result: Comparison, series: tuple[Series, ...], language: Language) -> Iterator[Html]:
    yield element("h3", language.say("title.layer_map"))
    yield element(
        "figure",
        element("figcaption", language.say("text.about_layer_map")),
        layer_map(result, series, language),
        element("output", language.say("text.hint"), class_="readout", aria_live="polite"),
    )
    if series:
        yield element("h3", language.say("title.curves"))
        yield element(
            "figure",
            element("figcaption", language.say("text.about_curves")),
            curves(result, series, language),
            element("output", language.say("text.hint"), class_="readout", aria_live="polite"),
        )


def _tools(series: tuple[Series, ...], language: Language) -> Html:
    """Choose measure and role. Shown only where the script runs."""
    keys = ["shared", *(MEASURES if series else ())]
    measures = [element("option", language.say(f"measure.{key}"), value=key) for key in keys]
    roles = [element("option", language.say("text.all_roles"), value="")]
    roles += [element("option", item.name, value=item.name) for item in series]
    return element(
        "form",
        element("label", language.say("label.measure"), " ", element("select", *measures, name="measure")),
        element("label", language.say("label.role"), " ", element("select", *roles, name="role")),
        class_="tools",
    )
