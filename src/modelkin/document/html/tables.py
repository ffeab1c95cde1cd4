"""Lines and tables of a page: cells that sort by their numbers, rows that become cards on a phone."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.document.blocks import (
    Bar,
    Chip,
    Facts,
    Inline,
    Linked,
    Literally,
    Marked,
    Named,
    Runs,
    Strong,
    Table,
    Text,
    cell_of,
    parts_of,
)
from modelkin.document.language import Language

from .bars import effect_bar
from .markup import Html, element, joined, name_of, own_text, powers, with_names

_WIDE = 9
"""From this many columns a table is set in smaller type, and may scroll sideways."""


def table_markup(table: Table, language: Language) -> Html:
    """Make a table inside a frame that scrolls sideways if it must."""
    wide = len(table.columns) >= _WIDE
    shape = "wide stack" if wide else "plain pairs" if len(table.columns) <= 2 else "plain stack"
    kinds = [table.kind, shape, "sortable" if table.sortable else ""]
    made = element(
        "table",
        element("thead", element("tr", *_titles(table, language))),
        element("tbody", *(_row(number, table) for number in range(len(table.rows)))),
        class_=" ".join(kind for kind in kinds if kind),
    )
    framed = element("div", made, class_="scroll", tabindex=0 if wide else None)
    return element("div", element("h4", line(table.title)), framed) if table.title else framed


def _titles(table: Table, language: Language) -> Iterator[Html]:
    hint = language.say("text.sort")
    for place, title in enumerate(table.columns):
        shown = element("button", title, type="button", title=hint) if table.sortable else title
        yield element("th", shown, scope="col", class_="number" if place in table.numeric else None)


def _row(number: int, table: Table) -> Html:
    made = []
    for place, item in enumerate(table.rows[number]):
        cell, numeric = cell_of(item), place in table.numeric
        kind = "picture" if isinstance(cell.text, Bar) else "number" if numeric else None
        made.append(
            element(
                "td" if place else "th",
                line(cell.text, number=numeric),
                scope=None if place else "row",
                class_=kind,
                data_label=table.columns[place] or None,
                data_v=repr(cell.sort) if cell.sort is not None else None,
            )
        )
    return element("tr", *made, class_="skipped" if number in table.muted else None)


def facts_markup(block: Facts) -> Html:
    """Show names with values, without a head."""
    body = [
        element("tr", element("th", name, scope="row"), element("td", line(value)))
        for name, value in block.rows
    ]
    return element("div", element("table", element("tbody", *body), class_="facts"), class_="scroll")


def line(text: Text, *, number: bool = False) -> Html:
    """Write a text; powers in a `number` are raised."""
    return joined(_inline(part, number=number) for part in parts_of(text))


def _inline(part: Inline, *, number: bool) -> Html:
    match part:
        case str():
            return joined([powers(part)]) if number else name_of(part)
        case Marked():
            return own_text(powers(part.text))
        case Named():
            return with_names(part.text, part.names)
        case Strong():
            return element("strong", part.text)
        case Literally():
            return element("code", part.text)
        case Linked():
            return element("a", name_of(part.text), href=part.file)
        case Runs():
            return Html(", ".join(element("span", run, class_="run") for run in part.text.split(",")))
        case Chip():
            return element("span", part.text, class_=f"chip tone-{part.tone}")
        case Bar():
            return effect_bar(part)
