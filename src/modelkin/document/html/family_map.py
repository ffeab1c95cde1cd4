"""All families of an atlas on one canvas: positions are computed here, a script draws them interactively."""

from __future__ import annotations

import json

from modelkin.atlas import AtlasIndex, graph_layout, model_key
from modelkin.document.language import Language
from modelkin.untrusted import visible

from .markup import Html, element

_KINDS = ("declared", "merge", "other")
_LONGEST = 120
"""Characters of a name on the map; its page has the rest."""


def family_map(index: AtlasIndex, language: Language) -> Html:
    """Draw the map: a search box, the canvas, what is under the pointer, and the data."""
    said = language.of("atlas")
    search = element(
        "form",
        element("label", said("search"), for_="search"),
        element("input", type="search", id="search", autocomplete="off", spellcheck="false"),
        element("output", id="search-state", for_="search", aria_live="polite"),
        element("ul", id="found"),
        class_="search",
        role="search",
    )
    buttons = [
        element("button", sign, type="button", class_="tool", data_do=name, aria_label=said(f"zoom-{name}"))
        for name, sign in (("in", "+"), ("out", "\N{MINUS SIGN}"), ("all", said("zoom-all")))
    ]
    legend = [
        element("li", element("span", class_=f"key-line {kind}"), said(f"map-edge-{kind}")) for kind in _KINDS
    ]
    legend.append(element("li", element("span", class_="key-flag"), said("map-flag")))
    return element(
        "div",
        element("p", said("map-plain"), class_="without-script note"),
        search,
        element(
            "figure",
            element("div", *buttons, class_="map-tools"),
            element(
                "canvas",
                id="family-map",
                tabindex=0,
                role="application",
                aria_label=said("map-label"),
                width=800,
            ),
            element("output", said("map-hint"), class_="readout", id="map-says", aria_live="polite"),
            element("ul", *legend, class_="legend"),
        ),
        element("script", Html(_data(index, language)), type="application/json", id="map-data"),
        class_="atlas-map",
    )


def _data(index: AtlasIndex, language: Language) -> str:
    """Write the map as numbers and names; no text in it can end the script that holds it."""
    atlas, layout = index.atlas, graph_layout(index.atlas)
    places = layout.places.round().astype(int)
    edges = []
    for (first, second), edge in zip(layout.edges.tolist(), atlas.edges, strict=True):
        kind = _KINDS.index(edge.kind) if edge.kind in _KINDS else 2
        pointed = 0 if edge.parent is None else 1 if edge.parent == edge.second else 2
        edges.append((first, second, kind, pointed))
    words = ("search-none", "search-many", "relatives")
    return (
        json.dumps(
            {
                "names": [visible(atlas.models[ref].shown)[:_LONGEST] for ref in layout.refs],
                "keys": [model_key(ref) for ref in layout.refs],
                "x": places[:, 0].tolist(),
                "y": places[:, 1].tolist(),
                "relatives": [atlas.models[ref].n_relatives for ref in layout.refs],
                "flags": [int(index.is_flagged(ref)) for ref in layout.refs],
                "edges": edges,
                "words": {key: language.say(f"atlas.{key}", n="{n}") for key in words},
            },
            ensure_ascii=True,
            separators=(",", ":"),
        )
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
    )
