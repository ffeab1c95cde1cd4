"""Heat maps of all pairs of layers. One path for each colour keeps a map of 126 layers small."""

from __future__ import annotations

import json
from collections.abc import Iterator

from modelkin.comparison import Comparison
from modelkin.comparison.alignment import LayerMap
from modelkin.document.language import Language
from modelkin.document.views.alignment import map_place, path_table

from .layer_map import step_legend
from .markup import Html, element, joined, name_of
from .scales import MEASURES, colour
from .tables import table_markup

_Z = MEASURES["z"]
_EDGE = 30.0


def heat_maps(result: Comparison, language: Language) -> Html:
    """Draw the maps of a comparison."""
    maps = result.alignment.maps
    drawn = [_figure(item, language) for item in maps]
    paints = {paint for item in maps for paint in _paths(item)}
    return joined(
        [
            element("h3", language.say("title.maps")),
            element("p", language.say("text.about_maps"), class_="note"),
            element("div", *drawn, class_="heats"),
            step_legend(_Z, language, paints),
        ]
    )


def _figure(item: LayerMap, language: Language) -> Html:
    return element(
        "figure",
        element(
            "figcaption",
            element("strong", language.word("component", item.component)),
            " ",
            name_of(map_place(item, language)),
        ),
        element("div", _picture(item, language), class_="scroll"),
        _data(item, language),
        element("output", language.say("text.hint"), class_="readout", aria_live="polite"),
        _pairing(item, language),
        class_="heat",
    )


def _data(item: LayerMap, language: Language) -> Html:
    """Embed what the page needs to show the number of a cell; nothing in it can end the element."""
    data = {
        "candidate": list(item.candidate_layers),
        "base": list(item.base_layers),
        "scores": [[None if z is None else round(z, 2) for z in row] for row in item.scores],
        "path": [list(pair) for pair in item.path],
        "words": {key: language.texts[f"text.{key}"] for key in ("cell", "cell_missing", "on_path")},
    }
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    inert = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return element("script", Html(inert), type="application/json")


def _cell_size(item: LayerMap) -> float:
    return max(4.0, min(26.0, 620.0 / max(1, len(item.base_layers), len(item.candidate_layers))))


def _paths(item: LayerMap) -> dict[str, str]:
    """Return the outline of all cells of each colour."""
    paths: dict[str, list[str]] = {}
    for row, scores in enumerate(item.scores):
        for column, z in enumerate(scores):
            paint = "untested" if z is None else colour(_Z.level(z))
            paths.setdefault(paint, []).append(f"M{column} {row}h1v1h-1z")
    return {paint: "".join(cells) for paint, cells in sorted(paths.items())}


def _picture(item: LayerMap, language: Language) -> Html:
    cell = _cell_size(item)
    width, height = len(item.base_layers) * cell, len(item.candidate_layers) * cell
    cells = [element("path", d=path, class_=f"cell {paint}") for paint, path in _paths(item).items()]
    row = {layer: number for number, layer in enumerate(item.candidate_layers)}
    column = {layer: number for number, layer in enumerate(item.base_layers)}
    dots = [
        f"M{column[theirs] + 0.5:g} {row[mine] + 0.5:g}h0"
        for mine, theirs in item.path
        if mine in row and theirs in column
    ]
    cells.append(element("path", d="".join(dots), class_="pairing"))
    cells.append(element("rect", x=0, y=0, width=1, height=1, class_="cursor"))
    sides = {side: f"{language.say(f'label.{side}_layer')}" for side in ("candidate", "base")}
    name = f"{language.say('title.maps')}: {language.word('component', item.component)}"
    return element(
        "svg",
        *_numbers(item, cell),
        element("text", sides["base"] + " →", x=_EDGE + 16, y=12, class_="axis-name"),
        element(
            "text",
            sides["candidate"] + " →",
            x=0,
            y=0,
            class_="axis-name",
            transform=f"translate(6 {_EDGE:g}) rotate(90)",
        ),
        element("g", *cells, transform=f"translate({_EDGE + 16:g} {_EDGE:g}) scale({cell:g})"),
        class_="grid-probe",
        viewBox=f"0 0 {width + _EDGE + 20:.0f} {height + _EDGE + 4:.0f}",
        width=width + _EDGE + 20,
        height=height + _EDGE + 4,
        role="img",
        tabindex=0,
        aria_label=name,
        data_cell=cell,
        data_left=_EDGE + 16,
        data_top=_EDGE,
    )


def _numbers(item: LayerMap, cell: float) -> Iterator[Html]:
    every = next(step for step in (1, 2, 4, 5, 10, 20, 50, 100, 1000) if cell * step >= 20)
    for place in range(0, len(item.base_layers), every):
        x = _EDGE + 16 + (place + 0.5) * cell
        yield element("text", str(item.base_layers[place]), x=x, y=26, text_anchor="middle", class_="tick")
    for place in range(0, len(item.candidate_layers), every):
        y = _EDGE + (place + 0.5) * cell + 4
        layer = str(item.candidate_layers[place])
        yield element("text", layer, x=_EDGE + 11, y=y, text_anchor="end", class_="tick")


def _pairing(item: LayerMap, language: Language) -> Html:
    return element(
        "details",
        element("summary", language.say("text.show_pairs")),
        table_markup(path_table(item, language), language),
    )
