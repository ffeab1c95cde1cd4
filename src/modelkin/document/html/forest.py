"""A forest as one picture: models in columns by steps from the root, evidence under the pointer."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.document.language import Language
from modelkin.document.views.tree import direction_text, done_text, number_text
from modelkin.lineage import FamilyForest
from modelkin.lineage.tree_result import Family, TreeEdge

from .markup import Html, element, joined

_ROW, _LEFT, _TOP = 26, 14, 18
_MOST_LETTERS = 30
_LETTER, _BETWEEN = 7.2, 46
"""Width of a letter, and what lies between the end of a name and the next column."""


def forest_picture(found: FamilyForest, language: Language) -> Html:
    """Draw every family."""
    return joined(_picture(family, found, language) for family in found.families)


def _picture(family: Family, found: FamilyForest, language: Language) -> Html:
    edges = [edge for edge in found.edges if edge.first in family.members]
    rows = _rows(family, edges)
    columns = _columns(rows)
    places = {name: (columns[column], _TOP + row * _ROW) for name, (column, row) in rows.items()}
    height = _TOP + _ROW * len(family.members) + 6
    parts = [_line(edge, places, number, rows[edge.first][1], language) for number, edge in enumerate(edges)]
    parts += [
        _model(name, place, found, number + len(edges), rows[name][1])
        for number, (name, place) in enumerate(places.items())
    ]
    width = columns[-1] - _BETWEEN // 2
    svg = element(
        "svg",
        *parts,
        class_="probe forest",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        tabindex=0,
        aria_label=language.say("tree.picture"),
    )
    readout = element("output", language.say("text.hint"), class_="readout", aria_live="polite")
    return element("figure", element("div", svg, class_="scroll"), readout)


def _rows(family: Family, edges: list[TreeEdge]) -> dict[str, tuple[int, int]]:
    """Give every model a column, by steps from the root, and its own row, below its parent."""
    below: dict[str, list[str]] = {}
    for edge in edges:
        if edge.first not in [name for names in below.values() for name in names]:
            below.setdefault(edge.second, []).append(edge.first)
    placed: dict[str, tuple[int, int]] = {}

    def walk(name: str, column: int) -> None:
        if name not in placed:
            placed[name] = (column, len(placed))
            for child in below.get(name, ()):
                walk(child, column + 1)

    walk(family.middle, 0)
    for name in family.members:  # what has no drawn parent
        walk(name, 0)
    return placed


def _columns(rows: dict[str, tuple[int, int]]) -> list[int]:
    """Return where each column begins and the last one ends: a column is as wide as its names."""
    begins = [_LEFT]
    for number in range(1 + max(column for column, _ in rows.values())):
        letters = max(len(_shown(name)) for name, (column, _) in rows.items() if column == number)
        begins.append(begins[-1] + round(letters * _LETTER) + _BETWEEN)
    return begins


def _shown(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else name[: _MOST_LETTERS - 1] + "…"


def _line(
    edge: TreeEdge, places: dict[str, tuple[int, int]], number: int, row: int, language: Language
) -> Html:
    (x1, y1), (x2, y2) = places[edge.second], places[edge.first]
    note = "; ".join(_evidence(edge, language))
    path = f"M{x1:.0f} {y1:.0f} C{x1 + 20:.0f} {y2:.0f} {x1 + 30:.0f} {y2:.0f} {x2 - 7:.0f} {y2:.0f}"
    if edge.parent == edge.second:
        path += " m-6 -4 l6 4 l-6 4"
    elif edge.parent == edge.first:
        path += f" M{x1 + 4:.0f} {y1 + 10:.0f} l-4 -6 l6 2"
    return element(
        "path",
        element("title", note),
        d=path,
        class_=f"edge {edge.kind}",
        data_note=note,
        data_x=number,
        data_y=row,
    )


def _evidence(edge: TreeEdge, language: Language) -> Iterator[str]:
    yield f"{edge.first}, {edge.second}"
    yield direction_text(edge, language)
    yield f"{language.say('tree.done')}: {done_text(edge, language)}"
    yield language.tell(edge.reason)
    for key, value in (
        ("distance", edge.distance),
        ("inheritance", edge.inheritance),
        ("support", edge.support),
    ):
        if value is not None:
            yield f"{language.say(f'tree.{key}')} {number_text(value, 3)}"
    for fact in edge.facts:
        yield f"{fact.parent} → {fact.child}: {language.tell(fact.reason)}"


def _model(name: str, place: tuple[int, int], found: FamilyForest, number: int, row: int) -> Html:
    x, y = place
    summary = found.models[name]
    facts = (summary.family, summary.layers, summary.hidden_size, summary.vocab_size)
    note = f"{name}: {summary.ref}; " + " / ".join("-" if fact is None else str(fact) for fact in facts)
    circle = element("circle", cx=x, cy=y, r=5, class_="node")
    label = element("text", _shown(name), x=x + 9, y=y + 4, class_="row-name")
    return element("g", element("title", note), circle, label, data_note=note, data_x=number, data_y=row)
