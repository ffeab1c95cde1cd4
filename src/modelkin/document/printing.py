"""A report as pages of paper: a cover, the report, an annex; numbered, on A4."""

from __future__ import annotations

import base64
import hashlib
from html import escape

from modelkin.comparison import Comparison

from .html import render_html
from .language import load_language
from .views.case import annex, case_blocks, cover
from .views.comparison import comparison_view

_STYLE = """
@page { size: A4; margin: 20mm 18mm 22mm; @bottom-right { content: counter(page) " / " counter(pages);
  font: 9pt sans-serif; } @bottom-left { content: "%s"; font: 9pt sans-serif; } }
header.top, nav, footer, button, .skip { display: none !important; }
section#cover, *:has(> #cover) { break-after: page; }
section#annex, *:has(> #annex) { break-before: page; }
#annex td { overflow-wrap: anywhere; font-size: 7pt; }
body { background: #fff; }
"""


def print_html(result: Comparison, *, language: str = "en") -> str:
    """Write the page to print. Everything that is collapsed on screen is open."""
    texts = load_language(language)
    names = {"candidate": result.candidate.ref, "base": result.base.ref}
    page = render_html(
        (
            *cover(result, texts),
            *comparison_view(result, texts),
            *case_blocks(result, texts),
            annex(result, texts),
        ),
        title=texts.say("title.question", **names),
        language=texts,
        version=result.environment.modelkin,
    )
    number = "" if result.case is None else result.case.id
    style = _STYLE % "".join(letter if letter.isalnum() or letter in " ._-/" else " " for letter in number)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    quote = escape("'", quote=True)
    page = page.replace(f"style-src {quote}", f"style-src {quote}sha256-{digest}{quote} {quote}", 1)
    page = page.replace("<details", "<details open")
    return page.replace("</head>", f"<style>{style}</style></head>", 1)
