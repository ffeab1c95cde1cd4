"""The figures of layers: what is shared, and every test along the depth, for the measure a reader chooses."""

from __future__ import annotations

from modelkin.comparison import Comparison
from modelkin.document.language import Language
from modelkin.document.views.states import layer_states

from .curves import curves
from .layer_map import layer_map
from .markup import Html, element, joined
from .scales import MEASURES
from .series import Series, layer_series


def layer_figures(result: Comparison, language: Language) -> Html:
    """Draw the layer map and the curves, below a choice of measure and role."""
    if not layer_states(result):
        return element("p", language.say("text.no_layer_tests"))
    series = layer_series(result)
    about = language.say("text.about_layer_map")
    parts = [_tools(series, language), element("h3", language.say("title.layer_map"))]
    parts.append(_figure(about, layer_map(result, series, language), language))
    if series:
        parts.append(element("h3", language.say("title.curves")))
        parts.append(_figure(language.say("text.about_curves"), curves(result, series, language), language))
    return joined(parts)


def _figure(caption: str, drawn: Html, language: Language) -> Html:
    hint = element("output", language.say("text.hint"), class_="readout", aria_live="polite")
    return element("figure", element("figcaption", caption), drawn, hint)


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
