"""Blocks as one page that loads nothing and trusts no name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from modelkin.document.blocks import (
    Block,
    Bullets,
    Card,
    Code,
    Facts,
    FamilyMap,
    ForestPicture,
    Heading,
    HeatMaps,
    LayerFigures,
    Link,
    PageOnly,
    Paragraph,
    Picture,
    ScanForm,
    Section,
    Table,
    Text,
    Tile,
)
from modelkin.document.language import Language

from .bars import effect_bar
from .family_map import family_map
from .forest import forest_picture
from .head import asset, page_head
from .heat_maps import heat_maps
from .layers import layer_figures
from .markup import Html, element, joined, powers
from .pictures import picture_markup
from .scan_form import scan_form
from .site import PageSite
from .stacks import stacks_figure
from .tables import facts_markup, line, table_markup


def render_html(
    blocks: Iterable[Block],
    *,
    title: str,
    language: Language,
    version: str,
    images: Mapping[str, bytes] | None = None,
    footer: Sequence[Text] = (),
    site: PageSite | None = None,
) -> str:
    """Write a page.

    Everything is in the file: it loads nothing, and its policy forbids it to. Only the script whose digest is
    in the policy may run, so a name that smuggles in another runs nothing. `images` are the bytes of pictures
    by file, which are put into the page. A page of a `site` shares its style and scripts with others, and
    loads them from its own folder.
    """
    listed = list(blocks)
    writer = _HtmlWriter(language, images or {})
    made_by = language.say("atlas.made" if site else "text.made_by", version=version)
    links = [(key, text) for block in listed for key, text in _linked(block)]
    skip = language.say("text.skip" if links and links[0][0] == "verdict" else "text.skip_site")
    body = element(
        "body",
        element("a", skip, href=f"#{links[0][0]}", class_="skip") if links else None,
        element(
            "header",
            element("span", "modelkin", class_="brand"),
            _site_links(site) if site else None,
            element("button", language.say("text.theme"), type="button", id="theme", class_="quiet"),
            class_="top",
        ),
        _contents(links, language) if links else None,
        element("main", *(writer.made(block, 2) for block in listed)),
        element("footer", *(element("p", line(text)) for text in (*footer, made_by))),
        *_scripts(site),
        class_=None if links else "plain-page",
    )
    head = page_head(title=title, version=version, with_images=bool(images), site=site)
    return f"<!DOCTYPE html>\n{element('html', head, body, lang=language.code, dir='ltr')}\n"


def _scripts(site: PageSite | None) -> list[Html]:
    if site is None:
        return [element("script", Html(asset("page.js")))]
    return [
        element("script", src=f"{site.up}assets/{name}", defer=True) for name in ("page.js", *site.scripts)
    ]


def _site_links(site: PageSite) -> Html:
    return element(
        "p", *(element("a", text, href=site.up + file) for file, text in site.links), class_="site-links"
    )


def _linked(block: Block) -> Iterator[tuple[str, Text]]:
    match block:
        case Section() if block.key:
            yield block.key, block.title
        case Heading() if block.key:
            yield block.key, block.text
        case PageOnly():
            for inside in block.blocks:
                yield from _linked(inside)


def _contents(links: Iterable[tuple[str, Text]], language: Language) -> Html:
    items = [element("li", element("a", line(text), href=f"#{key}")) for key, text in links]
    return element("nav", element("ol", *items), aria_label=language.say("label.contents"))


class _HtmlWriter:
    def __init__(self, language: Language, images: Mapping[str, bytes]) -> None:
        self.language = language
        self.images = images
        self.drawn = 0

    def made(self, block: Block, level: int) -> Html:
        """Make the markup of a block; sections in it are of `level`."""
        match block:
            case Section():
                return self._section(block, level)
            case PageOnly():
                return joined(self.made(inside, level) for inside in block.blocks)
            case Table():
                return table_markup(block, self.language)
            case Picture():
                return self._picture(block)
            case LayerFigures():
                return layer_figures(block.result, self.language)
            case HeatMaps():
                return heat_maps(block.result, self.language)
            case ForestPicture():
                return forest_picture(block.result, self.language)
            case FamilyMap():
                return family_map(block.index, self.language)
            case ScanForm():
                return scan_form(block, self.language)
            case _:
                return _single(block)

    def _section(self, section: Section, level: int) -> Html:
        inside = [self.made(block, level + 1) for block in section.blocks]
        title = line(section.title)
        if section.closed:
            whole = level == 2
            summary = element("summary", element("h2", title) if whole else title)
            look = "print part" if whole else "print"
            return element("details", summary, *inside, class_=look, id=section.key or None)
        if level > 2:
            return joined([element(f"h{level}", title, id=section.key or None), *inside])
        return element("section", element("h2", title), *inside, id=section.key or None)

    def _picture(self, picture: Picture) -> Html:
        self.drawn += 1
        shown = picture_markup(picture.file, self.images[picture.file], alt=picture.alt, number=self.drawn)
        caption = element("figcaption", line(picture.caption)) if picture.caption else None
        return element(
            "figure", element("div", shown, class_="scroll", tabindex=0), caption, class_="picture-frame"
        )


def _single(block: Heading | Paragraph | Bullets | Facts | Card | Link | Code) -> Html:
    """Make the markup of a self-contained block."""
    match block:
        case Heading():
            return element(f"h{block.level}", line(block.text), id=block.key or None)
        case Paragraph():
            return _paragraph(block)
        case Bullets():
            return element("ul", *(element("li", line(item)) for item in block.items))
        case Facts():
            return facts_markup(block)
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
        element("div", element("dt", fact.name), element("dd", line(fact.text)))
        for fact in card.facts
        if fact.tile is None
    ]
    return element(
        "div",
        element("p", card.headline, class_="headline"),
        stacks_figure(card.drawing) if card.drawing else None,
        element("p", line(card.summary), class_="summary"),
        element("p", card.meaning, class_="meaning") if card.meaning else None,
        element("dl", *tiles, class_="keys") if tiles else None,
        element("dl", *small, class_="small-facts") if small else None,
        class_=f"card tone-{card.tone}{' drawn' if card.drawing else ''}",
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
        return joined(element("p", words, class_=look) for words in block.text.split("\n") if words)
    return element("p", line(block.text), class_=look)


def _lines(text: str) -> Iterator[Html]:
    for number, words in enumerate(text.split("\n")):
        yield joined([Html("\n") if number else None, words])
