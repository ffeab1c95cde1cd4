"""Blocks as one page that loads nothing and trusts no name."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence

from modelkin.document.blocks import (
    Bar,
    Block,
    Bullets,
    Card,
    Chip,
    Code,
    Facts,
    Heading,
    Inline,
    Interactive,
    Link,
    Literally,
    Marked,
    Named,
    PageOnly,
    Paragraph,
    Picture,
    Runs,
    Section,
    Strong,
    Table,
    Text,
    Tile,
    cell_of,
    parts_of,
)
from modelkin.document.language import Language

from .bars import effect_bar
from .head import asset, page_head
from .markup import Html, element, joined, name_of, own_text, powers, with_names

_TYPES = {"png": "image/png", "gif": "image/gif", "svg": "image/svg+xml"}
_WIDE = 9
"""Columns from which on a table scrolls sideways instead of becoming cards on a phone."""


def render_html(
    blocks: Iterable[Block],
    *,
    title: str,
    language: Language,
    version: str,
    images: Mapping[str, bytes] | None = None,
    footer: Sequence[Text] = (),
) -> str:
    """Write a page.

    Everything is in the file: it loads nothing, and its policy forbids it to. The only script that may run
    is the one whose digest stands in the policy, so a name that smuggles in another runs nothing.

    Parameters
    ----------
    title
        Of the window.
    version
        Of modelkin.
    images
        File of a picture -> its bytes, which are put into the page.
    footer
        Lines below everything, above the one that names modelkin.
    """
    listed = list(blocks)
    writer = _Writer(language, images or {})
    made_by = language.say("text.made_by", version=version)
    links = [(key, text) for block in listed for key, text in _linked(block)]
    body = element(
        "body",
        element("a", language.say("text.skip"), href=f"#{links[0][0]}", class_="skip") if links else None,
        element(
            "header",
            element("span", "modelkin", class_="brand"),
            element("button", language.say("text.theme"), type="button", id="theme", class_="quiet"),
            class_="top",
        ),
        _contents(links, language) if links else None,
        element("main", *(writer.made(block, 2) for block in listed)),
        element("footer", *(element("p", _line(line)) for line in (*footer, made_by))),
        element("script", Html(asset("page.js"))),
        class_=None if links else "plain-page",
    )
    head = page_head(title=title, version=version, with_images=bool(images))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang=language.code, dir='ltr')}\n"


def _linked(block: Block) -> Iterator[tuple[str, Text]]:
    match block:
        case Section() if block.key:
            yield block.key, block.title
        case Heading() if block.key:
            yield block.key, block.text


def _contents(links: Iterable[tuple[str, Text]], language: Language) -> Html:
    items = [element("li", element("a", _line(text), href=f"#{key}")) for key, text in links]
    return element("nav", element("ol", *items), aria_label=language.say("label.contents"))


class _Writer:
    def __init__(self, language: Language, images: Mapping[str, bytes]) -> None:
        self.language = language
        self.images = images

    def made(self, block: Block, level: int) -> Html:
        """Make the markup of a block; sections in it are of `level`."""
        match block:
            case Section():
                return self._section(block, level)
            case PageOnly():
                return joined(self.made(inside, level) for inside in block.blocks)
            case Table():
                return self._table(block)
            case Picture():
                return self._picture(block)
            case Interactive():
                return Html(block.draw())
            case _:
                return _single(block)

    def _section(self, section: Section, level: int) -> Html:
        inside = [self.made(block, level + 1) for block in section.blocks]
        title = _line(section.title)
        if section.closed:
            summary = element("summary", title)
            return element("details", summary, *inside, class_="print", id=section.key or None)
        if level > 2:
            return joined([element(f"h{level}", title, id=section.key or None), *inside])
        return element("section", element("h2", title), *inside, id=section.key or None)

    def _picture(self, picture: Picture) -> Html:
        data = base64.b64encode(self.images[picture.file]).decode()
        source = f"data:{_TYPES[picture.file.rpartition('.')[2]]};base64,{data}"
        caption = element("figcaption", _line(picture.caption)) if picture.caption else None
        return element("figure", element("img", src=source, alt=picture.alt), caption)

    # -- tables ----------------------------------------------------------------------------------------

    def _table(self, table: Table) -> Html:
        """Make a table inside a frame that scrolls sideways where it must."""
        wide = len(table.columns) >= _WIDE
        shape = "wide" if wide else "plain pairs" if len(table.columns) <= 2 else "plain stack"
        kinds = [table.kind, shape, "sortable" if table.sortable else ""]
        made = element(
            "table",
            element("thead", element("tr", *self._titles(table))),
            element("tbody", *(_row(number, table) for number in range(len(table.rows)))),
            class_=" ".join(kind for kind in kinds if kind),
        )
        framed = element("div", made, class_="scroll", tabindex=0 if wide else None)
        return element("div", element("h4", _line(table.title)), framed) if table.title else framed

    def _titles(self, table: Table) -> Iterator[Html]:
        hint = self.language.say("text.sort")
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
                _line(cell.text, number=numeric),
                scope=None if place else "row",
                class_=kind,
                data_label=table.columns[place] or None,
                data_v=repr(cell.sort) if cell.sort is not None else None,
            )
        )
    return element("tr", *made, class_="skipped" if number in table.muted else None)


def _facts(block: Facts) -> Html:
    body = [
        element("tr", element("th", name, scope="row"), element("td", _line(value)))
        for name, value in block.rows
    ]
    return element("div", element("table", element("tbody", *body), class_="facts"), class_="scroll")


def _single(block: Heading | Paragraph | Bullets | Facts | Card | Link | Code) -> Html:
    """Make the markup of a block that needs nothing but itself."""
    match block:
        case Heading():
            return element(f"h{block.level}", _line(block.text), id=block.key or None)
        case Paragraph():
            return _paragraph(block)
        case Bullets():
            return element("ul", *(element("li", _line(item)) for item in block.items))
        case Facts():
            return _facts(block)
        case Card():
            return _card(block)
        case Link():
            return element("p", element("a", block.text, href=block.file))
        case Code():
            return element("pre", element("code", *_lines(block.text)), tabindex=0)


# -- the verdict ---------------------------------------------------------------------------------------


def _card(card: Card) -> Html:
    """Show a verdict in plain words, then its numbers."""
    tiles = [_tile(fact.tile) for fact in card.facts if fact.tile is not None]
    small = [
        element("div", element("dt", fact.name), element("dd", _line(fact.text)))
        for fact in card.facts
        if fact.tile is None
    ]
    return element(
        "div",
        element("p", card.headline, class_="headline"),
        element("p", _line(card.summary), class_="summary"),
        element("p", card.meaning, class_="meaning") if card.meaning else None,
        element("dl", *tiles, class_="keys") if tiles else None,
        element("dl", *small, class_="small-facts") if small else None,
        class_=f"card tone-{card.tone}",
    )


def _tile(tile: Tile) -> Html:
    rest = (" ", element("small", tile.rest)) if tile.rest else ()
    return element(
        "div",
        element("dt", tile.label),
        element("dd", powers(tile.value), *rest, class_="big"),
        element("dd", effect_bar(tile.bar)) if tile.bar is not None else None,
        element("dd", tile.note, class_="note"),
        class_="key",
    )


# -- lines ---------------------------------------------------------------------------------------------


def _paragraph(block: Paragraph) -> Html:
    look = {"strong": "answer", "note": "note", "lead": "lead"}.get(block.look)
    if isinstance(block.text, str):
        return joined(element("p", line, class_=look) for line in block.text.split("\n") if line)
    return element("p", _line(block.text), class_=look)


def _lines(text: str) -> Iterator[Html]:
    for number, line in enumerate(text.split("\n")):
        yield joined([Html("\n") if number else None, line])


def _line(text: Text, *, number: bool = False) -> Html:
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
        case Runs():
            return Html(", ".join(element("span", run, class_="run") for run in part.text.split(",")))
        case Chip():
            return element("span", part.text, class_=f"chip tone-{part.tone}")
        case Bar():
            return effect_bar(part)
