"""The head that all pages have: their style, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from .markup import Html, element


def asset(name: str) -> str:
    """Return a style sheet or script of the pages."""
    return resources.files("modelkin.document").joinpath("html", name).read_text(encoding="utf-8")


def digest_of(text: str) -> str:
    """Return a style's or script's digest, by which a policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page_head(*, title: str, style: str, policy: str, version: str) -> Html:
    """Write the head of a page."""
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
