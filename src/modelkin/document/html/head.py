"""The head that all pages have: their style, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from .markup import Html, element


def asset(name: str) -> str:
    """Return a style sheet or script of the pages."""
    return resources.files("modelkin.document").joinpath("html", name).read_text(encoding="utf-8")


def page_head(*, title: str, version: str, with_images: bool) -> Html:
    """Write the head of a page."""
    style = asset("page.css")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(asset('page.js'))}'; "
        f"{'img-src data:; ' if with_images else ''}base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content=f"modelkin {version}"),
        element("title", title),
        element("style", Html(style)),
    )


def _digest(text: str) -> str:
    """Return a style's or script's digest, by which a policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
