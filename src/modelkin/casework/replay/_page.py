"""``replay.html``: the story as one page that loads nothing."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from itertools import chain

from modelkin._version import __version__
from modelkin.document.html._head import asset, digest_of
from modelkin.document.html.markup import Html, element, own_text

from ._document import Block, Heading, Paragraph, Picture, TableBlock, appendix, story, title_of
from ._record import Replay
from ._texts import load_texts


def replay_html(
    replay: Replay,
    language: str = "en",
    *,
    pictures: Mapping[str, tuple[Picture, ...]] | None = None,
    images: Mapping[str, bytes] | None = None,
) -> str:
    """Write the page; the PNG images of its pictures are put into it."""
    texts = load_texts(language)
    style = asset("page.css")
    policy = f"default-src 'none'; style-src '{digest_of(style)}'; img-src data:; base-uri 'none'"
    title = title_of(replay, texts)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Html(style)),
    )
    blocks = chain(story(replay, texts, pictures or {}), appendix(replay, texts))
    body = element(
        "body",
        element("header", element("span", "modelkin", class_="brand"), class_="top"),
        element("main", element("h1", title), *(_made(block, images or {}) for block in blocks)),
        element("footer", element("p", own_text(texts.say("text.made_by", {"version": __version__})))),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang=texts.code, dir='ltr')}\n"


def _made(block: Block, images: Mapping[str, bytes]) -> Html:
    if isinstance(block, Heading):
        return element("h2", block.text, id=block.key)
    if isinstance(block, Paragraph):
        return element("p", own_text(block.text))
    if isinstance(block, Picture):
        data = base64.b64encode(images[block.name]).decode()
        return element("figure", _image(f"data:image/png;base64,{data}", block.alt))
    return _table(block)


def _image(source: str, alt: str) -> Html:
    # `width` of the element, since the page allows no style of its own.
    return Html(str(element("img", src=source, alt=alt, width="100%")).removesuffix("</img>"))


def _table(block: TableBlock) -> Html:
    kinds = ["number" if numeric else None for numeric in block.numeric]
    head = [
        element("th", name, scope="col", class_=kind) for name, kind in zip(block.columns, kinds, strict=True)
    ]
    rows = [
        element("tr", *(element("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)))
        for row in block.rows
    ]
    made = element("table", element("thead", element("tr", *head)), element("tbody", *rows), class_="plain")
    titled = element("h4", block.title) if block.title else None
    return element("div", titled, element("div", made, class_="scroll"))
