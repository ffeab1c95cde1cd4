"""The head of all pages: their style, and a policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from modelkin.figures.theme import DARK, LIGHT, SERIES, Theme

from .markup import Html, element
from .pictures import drawing_rules
from .site import PageSite


def asset(name: str) -> str:
    """Return a style sheet or script of the pages."""
    return resources.files("modelkin.document").joinpath("html", name).read_text(encoding="utf-8")


_PALETTE = "/* palette */"


def style() -> str:
    """Return the style sheet of all pages."""
    return asset("page.css").replace(_PALETTE, palette() + drawing_rules(), 1)


def site_assets() -> dict[str, str]:
    """Return the files that the pages of a site share, by their names."""
    return {
        "page.css": style() + asset("site.css"),
        **{name: asset(name) for name in ("page.js", "map.js", "scan.js")},
    }


def palette() -> str:
    """Return the colours as variables: those of the reader's system theme, or those the reader chose."""
    light, dark = (f"color-scheme: {theme.name}; {_variables(theme)}" for theme in (LIGHT, DARK))
    return (
        f":root {{ {light} }}\n"
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f':root[data-theme="dark"] {{ {dark} }}\n'
        f"@media print {{ :root:root {{ {light} --paper: #fff; }} }}\n"
    )


def _variables(theme: Theme) -> str:
    colours = {
        "paper": theme.paper,
        "surface": theme.background,
        "ink": theme.ink,
        "muted": theme.tones["muted"],
        "line": theme.grid,
        "soft": theme.soft,
        "link": theme.link,
        **theme.conclusions,
        "pos": theme.signed[-1],
        "neg": theme.signed[0],
        "untested": theme.missing,
        **{f"s{place}": theme.tones[name] for place, name in enumerate(SERIES)},
    }
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def page_policy(*, with_images: bool = False) -> str:
    """Return what a page in one file may do: its own style and script, by their digests, and nothing else."""
    return (
        f"default-src 'none'; style-src '{_digest(style())}'; script-src '{_digest(asset('page.js'))}'; "
        f"{'img-src data:; ' if with_images else ''}base-uri 'none'; form-action 'none'"
    )


def page_head(*, title: str, version: str, with_images: bool, site: PageSite | None = None) -> Html:
    """Write the head of a page: with its style inline, or with a link to its site's."""
    policy = page_policy(with_images=with_images) if site is None else site.policy()
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="generator", content=f"modelkin {version}"),
        element("title", title),
        element("style", Html(style()))
        if site is None
        else element("link", rel="stylesheet", href=f"{site.up}assets/page.css"),
    )


def _digest(text: str) -> str:
    """Return a style's or script's digest, by which a policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
