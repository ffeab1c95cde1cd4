"""An atlas as a site: the same pages in a folder and from a server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, final

from modelkin.atlas import Atlas, AtlasIndex, pair_key

from .blocks import Block, Heading, Literally, Marked, Paragraph, ScanForm, table
from .folder import document_files, report_html, write_files
from .html import PageSite, page_policy, render_html, site_assets
from .language import load_language
from .results import to_json
from .views.atlas import (
    atlas_view,
    family_file,
    family_view,
    model_file,
    model_view,
    pair_file,
    pair_view,
    short_place,
)

_AT_ONCE = 200
"""Pages held in memory together while a folder is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePart:
    """One file of a site."""

    kind: Literal["html", "css", "js", "json"]
    text: str
    policy: str
    """What the page may load, as a server states it in a header."""


@final
class AtlasSite:
    """All pages of an atlas, each made on request."""

    def __init__(self, atlas: Atlas, *, language: str = "en", served: bool = False) -> None:
        self.index = AtlasIndex(atlas)
        self.language = load_language(language)
        self.served = served
        self._name = short_place(atlas)
        self._assets = site_assets()
        self._families = {family_file(at).rpartition("/")[2]: at for at in range(len(atlas.families))}

    def paths(self) -> Iterator[str]:
        """Yield every file, the first page first."""
        atlas = self.index.atlas
        yield "index.html"
        yield from (family_file(number) for number in range(len(atlas.families)))
        yield from (model_file(ref) for ref in atlas.models)
        for pair in atlas.pairs:
            yield pair_file(pair.first, pair.second)
            if pair.comparison is not None:
                yield f"pairs/{pair_key(pair.first, pair.second)}/report.html"
        yield from (f"assets/{name}" for name in self._assets)
        yield "atlas.json"

    def part(self, path: str) -> SitePart | None:
        """Return a file by its path; None if there is none. No path reaches beyond what is listed."""
        match path.split("/"):
            case ["index.html"]:
                return self.page(atlas_view(self.index, self.language, page=True), scripts=("map.js",))
            case ["atlas.json"]:
                return SitePart(kind="json", text=to_json(self.index.atlas) + "\n", policy=_NOTHING)
            case ["assets", name] if name in self._assets:
                kind: Literal["css", "js"] = "css" if name.endswith(".css") else "js"
                return SitePart(kind=kind, text=self._assets[name], policy=_NOTHING)
            case ["families", name]:
                return self._family(name)
            case ["models", name]:
                model = self.index.models.get(name.removesuffix(".html"))
                return None if model is None else self._deep(model_view(self.index, model.ref, self.language))
            case ["pairs", name]:
                pair = self.index.pairs.get(name.removesuffix(".html"))
                return None if pair is None else self._deep(pair_view(self.index, pair, self.language))
            case ["pairs", name, "report.html"]:
                return self._report(name)
            case _:
                return None

    def page(
        self, blocks: tuple[Block, ...], *, up: str = "", scripts: tuple[str, ...] = (), title: str = ""
    ) -> SitePart:
        """Make a page of the site."""
        links = [("index.html", "home")]
        if self.served:
            links += [("scan.html", "scan"), ("api.html", "api")]
        site = PageSite(
            up=up,
            links=tuple((file, self._said(key)) for file, key in links),
            scripts=scripts,
            served=self.served,
        )
        text = render_html(
            blocks,
            title=title or self._said("title", registry=self._name),
            language=self.language,
            version=self.index.atlas.modelkin,
            site=site,
        )
        return SitePart(kind="html", text=text, policy=site.policy())

    def scan_page(self, *, open_for: Literal["all", "token", "none"]) -> SitePart:
        """Return the page on which readers name a model and watch its scan."""
        blocks: tuple[Block, ...] = (Heading(self._said("scan-title"), 1),)
        if open_for == "none":
            return self.page((*blocks, Paragraph(self._said("scan-read-only"), "strong")))
        form = ScanForm(needs_token=open_for == "token")
        return self.page((*blocks, Paragraph(Marked(self._said("scan-lead"))), form), scripts=("scan.js",))

    def api_page(self, routes: Iterable[tuple[str, str, str, bool]]) -> SitePart:
        """Return the page about the interface: method, path, name, and whether it needs the token."""
        rows = [
            (
                Literally(path),
                method.upper(),
                self._said(f"route-{name}"),
                self._said("yes" if token else "no"),
            )
            for method, path, name, token in routes
        ]
        titles = [self._said(f"api-{key}") for key in ("path", "method", "what", "token")]
        return self.page(
            (
                Heading(self._said("api-title"), 1),
                Paragraph(self._said("api-lead")),
                table(titles, rows),
            )
        )

    def _family(self, name: str) -> SitePart | None:
        number = self._families.get(name)
        return None if number is None else self._deep(family_view(self.index, number, self.language))

    def _deep(self, blocks: tuple[Block, ...]) -> SitePart:
        return self.page(blocks, up="../")

    def _report(self, key: str) -> SitePart | None:
        pair = self.index.pairs.get(key)
        if pair is None or pair.comparison is None:
            return None
        return SitePart(kind="html", text=report_html(pair.comparison, self.language), policy=page_policy())

    def _said(self, key: str, **values: str) -> str:
        return self.language.say(f"atlas.{key}", **values)


_NOTHING = "default-src 'none'"


def write_atlas(atlas: Atlas, folder: str | os.PathLike[str], *, language: str = "en") -> int:
    """Write an atlas as a folder of pages, and its record; return how many files were written."""
    site, place = AtlasSite(atlas, language=language), Path(folder)
    paths = site.paths()
    count = 0
    while some := list(islice(paths, _AT_ONCE)):
        parts = {path: part.text for path in some if (part := site.part(path)) is not None}
        count += len(write_files(place, parts))
    for pair in atlas.pairs:
        if pair.comparison is not None:
            files = document_files(pair.comparison, language)
            files.pop("report.html")
            count += len(write_files(place / "pairs" / pair_key(pair.first, pair.second), files))
    return count
