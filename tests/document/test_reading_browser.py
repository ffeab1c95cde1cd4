"""Every kind of page, read in a real browser: nothing serious for axe-core, no word broken, no overflow."""

import pytest
from tests.document.browser import PATH, browser
from tests.document.reading import BROKEN_WORDS, OPEN_ALL, axe_script, serious_findings
from tests.document.records import with_maps
from tests.places import ZOO

import modelkin as mk
from modelkin.casework.replay import replay_solar_glm
from modelkin.casework.replay.figures import replay_figures
from modelkin.casework.replay.view import replay_html
from modelkin.casework.studies import run_study
from modelkin.casework.studies.files import parse_study
from modelkin.describe.measures import MEASURES
from modelkin.document import load_language, report_html, write_scan
from modelkin.figures import rendered
from modelkin.model import open_models
from modelkin.registry import create_registry

pytestmark = [
    pytest.mark.skipif(PATH is None, reason="no chromium is installed"),
    pytest.mark.skipif(axe_script() is None, reason="axe-core is not installed (tests/real/small.txt)"),
]
STUDY = """
format: 1
name: small
title: {en: "A small study", ko: "작은 연구"}
about: {en: "Two models of the zoo.", ko: "두 모델."}
models:
  one: {ref: ONE, name: one}
  two: {ref: TWO, name: two}
compare: {candidate: one, base: two}
experiments:
  - id: gains
    kind: vectors
    title: {en: "The vectors", ko: "벡터"}
    roles: [input-norm]
  - id: shuffle
    kind: shuffle
    title: {en: "Before and after shuffling", ko: "섞기 전과 후"}
    from: gains
    pair: [one, two]
    roles: [input-norm]
    draws: 10
figures:
  - {file: summary, figure: shuffle-summary, data: shuffle}
"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def study_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    text = STUDY.replace("ONE", str(ZOO / "gpt2-tuned")).replace("TWO", str(ZOO / "gpt2-base"))
    run_study(parse_study(text.encode()), folder)
    return folder / "report.html"


@pytest.fixture(scope="module")
def lineage_pages(tmp_path_factory):
    """Write the folders of the commands beside compare, on models of the package."""
    place = tmp_path_factory.mktemp("pages")
    child, parents = "demo:finetune-light", ("demo:base", "demo:continued")
    mk.diff(candidate=child, base="demo:base").write(str(place / "diff"))
    mk.explain_merge(child, parents).write(place / "merge")
    models = {name.partition(":")[2]: name for name in (child, *parents, "demo:twin-1")}
    mk.family_forest(models).write(place / "tree", language="ko")
    with open_models((child, *parents, "demo:twin-1")) as (asked, *others):
        kept, _ = create_registry(str(place / "registry")).add([mk.fingerprint_model(one) for one in others])
        found = mk.scan(mk.fingerprint_model(asked), kept, mk.ScanOptions(verify=1), model=asked)
    write_scan(found, place / "scan")
    both = {"base": "demo:base", "twin": "demo:twin-1"}
    mk.matrix(both, mk.MatrixOptions(measures=tuple(MEASURES))).write(place / "matrix")
    return {name: place / name / "report.html" for name in LINEAGE}


def replayed() -> str:
    figures = {name: figure for name, figure in replay_figures().items() if name == "layer_zero"}
    return replay_html(
        replay_solar_glm(),
        alts={name: figure.alt for name, figure in figures.items()},
        images={f"figures/{name}.svg": rendered(figure, "svg") for name, figure in figures.items()},
    )


@pytest.fixture
def page_of(request, compared, tmp_path):
    def path(kind):
        if kind == "study":
            return request.getfixturevalue("study_page")
        if kind in LINEAGE:
            return request.getfixturevalue("lineage_pages")[kind]
        made = {
            "report": lambda: report_html(with_maps(compared("shared-partial"))),
            "report-ko": lambda: report_html(compared("controlled"), load_language("ko")),
            "replay": replayed,
        }
        found = tmp_path / "page.html"
        found.write_text(made[kind](), encoding="utf-8")
        return found

    return path


LINEAGE = ("diff", "merge", "tree", "scan", "matrix")


@pytest.mark.parametrize("kind", ["report", "report-ko", "study", "replay", *LINEAGE])
@pytest.mark.timeout(600)
def test_a_page_can_be_read_by_everybody(chromium, page_of, kind):
    page = chromium.open(page_of(kind), width=390, height=844)
    assert page.run("document.getElementById('theme').offsetParent !== null")
    assert page.run("document.querySelectorAll('nav a').length") > 1
    first = "main .card" if kind != "matrix" else "main p"  # a matrix decides nothing
    assert page.run(f"document.querySelector('{first}').getBoundingClientRect().top") < 844
    page.run(OPEN_ALL)
    assert page.run("document.documentElement.scrollWidth") == 390
    assert page.run(BROKEN_WORDS) == []
    assert serious_findings(page) == []
    page.media(scheme="dark")
    page.resize(1280, 900)
    assert page.run(BROKEN_WORDS) == []
    assert serious_findings(page) == []
    assert page.complaints() == []
    page.close()


def test_a_drawing_takes_the_colours_of_the_page(chromium, page_of):
    page = chromium.open(page_of("replay"))
    colour = "getComputedStyle(document.querySelector('.drawing .f-paper')).fill"
    light = page.run(colour)
    page.run("document.getElementById('theme').click()")
    assert page.run(colour) != light
    assert page.run("document.querySelectorAll('.drawing [style]').length") == 0
    page.close()


def test_a_broken_word_is_noticed(chromium, tmp_path):
    path = tmp_path / "broken.html"
    path.write_text("<body><p style='width: 1em; overflow-wrap: anywhere'>letters</p></body>")
    page = chromium.open(path)
    assert page.run(BROKEN_WORDS) == ["letters"]
    page.close()
