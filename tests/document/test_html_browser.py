"""The page in a real browser: nothing runs but our script, and everything can be read and reached."""

import base64
import re

import pytest
from tests.document.browser import PATH, Page, browser
from tests.document.records import EVIL, hostile, with_maps
from tests.places import ROOT

from modelkin.document import load_language, report_html

pytestmark = pytest.mark.skipif(PATH is None, reason="no chromium is installed")
VISIBLE = (
    "[...document.querySelectorAll('.panel')].filter(it => it.offsetParent).map(it => it.dataset.measure)"
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture
def shown(chromium, tmp_path):
    """Write a page and open it."""
    opened: list[Page] = []

    def show(result, language="en", **options):
        path = tmp_path / f"{len(opened)}.html"
        path.write_text(report_html(result, load_language(language)), encoding="utf-8")
        opened.append(chromium.open(path, **options))
        return opened[-1]

    yield show
    for page in opened:
        page.close()


def readouts(page):
    return page.run("[...document.querySelectorAll('.readout')].map(item => item.textContent)")


def choose(page, name, value):
    page.run(
        f"(() => {{ const it = document.querySelector('select[name={name}]'); it.value = '{value}';"
        "it.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_page_asks_for_nothing_and_breaks_nothing(shown, comparison, language):
    page = shown(with_maps(comparison), language)
    assert page.run("document.documentElement.className") == "js"
    assert page.run("getComputedStyle(document.querySelector('.card')).borderLeftWidth") == "6px"
    assert [url.partition(":")[0] for url in page.requests()] == ["file"]
    assert page.complaints() == []


@pytest.mark.parametrize("language", ["en", "ko"])
def test_hostile_names_run_nothing(shown, compared, language):
    page = shown(with_maps(hostile(compared("shared")), text=EVIL), language)
    assert page.run("document.documentElement.className") == "js"
    assert page.run("window.ran === undefined")
    assert page.run("document.querySelectorAll('img, iframe, object, embed, link, script[src]').length") == 0
    assert page.run("document.querySelectorAll('script').length") == 2
    assert page.run("getComputedStyle(document.body).display") != "none"
    assert page.run("document.querySelector('main').textContent").count("window.ran = 1") > 50
    assert page.complaints() == []
    # Names go through the script as well: what it writes is text.
    page.point_at(".panel .cell[data-note]")
    page.point_at(".grid-probe")
    assert page.run("window.ran === undefined")


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_picture_is_on_the_first_screen(shown, comparison, width, height):
    page = shown(comparison, width=width, height=height)
    box = page.run(
        "(({bottom, left, right}) => [bottom, left, right])"
        "(document.querySelector('.stacks-drawing').getBoundingClientRect())"
    )
    assert box[0] <= height
    assert box[1] >= 0
    assert box[2] <= width
    smallest = page.run(
        "Math.min(...[...document.querySelectorAll('.stacks-drawing text')].map(it =>"
        "it.getBoundingClientRect().height))"
    )
    assert smallest >= 11, "words in the picture are too small to be read"


def test_a_link_opens_a_closed_section(shown, compared):
    page = shown(compared("shared"))
    opened = "[...document.querySelectorAll('details.part')].filter(it => it.open).map(it => it.id)"
    assert page.run(opened) == []
    page.run("document.querySelector('nav a[href=\"#evidence\"]').click()")
    page.run("new Promise(done => setTimeout(done, 50))")
    assert page.run(opened) == ["evidence"]


def test_the_policy_stops_what_an_escape_would_have_missed(shown, compared, chromium, tmp_path):
    text = report_html(compared("shared")).replace("<h1>", "<script>window.ran = 5</script><h1>", 1)
    text = text.replace("<main>", "<main onclick='window.ran = 6' style='display: none'>", 1)
    path = tmp_path / "broken.html"
    path.write_text(text, encoding="utf-8")
    page = chromium.open(path)
    page.run("document.querySelector('main').click()")
    assert page.run("window.ran === undefined")
    assert page.run("getComputedStyle(document.querySelector('main')).display") == "block"
    assert sum("Content Security Policy" in text for text in page.complaints()) >= 2
    page.close()


def test_pointing_at_a_mark_says_its_numbers(shown, compared):
    result = compared("shared")
    page = shown(result)
    hint = load_language("en").say("text.hint")
    assert set(readouts(page)) == {hint}
    page.point_at(".curves circle")
    note = readouts(page)[1]
    assert re.match(r"\w+, layer \d+: effect [\d.]+ \[[\d.]+, [\d.]+\], z [\d.]+, p at most 10⁻", note)
    page.point_at(".layer-map .cell.shared")
    assert re.fullmatch(r"\w+, layer \d+: shared", readouts(page)[0])


def test_arrow_keys_say_the_numbers_as_well(shown, compared):
    page = shown(with_maps(compared("shared")))
    page.run("document.querySelector('.layer-map').focus()")
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.press(key)
        seen.append(readouts(page)[0])
    assert len(set(seen)) == 3
    assert "layer 0" in seen[0]
    assert "layer 1" in seen[1]
    page.run("document.querySelector('.grid-probe').focus()")
    page.press("ArrowDown")
    assert readouts(page)[2] == "candidate layer 0, base layer 0: z 50.25 (paired)"
    page.press("ArrowRight")
    assert readouts(page)[2] == "candidate layer 0, base layer 1: z 0.25"
    for _ in range(10):
        page.press("ArrowRight")
    assert readouts(page)[2] == "candidate layer 0, base layer 8: not tested"


def test_pointing_at_a_heat_map_finds_the_cell(shown, compared):
    page = shown(with_maps(compared("shared"), n_candidate=9, n_base=9))
    page.run("document.querySelector('.grid-probe .pairing').scrollIntoView({block: 'center'})")
    page.point_at(".grid-probe g")
    assert readouts(page)[2] == "candidate layer 4, base layer 4: z 50.25 (paired)"


def test_measure_and_role_can_be_chosen(shown, compared):
    page = shown(compared("shared"))
    assert page.run(VISIBLE) == ["shared", "effect"]
    choose(page, "measure", "z")
    assert page.run(VISIBLE) == ["z", "z"]
    choose(page, "measure", "matched")
    assert page.run(VISIBLE) == ["matched", "effect"]
    roles = page.run("[...document.querySelectorAll('select[name=role] option')].map(item => item.value)")
    assert "mlp_up" in roles
    choose(page, "measure", "shared")
    choose(page, "role", "mlp_up")
    assert page.run(VISIBLE) == ["effect", "effect"]
    bright = (
        "[...document.querySelectorAll('.curves g[data-series]:not(.dim)')].map(item => item.dataset.series)"
    )
    assert set(page.run(bright)) == {"mlp_up"}


def test_evidence_sorts_by_its_numbers_with_skipped_ones_last(shown, compared):
    page = shown(compared("no-evidence"))
    rows = "[...document.querySelectorAll('.evidence tbody tr')]"
    column = f"{rows}.map(row => row.cells[6].dataset.v)"
    click = "document.querySelectorAll('.evidence thead button')[6].click()"
    for order in ("ascending", "descending"):
        page.run(click)
        cells = page.run(column)
        numbers = [float(cell) for cell in cells if cell is not None]
        assert numbers == sorted(numbers, reverse=order == "descending")
        assert len(numbers) > 5
        assert cells[: len(numbers)] == [cell for cell in cells if cell is not None]
        assert page.run("document.querySelectorAll('.evidence th')[6].getAttribute('aria-sort')") == order


def test_the_page_follows_the_readers_light_and_can_be_switched(shown, compared):
    page = shown(compared("shared"))
    paper = "getComputedStyle(document.body).backgroundColor"
    page.media(scheme="light")
    light = page.run(paper)
    page.media(scheme="dark")
    dark = page.run(paper)
    assert light != dark
    page.run("document.getElementById('theme').click()")
    assert page.run(paper) == light
    page.media(scheme="light")
    page.run("document.getElementById('theme').click()")
    assert page.run(paper) == dark
    page.media(kind="print", scheme="dark")
    assert page.run(paper) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("width", [360, 768, 1440])
def test_nothing_sticks_out_sideways(shown, compared, language, width):
    page = shown(
        with_maps(hostile(compared("shared"), "averyveryverylong-name/" * 12)), language, width=width
    )
    page.run("document.querySelectorAll('details').forEach(item => { item.open = true; })")
    assert page.run("document.documentElement.scrollWidth") == width
    sizes = (
        "[...document.querySelectorAll('p, li, td, dd')].map(it => parseFloat(getComputedStyle(it).fontSize))"
    )
    assert min(page.run(sizes)) > 11


def test_without_scripts_everything_is_still_there(shown, compared):
    page = shown(with_maps(compared("shared")), scripts=False)
    assert page.run("document.documentElement.className") == ""
    assert page.run(VISIBLE) == ["shared", "effect"]
    assert page.run("document.querySelectorAll('.tools, .readout, #theme')[0].offsetParent") is None
    assert page.run("document.querySelector('.curves circle title').textContent").startswith("mlp_")
    assert page.run("document.querySelector('.grid-probe').getBoundingClientRect().width") > 100


def test_light_and_dark_keep_their_contrast(shown, compared):
    page = shown(compared("controlled"))
    measured = """(() => {
      const light = (text) => { const parts = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map((c) => {
        c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]; };
      const behind = (item) => { for (; item; item = item.parentElement) {
        const colour = getComputedStyle(item).backgroundColor;
        if (!/, 0\\)$/.test(colour)) return colour; } };
      const texts = [...document.querySelectorAll('p, li, td, th, dt, dd, .chip, a, summary')];
      return Math.min(...texts.map((item) => {
        const [a, b] = [light(getComputedStyle(item).color), light(behind(item))].sort((x, y) => x - y);
        return (b + 0.05) / (a + 0.05); })); })()"""
    for scheme in ("light", "dark"):
        page.media(scheme=scheme)
        assert page.run(measured) >= 4.5, scheme


def test_the_page_prints(shown, compared):
    page = shown(with_maps(compared("shared")))
    page.media(kind="print")
    assert page.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    document = base64.b64decode(page.ask("Page.printToPDF", printBackground=True)["data"])
    assert document.startswith(b"%PDF-")
    pages = len(re.findall(rb"/Type\s*/Page\b", document))
    assert 3 <= pages <= 14


def test_the_shipped_assets_have_unix_lines():
    folder = ROOT / "src/modelkin/document/html"
    for name in ("page.css", "page.js"):
        assert b"\r" not in (folder / name).read_bytes()
