"""Tables of the page: cells that sort by their numbers, rows that become cards on a phone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modelkin.document._grids import Grid
from modelkin.document.language import Language

from .markup import Html, element, escaped, name_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What one cell shows, and by what it is sorted."""

    shown: Html
    number: float | None = None
    kind: str = ""
    """A class: `number`, `wide`, ..."""
    span: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row."""

    cells: tuple[Cell, ...]
    kind: str = ""


def words(text: str, *, kind: str = "") -> Cell:
    """Return a cell with words of ours or of a stranger."""
    return Cell(shown=name_of(text), kind=kind)


def number(text: str, value: float | None = None) -> Cell:
    """Return a cell with a number, aligned with those above it."""
    return Cell(shown=escaped(text), number=value, kind="number")


def runs(text: str) -> Html:
    """Show layers in their grammar, broken between runs only."""
    parts = [element("span", part, class_="run") for part in text.split(",")]
    return Html(", ".join(parts))


def table(
    titles: Sequence[str],
    rows: Iterable[Row],
    *,
    language: Language,
    kind: str = "",
    sortable: bool = False,
    numeric: Sequence[int] = (),
) -> Html:
    """Make a table inside a frame that scrolls sideways where it must."""
    head = [
        element(
            "th",
            element("button", title, type="button", title=language.say("text.sort")) if sortable else title,
            scope="col",
            class_="number" if place in numeric else None,
        )
        for place, title in enumerate(titles)
    ]
    body = [element("tr", *_cells(row, titles), class_=row.kind or None) for row in rows]
    made = element(
        "table",
        element("thead", element("tr", *head)),
        element("tbody", *body),
        class_=f"{kind} {'sortable' if sortable else ''}".strip() or None,
    )
    return element("div", made, class_="scroll", tabindex=0 if "wide" in kind.split() else None)


def _cells(row: Row, titles: Sequence[str]) -> Iterable[Html]:
    place = 0
    for cell in row.cells:
        title = titles[place] if place < len(titles) else ""
        yield element(
            "th" if place == 0 else "td",
            cell.shown,
            scope="row" if place == 0 else None,
            class_=cell.kind or None,
            data_label=title or None,
            data_v=repr(cell.number) if cell.number is not None else None,
            colspan=cell.span if cell.span > 1 else None,
        )
        place += cell.span


def grid_table(grid: Grid, language: Language) -> Html:
    """Show a table of texts."""
    rows = [Row(cells=tuple(words(cell) for cell in row)) for row in grid.rows]
    made = table(
        grid.columns, rows, language=language, kind="plain stack" if len(grid.columns) > 2 else "plain pairs"
    )
    if not grid.title:
        return made
    return element("div", element("h4", name_of(grid.title)), made)


def fact_table(rows: Iterable[tuple[str, Html]]) -> Html:
    """Show names with values, without a head."""
    body = [element("tr", element("th", name, scope="row"), element("td", value)) for name, value in rows]
    return element("div", element("table", element("tbody", *body), class_="facts"), class_="scroll")
