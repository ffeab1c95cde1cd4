"""A forest as one picture: models in columns by steps from the root, evidence under the pointer.

Every model has a row of its own, below its parent. Further parents of a merge are joined to it by a line at
the right, where there are no names.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from modelkin.document.language import Language
from modelkin.document.views.tree import direction_text, done_text, number_text
from modelkin.lineage import FamilyForest
from modelkin.lineage.tree_result import Family, TreeEdge

from .markup import Html, element, joined

_ROW, _LEFT, _TOP = 26, 14, 18
_MOST_LETTERS = 30
_BETWEEN = 46
"""What lies between the end of a name and the next column."""
_LETTER, _NARROW, _CAPITAL, _BROAD = 8.2, 5.4, 10.0, 13.0
"""Widths of letters in the widest font that pages fall back to: names end before lines begin, in any font."""
_NAME, _LANE, _BEND = 9, 12, 6
"""Where a name begins beside its dot; of lines at the right, the space for one, and its rounded corners."""


def forest_picture(found: FamilyForest, language: Language) -> Html:
    """Draw every family."""
    return joined(_picture(family, found, language) for family in found.families)


def _picture(family: Family, found: FamilyForest, language: Language) -> Html:
    edges = [edge for edge in found.edges if edge.first in family.members]
    rows = _rows(family, edges)
    columns = _columns(rows)
    places = {name: (columns[column], _TOP + row * _ROW) for name, (column, row) in rows.items()}
    height = _TOP + _ROW * len(family.members) + 6
    right = max(_name_end(name, places) for name in places) + _LANE + _BEND
    lanes = _lanes([edge for edge in edges if _is_further(edge, edges)], rows)
    paths = [
        _path(edge, places)
        if (lane := lanes.get(edge)) is None
        else _at_right(edge, places, right + lane * _LANE)
        for edge in edges
    ]
    parts = [
        _line(edge, path, number, rows[edge.first][1], language)
        for number, (edge, path) in enumerate(zip(edges, paths, strict=True))
    ]
    parts += [
        _model(name, place, found, number + len(edges), rows[name][1])
        for number, (name, place) in enumerate(places.items())
    ]
    width = right + _LANE * (1 + max(lanes.values(), default=-1))
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
        if not _is_further(edge, edges):
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
        widest = max(_width(_shown(name)) for name, (column, _) in rows.items() if column == number)
        begins.append(begins[-1] + widest + _BETWEEN)
    return begins


def _shown(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else name[: _MOST_LETTERS - 1] + "…"


def _is_further(edge: TreeEdge, edges: list[TreeEdge]) -> bool:
    """Say whether a model is placed below another of its parents."""
    return edge is not next(other for other in edges if other.first == edge.first)


def _lanes(edges: list[TreeEdge], rows: dict[str, tuple[int, int]]) -> dict[TreeEdge, int]:
    """Give lines at the right the first lane that is free along them, short ones first."""

    def span(edge: TreeEdge) -> tuple[int, int]:
        first, last = sorted((rows[edge.first][1], rows[edge.second][1]))
        return first, last

    taken: list[list[tuple[int, int]]] = []
    found: dict[TreeEdge, int] = {}
    for edge in sorted(edges, key=lambda edge: span(edge)[1] - span(edge)[0]):
        first, last = span(edge)
        free = (n for n, lane in enumerate(taken) if all(last < a or b < first for a, b in lane))
        found[edge] = next(free, len(taken))
        if found[edge] == len(taken):
            taken.append([])
        taken[found[edge]].append((first, last))
    return found


def _name_end(name: str, places: dict[str, tuple[int, int]]) -> int:
    return places[name][0] + _NAME + _width(_shown(name))


def _width(name: str) -> int:
    """Return the most that a name takes; nothing measures letters here."""
    return round(sum(map(_letter, name)))


def _letter(letter: str) -> float:
    if letter in "mwMW@%…" or unicodedata.east_asian_width(letter) in "WF":
        return _BROAD
    if letter in "fijlrtI-.,:;'|!()[]/ ":
        return _NARROW
    return _CAPITAL if letter.isupper() or not letter.isascii() else _LETTER


def _path(edge: TreeEdge, places: dict[str, tuple[int, int]]) -> str:
    """Draw from the dot of a parent to the dot of a model below it."""
    (x1, y1), (x2, y2) = places[edge.second], places[edge.first]
    path = f"M{x1} {y1} C{x1 + 20} {y2} {x1 + 30} {y2} {x2 - 7} {y2}"
    if edge.parent == edge.second:
        path += " m-6 -4 l6 4 l-6 4"
    elif edge.parent == edge.first:
        path += f" M{x1 + 4} {y1 + 10} l-4 -6 l6 2"
    return path


def _at_right(edge: TreeEdge, places: dict[str, tuple[int, int]], x: int) -> str:
    """Draw from the end of one name to the end of another: nothing else is in the rows of either."""
    names = (edge.second, edge.first) if edge.parent != edge.first else (edge.first, edge.second)
    (x1, y1), (x2, y2) = ((_name_end(name, places) + 4, places[name][1]) for name in names)
    down = _BEND if y2 > y1 else -_BEND
    path = f"M{x1} {y1} H{x - _BEND} Q{x} {y1} {x} {y1 + down} V{y2 - down} Q{x} {y2} {x - _BEND} {y2} H{x2}"
    return path if edge.parent is None else path + " m6 -4 l-6 4 l6 4"


def _line(edge: TreeEdge, path: str, number: int, row: int, language: Language) -> Html:
    note = "; ".join(_evidence(edge, language))
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
    label = element("text", _shown(name), x=x + _NAME, y=y + 4, class_="row-name")
    return element("g", element("title", note), circle, label, data_note=note, data_x=number, data_y=row)
