"""The atlas in a real browser: by keyboard, on a phone, in the dark, with ten thousand models, and served."""

import socket
import threading
import time

import pytest
from tests.atlas.made import drawn_atlas
from tests.document.browser import PATH, browser
from tests.document.reading import BROKEN_WORDS, OPEN_ALL, axe_script, serious_findings
from tests.document.test_atlas_site import HOSTILE
from tests.registry.made import drawn

from modelkin.atlas import AtlasOptions, make_atlas, model_key
from modelkin.document import to_json, write_atlas
from modelkin.registry import create_registry, open_registry
from modelkin.serving.application import atlas_app

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(PATH is None, reason="no chromium is installed"),
    pytest.mark.skipif(axe_script() is None, reason="axe-core is not installed (tests/real/small.txt)"),
]
DRAWN = "Number(document.getElementById('family-map').dataset.drawn)"
CURRENT = "document.getElementById('family-map').dataset.current"
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Return a folder with an atlas whose names are hostile."""
    folder = tmp_path_factory.mktemp("small")
    write_atlas(drawn_atlas(14, family=7, names=HOSTILE), folder)
    return folder


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Return the first page of an atlas of ten thousand models; the other pages are not written."""
    from modelkin.document import AtlasSite

    folder = tmp_path_factory.mktemp("large")
    site = AtlasSite(drawn_atlas(10_000, family=137))
    for path in ("index.html", "assets/page.css", "assets/page.js", "assets/map.js"):
        part = site.part(path)
        assert part is not None
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(part.text, encoding="utf-8")
    return folder / "index.html"


def pages(folder):
    return {
        "index": folder / "index.html",
        "family": folder / "families" / "0.html",
        "model": folder / "models" / f"{model_key(HOSTILE[1])}.html",
        "pair": next((folder / "pairs").glob("*.html")),
    }


@pytest.mark.parametrize("kind", ["index", "family", "model", "pair"])
def test_a_page_can_be_read_by_everybody(chromium, small, kind):
    page = chromium.open(pages(small)[kind], width=390, height=844)
    page.run(OPEN_ALL)
    page.run(FRAMES)
    assert page.run("document.documentElement.scrollWidth") == 390
    # axe-core asks for the style sheet once more, which the policy of the page forbids to a script.
    assert page.complaints() == []
    assert {url.partition(":")[0] for url in page.requests()} == {"file"}
    assert serious_findings(page) == []
    page.media(scheme="dark")
    page.resize(1280, 900)
    page.run(FRAMES)
    assert page.run(BROKEN_WORDS) == []
    assert serious_findings(page) == []
    page.close()


def test_without_scripts_the_tables_say_the_same(chromium, small):
    page = chromium.open(pages(small)["index"], scripts=False)
    assert page.run("getComputedStyle(document.querySelector('.without-script')).display") == "block"
    assert page.run("getComputedStyle(document.getElementById('family-map')).display") == "none"
    assert page.run("document.querySelectorAll('#families a').length") == 2
    page.close()


def test_the_map_is_used_by_keyboard(chromium, small):
    page = chromium.open(pages(small)["index"])
    page.run("document.getElementById('family-map').focus()")
    page.press("ArrowRight")
    first = page.run(CURRENT)
    assert first
    assert page.run("document.querySelector('#map-says a').getAttribute('href')") == f"models/{first}.html"
    seen = {first}
    for key in ("ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft"):
        page.press(key)
        seen.add(page.run(CURRENT))
    assert len(seen) > 1
    before = page.run(DRAWN)
    page.press("+")
    page.run(FRAMES)
    assert page.run(DRAWN) > before
    page.follow("Enter")
    assert page.run("location.pathname").endswith(".html")
    assert "/models/" in page.run("location.pathname")
    page.close()


def test_a_search_narrows_with_every_letter(chromium, small):
    page = chromium.open(pages(small)["index"])
    typed = (
        "(() => { const box = document.getElementById('search'); box.value = %s;"
        "box.dispatchEvent(new Event('input')); return [...document.querySelectorAll('#found a')].length })()"
    )
    assert page.run(typed % "'ORG-1'") == 7
    assert page.run(typed % "'model-13'") == 1
    assert page.run(CURRENT) == model_key("org-1/model-13")
    assert page.run(typed % "'<script>'") == 2
    assert page.run(typed % "'nobody'") == 0
    assert "No model" in page.run("document.getElementById('search-state').textContent")
    assert page.run("document.querySelectorAll('#found script, #map-says script').length") == 0
    assert page.complaints() == []
    page.close()


def test_the_map_takes_the_colours_of_the_page(chromium, small):
    page = chromium.open(pages(small)["index"])
    page.run(FRAMES)
    look = "document.getElementById('family-map').toDataURL()"
    light = page.run(look)
    page.run("document.getElementById('theme').click()")
    page.run(FRAMES)
    assert page.run(look) != light
    page.close()


def test_ten_thousand_models_are_drawn_searched_and_walked(chromium, large):
    page = chromium.open(large, width=390, height=844)
    page.run(FRAMES)
    assert page.run("JSON.parse(document.getElementById('map-data').textContent).names.length") == 10_000
    assert page.run("document.documentElement.scrollWidth") == 390
    # Milliseconds, for whoever looks at them with `pytest -s`: nothing is asserted about time.
    timed = page.run(
        """(async () => {
          const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
          const canvas = document.getElementById('family-map'), box = document.getElementById('search');
          const key = (name) => canvas.dispatchEvent(new KeyboardEvent('keydown', {key: name}));
          const spent = {};
          const time = async (name, act) => {
            const start = performance.now();
            act();
            spent[name] = performance.now() - start;
            await frame();
            spent[name + ' with drawing'] = performance.now() - start;
          };
          await time('zoom', () => key('+'));
          await time('step', () => { key('ArrowRight'); key('ArrowRight'); });
          await time('all', () => key('Home'));
          await time('search', () => { box.value = 'model-99'; box.dispatchEvent(new Event('input')); });
          spent.load = performance.timing.loadEventEnd - performance.timing.navigationStart;
          spent.hits = document.querySelectorAll('#found a').length;
          return spent;
        })()"""
    )
    print(timed)
    assert timed["hits"] == 12
    assert page.run(CURRENT) == model_key("org-0/model-99")
    assert page.complaints() == []
    page.close()


# -- served --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Serve a small registry on this machine; return its address."""
    import uvicorn

    base = drawn("org/base", 1)
    made = [base, drawn("org/child", 2, parent=base, share=0.9), drawn("org/other", 3)]
    where = str(tmp_path_factory.mktemp("served") / "registry")
    registry, _ = create_registry(where).add(made)
    atlas = make_atlas(registry, AtlasOptions(cards=False, claims_depth=None, grow=0, reports=0))
    assert open_registry(where).n_rows == 3
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    config = uvicorn.Config(atlas_app(atlas, where), log_level="error", access_log=False, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [held]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{held.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)
    held.close()


class At:
    """An address that a browser opens like a path."""

    def __init__(self, address):
        self.address = address

    def as_uri(self):
        return self.address


@pytest.mark.parametrize("path", ["/", "/scan.html", "/api.html"])
def test_a_served_page_can_be_read_by_everybody(chromium, served, path):
    page = chromium.open(At(served + path), width=390, height=844)
    assert page.run("document.documentElement.scrollWidth") == 390
    assert serious_findings(page) == []
    page.media(scheme="dark")
    page.resize(1280, 900)
    assert serious_findings(page) == []
    assert page.complaints() == []
    assert all(url.startswith(served) for url in page.requests())
    page.close()


def test_a_scan_is_started_and_watched_in_the_browser(chromium, served):
    page = chromium.open(At(f"{served}/scan.html"))
    child = to_json(drawn("org/new", 9, parent=drawn("org/base", 1), share=0.9))
    page.run(
        "(() => { const files = new DataTransfer();"
        f"files.items.add(new File([{child!r}], 'child.json', {{type: 'application/json'}}));"
        "document.getElementById('file').files = files.files;"
        "document.getElementById('scan-form').requestSubmit(); })()"
    )
    state = page.run(
        "new Promise(done => { const look = () => {"
        "const state = document.getElementById('scan').dataset.state;"
        "if (state === 'done' || state === 'failed') done(state); else setTimeout(look, 50); }; look(); })"
    )
    assert state == "done", page.run("document.getElementById('scan-state').textContent")
    assert page.run("document.activeElement.id") == "scan-report"
    report = page.run("document.getElementById('scan-report').href")
    assert page.complaints() == []
    page.close()
    page = chromium.open(At(report))
    assert "org/base" in page.run("document.body.textContent")
    assert page.complaints() == []
    page.close()


def test_a_refused_scan_says_why(chromium, served):
    page = chromium.open(At(f"{served}/scan.html"))
    page.run(
        "(() => { document.getElementById('model').value = '/etc/passwd';"
        "document.getElementById('scan-form').requestSubmit(); })()"
    )
    said = page.run(
        "new Promise(done => { const look = () => {"
        "const said = document.getElementById('scan-state').textContent;"
        "said.includes('org/name') ? done(said) : setTimeout(look, 50); }; look(); })"
    )
    assert "org/name" in said
    page.close()
