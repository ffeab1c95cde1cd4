"""A comparison in a Python session."""

from __future__ import annotations

import html
import re
import sys
from types import SimpleNamespace

import pytest

import modelkin as mk
from modelkin.errors import MissingExtra, UsageError


@pytest.fixture(scope="module")
def child():
    return mk.compare("demo:finetune-light", "demo:base", seed=0)


def test_models_go_by_position_and_depth_and_seed_without_options():
    result = mk.compare("demo:twin-1", "demo:base", depth="quick", seed=5, controls=["demo:continued"])
    about = result.environment
    assert (about.depth, about.seed, about.controls) == ("quick", 5, ("demo:continued",))
    options = mk.CompareOptions(depth="deep", seed=3)
    again = mk.compare("demo:twin-1", "demo:base", depth="quick", options=options)
    assert (again.environment.depth, again.environment.seed) == ("quick", 3)


def test_a_result_is_shown_in_three_lines(child):
    lines = repr(child).splitlines()
    assert lines[0] == "Comparison of demo:finetune-light with demo:base: shared"
    assert re.fullmatch(r"  p < 10\^-\d+, effect 0\.\d+ \[.*\], shared: .*mlp.*", lines[1])
    assert lines[2].startswith("  stage standard of depth standard, seed 0; ")
    assert len(lines) == 3


def test_a_result_without_a_number_says_so():
    result = mk.compare("demo:moe-base", "demo:base", depth="quick")
    assert "nothing could be tested" in repr(result) or "p = " in repr(result)
    assert len(repr(result).splitlines()) == 3


def test_notebooks_show_the_card_and_the_layers_in_a_frame_of_their_own(child):
    shown = child._repr_html_()
    assert re.fullmatch(r'<iframe srcdoc="[^"]*" sandbox="allow-scripts" [^<>]*></iframe>', shown)
    page = html.unescape(shown.split('"')[1])
    assert str(child.verdict.headline) in page
    assert "<svg" in page


class Columns(SimpleNamespace):
    """Stands for a library of tables, and keeps what it is given."""

    @staticmethod
    def DataFrame(columns):
        return columns

    table = DataFrame


@pytest.mark.parametrize(("name", "method"), [("pandas", "to_pandas"), ("pyarrow", "to_arrow")])
def test_evidence_becomes_a_table_of_plain_columns(child, monkeypatch, name, method):
    monkeypatch.setitem(sys.modules, name, Columns())
    columns = getattr(child, method)()
    assert {len(column) for column in columns.values()} == {len(child.evidence)}
    assert columns["method"] == [test.method for test in child.evidence]
    plain = (str, int, float, bool, list, type(None))
    assert all(isinstance(value, plain) for column in columns.values() for value in column)
    effects = [value for value in columns["effect"] if value is not None]
    assert max(effects) > 0.9


@pytest.mark.parametrize(("name", "method"), [("pandas", "to_pandas"), ("pyarrow", "to_arrow")])
def test_a_library_that_is_not_there_is_named(child, monkeypatch, name, method):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=name) as caught:
        getattr(child, method)()
    assert caught.value.hint == f"Install it with: pip install {name}"


def test_figures_are_drawn_by_name(child, tmp_path):
    made = child.plot("layers")
    assert "<svg" in made._repr_svg_()
    marks = made.figure.panels[0].marks
    assert {mark.name for mark in marks if hasattr(mark, "y")} >= {"mlp", "attention"}
    child.plot("components").save(str(tmp_path / "components.png"), dpi=40)
    assert (tmp_path / "components.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match=r"did you mean layers\?"):
        child.plot("layer")
    with pytest.raises(UsageError, match=r"ends in \.png or \.svg"):
        made.save(str(tmp_path / "x.jpg"))


def test_a_comparison_that_looked_at_no_layer_has_no_curve():
    result = mk.compare("demo:twin-1", "demo:base", depth="quick")
    with pytest.raises(UsageError, match="no single layer was tested"):
        result.plot("layers")
