"""The page about measures runs, and names all of them."""

import doctest
import importlib
import pkgutil

from tests.places import DOCS

from modelkin.describe import matrix, measures
from modelkin.describe.matrix import BASELINES
from modelkin.describe.measures import MEASURES, PAIRINGS

PAGE = DOCS / "measures.md"


def test_the_page_runs():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 15
    assert result.failed == 0


def test_the_page_names_every_measure_baseline_and_pairing():
    text = PAGE.read_text()
    for name in (*MEASURES, *BASELINES, *PAIRINGS):
        assert f"`{name}`" in text, name


def test_examples_in_docstrings_run():
    names = [
        name
        for package in (matrix, measures)
        for _, name, _ in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]
    results = [doctest.testmod(importlib.import_module(name)) for name in names]
    assert sum(result.attempted for result in results) > 10
    assert sum(result.failed for result in results) == 0
