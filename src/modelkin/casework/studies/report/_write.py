"""The blocks of a report as Markdown, and as one page that loads nothing."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Iterable
from importlib import resources

from modelkin.casework.studies.bench import Bench
from modelkin.casework.studies.result import StudyResult
from modelkin.document._markdown import _list, _table, _text
from modelkin.document.html._head import asset, digest_of, page_head
from modelkin.document.html.markup import Html, element, joined

from ._blocks import Block, Bullets, Grid, Heading, Link, Paragraph, Picture, Teller

_TYPES = {"png": "image/png", "gif": "image/gif"}


def report_text(bench: Bench, result: StudyResult) -> str:
    """Write ``REPORT.md``."""
    return _markdown(Teller(bench, result).blocks(), "REPORT.md")


def results_text(bench: Bench, result: StudyResult) -> str:
    """Write the results of the experiments alone."""
    return _markdown(Teller(bench, result).results(), bench.study.results or "RESULTS.md")


def report_page(bench: Bench, result: StudyResult) -> str:
    """Write the page: everything is in the file, pictures too, and its policy lets nothing else in."""
    blocks = list(Teller(bench, result).blocks())
    style = _style()
    sources = f"default-src 'none'; style-src '{digest_of(style)}'; img-src data:"
    policy = f"{sources}; base-uri 'none'; form-action 'none'"
    head = page_head(
        title=bench.study.title[result.language],
        style=style,
        policy=policy,
        version=result.versions["modelkin"],
    )
    main = element("main", *(_html(bench, block) for block in blocks))
    top = element("header", element("span", "modelkin", class_="brand"), class_="top")
    body = element("body", top, main)
    return f"<!DOCTYPE html>\n{element('html', head, body, lang=result.language, dir='ltr')}\n"


def _style() -> str:
    own = (
        resources.files("modelkin.casework.studies")
        .joinpath("report", "study.css")
        .read_text(encoding="utf-8")
    )
    return asset("page.css") + own


# -- Markdown ------------------------------------------------------------------------------------------


def _markdown(blocks: Iterable[Block], file: str) -> str:
    up = "../" * file.count("/")
    return "\n\n".join(text for block in blocks if (text := _block(block, up))) + "\n"


def _block(block: Block, up: str) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {_text(text)}"
        case Paragraph(text, strong):
            lines = "\n".join(_text(line) for line in text.split("\n"))
            return f"**{lines}**" if strong else lines
        case Bullets(items):
            return _list(items)
        case Grid(title, columns, rows):
            table = _table([_text(name) for name in columns], [[_text(cell) for cell in row] for row in rows])
            return f"**{_text(title)}**\n\n{table}" if title else table
        case Picture(file, alt, caption):
            picture = f"![{_text(alt)}]({posixpath.join(up, file)})"
            return f"{picture}\n\n{_text(caption)}" if caption else picture
        case Link(file, text):
            return f"[{_text(text)}]({posixpath.join(up, file)})"


# -- HTML ----------------------------------------------------------------------------------------------


def _html(bench: Bench, block: Block) -> Html:
    match block:
        case Heading(level, text):
            return element(f"h{level}", text)
        case Paragraph(text, strong):
            parts = [
                element("p", line, class_="answer" if strong else None) for line in text.split("\n") if line
            ]
            return joined(parts)
        case Bullets(items):
            return element("ul", *(element("li", item) for item in items))
        case Grid(title, columns, rows):
            head = element("thead", element("tr", *(element("th", name, scope="col") for name in columns)))
            body = element("tbody", *(element("tr", *(element("td", cell) for cell in row)) for row in rows))
            caption = element("caption", title) if title else None
            return element("div", element("table", caption, head, body), class_="wide")
        case Picture(file, alt, caption):
            data = base64.b64encode((bench.folder.root / file).read_bytes()).decode()
            source = f"data:{_TYPES[file.rpartition('.')[2]]};base64,{data}"
            words = element("figcaption", caption) if caption else None
            return element("figure", element("img", src=source, alt=alt), words)
        case Link(file, text):
            return element("p", element("a", text, href=file))
