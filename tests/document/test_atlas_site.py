"""An atlas as pages: links lead somewhere, names do nothing, the record reads back."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import jsonschema
import pytest
from tests.atlas.made import drawn_atlas

from modelkin.atlas import Atlas, AtlasIndex, model_key
from modelkin.document import AtlasSite, atlas_view, load_language, render_markdown, to_json, write_atlas
from modelkin.document.results import schema
from modelkin.errors import FormatError
from modelkin.message import say

HOSTILE = (
    "<script>alert(1)</script>/x",
    '"><img src=x onerror=alert(1)>/y',
    "../../../../etc/passwd",
    "org/\u202egnp.exe",
    "</script><script>alert(2)</script>",
    "org/new\nline # heading | cell",
)


@pytest.fixture(scope="module")
def drawn():
    return drawn_atlas(12, family=6, names=HOSTILE)


class Page(HTMLParser):
    """Collects what a page would load or run."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.handlers, self.inline = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        said = dict(attrs)
        self.handlers += [name for name in said if name.startswith("on") or name == "style"]
        if tag == "a":
            self.links.append(said["href"])
        if tag in ("img", "iframe", "object", "style"):
            self.inline.append(tag)
        if tag == "script" and said.get("type") != "application/json":
            self.loaded.append(said["src"])
        if tag == "link":
            self.loaded.append(said["href"])


def text_of(site, path):
    part = site.part(path)
    assert part is not None
    return part.text


def test_every_link_and_file_is_there(drawn, tmp_path):
    count = write_atlas(drawn, tmp_path)
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(files) == count
    for path in tmp_path.rglob("*.html"):
        page = Page(path.read_text())
        for link in (*page.links, *page.loaded):
            if not link.startswith("#"):
                assert (path.parent / link).resolve().is_file(), (path, link)


def test_names_run_nothing_and_choose_no_path(drawn, tmp_path):
    write_atlas(drawn, tmp_path)
    for path in tmp_path.rglob("*.html"):
        text = path.read_text()
        page = Page(text)
        assert page.handlers == page.inline == []
        assert "\u202e" not in text
        assert re.fullmatch(r"[a-z]+(/[0-9a-f-]+)?\.html", path.relative_to(tmp_path).as_posix())
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
        assert policy is not None
        assert "default-src &#x27;none&#x27;" in policy[1]
        assert "unsafe" not in policy[1]


def test_the_data_of_the_map_cannot_end_its_script(drawn):
    text = text_of(AtlasSite(drawn), "index.html")
    (data,) = re.findall(r'<script type="application/json" id="map-data">(.*?)</script>', text, re.DOTALL)
    assert "<" not in data
    found = json.loads(data)
    assert len(found["names"]) == 12
    assert found["flags"].count(1) == 1
    assert found["keys"][0] == model_key(HOSTILE[0])


@pytest.mark.parametrize(
    "path",
    [
        "",
        "../atlas.json",
        "models/../atlas.json",
        "models/nothing.html",
        "families/9.html",
        "families/-1.html",
        "families/٣.html",
        "families/999999999999999999999.html",
        "families/0000000000001.html",
        "families/" + "0" * 5_000 + ".html",
        "families/0",
        "pairs/x/report.html",
        "assets/../page.css",
        "assets/head.py",
        "index.html/",
    ],
)
def test_a_path_that_is_not_listed_is_nothing(drawn, path):
    assert AtlasSite(drawn).part(path) is None


def test_an_empty_registry_says_how_it_is_filled(drawn):
    bare = dict.fromkeys(("families", "pairs", "edges", "merges", "claims", "unnamed", "licences"), ())
    page = text_of(AtlasSite(replace(drawn, models={}, **bare)), "index.html")
    assert "modelkin registry add" in page
    assert "family-map" not in page
    assert "No card is contradicted" not in page


def test_what_nobody_looked_at_is_not_called_clean(drawn):
    def first(atlas):
        return text_of(AtlasSite(atlas), "index.html")

    clean = replace(drawn, claims=(), unnamed=(), licences=())
    assert "No card is contradicted." in first(clean)
    assert "weights were examined, so no merge could be found" in first(clean)
    assert "only that can contradict a card" in first(replace(clean, claims_depth="standard"))
    unread = {
        ref: replace(model, declared=replace(model.declared, reason=say("atlas-no-cards")))
        for ref, model in clean.models.items()
    }
    assert first(replace(clean, models=unread)).count("No card was read") == 3
    some = {**clean.models, HOSTILE[0]: unread[HOSTILE[0]]}
    assert "The cards of 1 of 12 models were not read" in first(replace(clean, models=some))


def test_the_record_follows_its_schema_and_reads_back_equal(drawn):
    text = to_json(drawn)
    jsonschema.validate(json.loads(text), schema("modelkin.atlas/1"))
    assert Atlas.from_json(text) == drawn
    with pytest.raises(FormatError, match="unknown keys"):
        Atlas.from_json(text.replace('"n_undated"', '"n_other"'))


def test_pages_are_told_in_both_languages(drawn):
    korean = text_of(AtlasSite(drawn, language="ko"), "index.html")
    assert '<html lang="ko"' in korean
    assert "가중치가 반박하는 카드" in korean
    assert "Cards that the weights contradict" not in korean


def test_a_document_holds_no_markup_of_a_name(drawn):
    text = render_markdown(atlas_view(AtlasIndex(drawn), load_language("en")))
    assert "\\<script\\>" in text
    assert "\n# heading" not in text


def test_a_search_finds_names_in_any_case(drawn):
    index = AtlasIndex(drawn)
    found, total = index.found("ORG-1", limit=3)
    assert (len(found), total) == (3, 6)
    assert index.found("nobody", limit=3) == ([], 0)
