"""The page about measures runs, and names all of them."""

import doctest

from tests.places import DOCS

import modelkin.describe.matrix._options as matrix_options
import modelkin.describe.matrix._run as run
import modelkin.describe.measures._pairs as pairs
import modelkin.describe.measures._stack as stack
import modelkin.describe.measures._table as table
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
    for module in (run, matrix_options, pairs, stack, table):
        result = doctest.testmod(module)
        assert result.attempted > 0
        assert result.failed == 0
