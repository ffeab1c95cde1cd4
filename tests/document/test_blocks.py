"""Every block in every renderer: the same content, and no untrusted text takes effect."""

import io
import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from rich.console import Console
from tests.document.test_html import Parsed

from modelkin.document import load_language, render_html, render_markdown, render_terminal
from modelkin.document.blocks import (
    Bar,
    Bullets,
    Card,
    Cell,
    Chip,
    Code,
    Fact,
    Facts,
    Heading,
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
    Tile,
    table,
)

EVIL = "a|b <script>alert(1)</script> `x` *y* [z](http://e) \x1b[2J\u202e [red]r[/]"
BAR = Bar(value=0.5, low=0.4, high=0.6, start=-0.25, limit=0.1, label="half")


def document(text="words"):
    """Return one of each kind, with a text in every place."""
    return (
        Heading(text, 1),
        Paragraph(text),
        Paragraph((text, Strong(text), Literally(text), Named(f"{text} says", (text,))), "note"),
        Paragraph(text, "strong"),
        Paragraph(text, "lead"),
        Card(
            headline=text,
            tone="shared",
            summary=text,
            meaning=text,
            facts=(
                Fact(name=text, text=text),
                Fact(name=text, text=text, tile=Tile(label=text, value=text, note=text, bar=BAR)),
            ),
        ),
        Section(
            title=text,
            key="part",
            blocks=(
                Bullets((text, (text, text))),
                Section(title=text, closed=True, blocks=(Facts(rows=((text, text),), columns=(text, text)),)),
            ),
        ),
        Table(
            columns=(text, "", "number"),
            rows=((text, BAR, Cell(text="10^-7", sort=-7.0)), (Chip(text, "none"), "", text)),
            numeric=frozenset({2}),
            title=text,
            sortable=True,
            muted=frozenset({1}),
        ),
        Picture("figures/one.png", text, text),
        Link("other.html", text),
        Code(text),
        Facts(rows=((text, Marked("our *own* `code`")),)),
    )


def page(blocks):
    return render_html(
        blocks,
        title="t",
        language=load_language("en"),
        version="1",
        images={"figures/one.png": b"png"},
        footer=(Marked("`end`"),),
    )


def drawn(blocks, width=120):
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=False).print(render_terminal(blocks))
    return file.getvalue()


def test_a_text_of_anybody_is_no_markup():
    tokens = MarkdownIt("commonmark").enable("table").parse(render_markdown(document(EVIL)))
    kinds = {token.type for block in tokens for token in (block, *(block.children or []))}
    assert kinds.isdisjoint({"html_inline", "html_block"})
    links = [
        token.attrGet("href")
        for block in tokens
        for token in (block.children or [])
        if token.type == "link_open"
    ]
    assert links == ["other.html"]
    assert sum(token.type == "tr_open" for token in tokens) == 10
    parsed = Parsed(page(document(EVIL)))
    assert parsed.tags.count("script") == 1
    assert "alert(1)" not in parsed.scripts[0]
    text = drawn(document(EVIL))
    for written in (render_markdown(document(EVIL)), parsed.text, text):
        assert "\x1b" not in written
        assert "\u202e" not in written
    assert "[red]r[/]" in text


@pytest.mark.parametrize("write", [render_markdown, page, drawn])
def test_everything_is_said(write):
    text = write(document("Uvula"))
    # A picture says nothing on a terminal.
    assert text.count("Uvula") >= 24
    assert "10^-7" in text or "10⁻⁷" in text


def test_markdown_leaves_out_what_it_cannot_draw():
    assert "| words | number |\n| --- | --- |\n| words | 10^-7 |\n| words | words |" in render_markdown(
        document()
    )
    aligned = render_markdown([table(("a", "b"), [("x", "1")], numeric=(1,))], align=True)
    assert aligned == "| a | b |\n| --- | ---: |\n| x | 1 |\n"


def test_files_are_found_from_a_document_in_a_folder():
    text = render_markdown((Picture("figures/a.png", "alt"), Link("b.html", "more")), up="../")
    assert text == "![alt](../figures/a.png)\n\n[more](../b.html)\n"


def test_a_command_cannot_end_its_frame():
    tokens = MarkdownIt("commonmark").parse(render_markdown([Code("x\n```\n# y")]))
    assert [token.type for token in tokens] == ["fence"]


def test_a_page_embeds_pictures_and_allows_nothing_else():
    text = page(document())
    assert 'src="data:image/png;base64,cG5n"' in text
    assert "img-src data:" in text
    assert "img-src" not in render_html([], title="t", language=load_language("en"), version="1")
    assert '<nav aria-label="Contents"><ol><li><a href="#part">' in text
    assert "<em>own</em> <code>code</code>" in text


def test_what_only_a_page_has_room_for():
    blocks = (PageOnly(blocks=(Paragraph("rarely"),)), Paragraph(Runs("0-3,7")))
    assert "rarely" in page(blocks)
    assert '<span class="run">0-3</span>, <span class="run">7</span>' in page(blocks)
    assert render_markdown(blocks) == "0-3,7\n"
    assert drawn(blocks) == "0-3,7\n"


def test_only_a_page_has_buttons():
    fields = Section(title="Show all", closed=True, button=True, blocks=(Paragraph("field"),))
    blocks = [Section(title="Config", blocks=(fields,))]
    assert "Show all</bdi></summary>" in page(blocks)
    assert render_markdown(blocks) == "## Config\n\nfield\n"
    assert drawn(blocks) == "Config\nfield\n"
    named = replace(fields, title="Methods", button=False)
    assert render_markdown([named]) == "## Methods\n\nfield\n"


def test_a_terminal_marks_what_is_ours():
    assert "our own code" in drawn(document())
    assert "████····" in drawn(document())


@pytest.mark.parametrize("width", [30, 60, 70, 80, 120])
def test_only_an_identical_part_fills_its_bar_however_narrow_the_terminal(width):
    effects = {"attention": 0.95, "mlp": 1.0}
    rows = [
        (
            name,
            "shared weights",
            "0.95 (0.91 to 0.97)",
            replace(BAR, value=value),
            "10^-1234 *",
            "12",
            "0-3, 7",
        )
        for name, value in effects.items()
    ]
    titles = ("component", "verdict", "effect", "", "p at most", "tests", "layers")
    text = drawn([table(titles, rows, numeric=(2, 4, 5))], width)
    almost, whole = re.findall("[█·]+", text)
    assert almost == whole[1:] + "·"
    assert set(whole) == {"█"}
