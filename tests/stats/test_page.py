"""The page about statistics, and the surface of the layer."""

import doctest
import subprocess
import sys

from tests.places import DOCS

from modelkin import stats

PAGE = DOCS / "statistics.md"


def test_the_examples_of_the_page_run():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 8
    assert result.failed == 0


def test_every_public_function_is_on_the_page():
    text = PAGE.read_text()
    functions = {"axis_test", "AxisOptions", "joint_features", "cosine_decomposition", "detection_limit"}
    functions |= {"bonferroni", "log10_conformal", "log10_increasing_bound", "cross_z"}
    assert functions <= set(stats.__all__)
    for name in functions:
        assert name in text, name


def test_names_are_sorted_and_there():
    assert sorted(stats.__all__, key=lambda name: (not name.isupper(), name)) == stats.__all__
    assert all(hasattr(stats, name) for name in stats.__all__)


def test_the_layer_needs_numpy_and_nothing_else():
    heavy = ("scipy", "torch", "huggingface_hub", "rich", "click")
    code = f"import sys, modelkin.stats; print(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
