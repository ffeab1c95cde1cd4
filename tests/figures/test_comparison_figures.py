import contextlib

import pytest
from tests.casework.catalogue.examples import CONTROLS, TESTS, Effect, evidence_forest, made_up_map

from modelkin import compare
from modelkin.comparison.alignment import LayerMap
from modelkin.comparison.methods import Agreement, Tested
from modelkin.demo import demo_zoo
from modelkin.errors import UsageError
from modelkin.figures import HeatMap, ReferenceLine, figure_from_json
from modelkin.figures import comparison as c
from modelkin.figures.comparison import p_words
from modelkin.figures.marks import Intervals, TableMark
from modelkin.message import say

NAMES = ("org/candidate", "org/base")


def only(figure, kind):
    return next(mark for panel in figure.panels for mark in panel.marks if isinstance(mark, kind))


def test_a_real_comparison_fits():
    with demo_zoo() as folder, contextlib.chdir(folder):
        result = compare(candidate="./twin-1", base="./base")
    figures = c.comparison_figures(result)
    assert {"evidence", "components", "controls", "z_histogram"} <= figures.keys()
    assert len(only(figures["components"], TableMark).rows) == len(result.verdict.components)
    whole = c.evidence_forest(result.evidence, names=NAMES, most=10_000)
    tested = sorted(test.effect.value for test in result.evidence if isinstance(test, Tested))
    assert tested
    assert sorted(value for value in only(whole, Intervals).values if value is not None) == tested
    for figure in figures.values():
        assert figure_from_json(figure.to_json()) == figure


def test_a_layer_map_marks_the_path_by_layer_numbers():
    found = LayerMap(
        component="mlp",
        method="mlp-units",
        frame="identity",
        candidate_layers=(4, 5),
        base_layers=(7, 8, 9),
        scores=((1.0, 6.0, None), (0.0, -1.0, 9.0)),
        path=((4, 8), (5, 9)),
        threshold=5.0,
    )
    figure = c.layer_map(found, names=NAMES)
    heat = only(figure, HeatMap)
    assert heat.path == ((0, 1), (1, 2))
    assert (heat.rows, heat.columns) == (("4", "5"), ("7", "8", "9"))
    assert (heat.scale.low, heat.scale.chance, heat.scale.high) == (-9.0, 0.0, 9.0)
    assert figure.note == "2 of 5 cells reach z = 5.00, the threshold for one cell."


def test_a_layer_map_finds_the_layers_that_were_taken_out():
    heat = only(c.layer_map(made_up_map(), names=NAMES), HeatMap)
    assert heat.path[11:13] == ((11, 11), (12, 20))


def test_the_forest_has_chance_limits_and_reasons():
    figure = evidence_forest()
    mark = only(figure, Intervals)
    assert only(figure, ReferenceLine).value == 0
    assert mark.labels[0] == "embedding"
    assert mark.values[-1] is None
    assert mark.reasons[-1] == "the candidate is dense, it has no router"
    assert dict(zip(mark.labels, mark.strong, strict=True)) == {
        "embedding": True,
        "mlp, layer 3": True,
        "mlp, layer 17": True,
        "norms, layers 0-31": True,
        "attention, layer 3": False,
        "router, layer 4": False,
    }


def test_no_test_is_left_out_of_the_forest():
    figure = c.evidence_forest(TESTS, names=NAMES, most=2, rule_log10_p=-9.0, floor=0.1)
    mark = only(figure, Intervals)
    assert "6 tests in 5 rows" in figure.note
    assert {label.split(",")[0].split(":")[0].split()[0] for label in mark.labels} == {
        test.component for test in TESTS
    }
    both = mark.labels.index(next(label for label in mark.labels if "2 tests, 2 layers" in label))
    single = [test.effect for test in TESTS if isinstance(test, Tested) and test.component == "mlp"]
    assert mark.low[both] == min(effect.low for effect in single)
    assert mark.high[both] == max(effect.high for effect in single)
    # One that failed and one that could not be made keep their rows.
    assert [mark.strong[mark.labels.index(label)] for label in mark.labels if "attention" in label] == [False]
    assert mark.reasons[-1] == "the candidate is dense, it has no router"


def test_a_forest_needs_a_test():
    with pytest.raises(UsageError, match="at least one test"):
        c.evidence_forest((), names=NAMES)


def test_a_test_without_p_value_does_not_meet_the_rule():
    effect = Effect(0.9, 0.8, 1.0)
    test = Agreement(
        method="m",
        version="1",
        component="mlp",
        axis="mlp",
        null=say("null-rank"),
        statistic=0.9,
        effect=effect,
        n=512,
    )
    mark = only(c.evidence_forest([test], names=NAMES, rule_log10_p=-9.0), Intervals)
    assert mark.strong == (False,)


def test_a_control_that_cannot_be_used_has_no_effect_but_a_reason():
    figure = c.control_strip(NAMES, Effect(0.9, 0.8, 1.0), -30.0, CONTROLS)
    mark = only(figure, Intervals)
    assert mark.values == (0.9, 0.004, -0.01, None)
    assert mark.reasons[-1] == "its hidden size is 2048, not 4096"
    assert figure.note == "2 of 3 controls could be used."


def test_no_controls_are_said_to_be_none():
    assert c.control_strip(NAMES, None, None, ()).note == "No controls were given."


@pytest.mark.parametrize(
    ("log10_p", "text"),
    [
        (None, ""),
        (0.0, "p ≤ 1.00"),
        (-0.4, "p ≤ 0.40"),
        (-1.31, "p ≤ 0.05"),
        (-2.9, "p ≤ 1e-2"),
        (-12.7, "p ≤ 1e-12"),
    ],
)
def test_p_values_never_look_smaller_than_they_are(log10_p, text):
    assert p_words(log10_p) == text
