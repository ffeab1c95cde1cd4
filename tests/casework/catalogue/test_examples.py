"""What holds for every figure: chance is shown, the words are there, JSON keeps it, it can be drawn."""

import io
import re

import pytest
from PIL import Image
from tests.places import DOCS

from modelkin.casework.studies.plots import VIEWED
from modelkin.figures import figure_from_json, rendered

from .examples import EXAMPLES, FUNCTIONS

figures = pytest.mark.parametrize("name", EXAMPLES)


@pytest.fixture(scope="module")
def made():
    return {name: make() for name, make in EXAMPLES.items()}


@figures
def test_every_panel_shows_chance_or_says_why_not(made, name):
    for panel in made[name].panels:
        assert panel.only_words or panel.shows_chance or len(panel.without_null) > 20


@figures
def test_json_out_and_back_is_the_same_figure(made, name):
    assert figure_from_json(made[name].to_json()) == made[name]


@figures
def test_alt_text_tells_title_and_panels(made, name):
    figure = made[name]
    assert figure.alt.startswith(figure.title)
    for panel in figure.panels:
        assert panel.title in figure.alt


@figures
def test_it_can_be_drawn(made, name):
    picture = Image.open(io.BytesIO(rendered(made[name], "png", dpi=30)))
    assert picture.width > 100
    assert len(set(picture.convert("L").tobytes())) > 5


def test_every_figure_has_an_example():
    used = " ".join(code for make in EXAMPLES.values() for code in make.__code__.co_names)
    assert {name for name in FUNCTIONS if name not in used} == {"centring_animation"}


def test_every_view_of_a_study_is_drawn_by_a_function_of_its_name():
    views = {view.replace("-", "_") for kind in VIEWED for view in kind.VIEWS}
    assert len(views) > 25
    assert views <= FUNCTIONS.keys()


def test_the_gallery_shows_every_example_and_names_every_function():
    docs = DOCS
    page = (docs / "figures.md").read_text()
    assert [name for name in EXAMPLES if f"](figures/{name}.png)" not in page] == []
    assert {name for name in FUNCTIONS if f"`{name}`" not in page} == set()
    drawn = {file.stem for file in (docs / "figures").iterdir()}
    assert drawn == set(re.findall(r"\]\(figures/([a-z_]+)\.(?:png|gif)\)", page))
