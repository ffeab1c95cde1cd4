"""The story: its numbers, its checks, its cases; and every sentence that depends on them is true."""

import json
import math

import numpy as np
import pytest

from modelkin.casework.replay import replay_solar_glm
from modelkin.casework.replay.cases import ASKED, conclusion, judged
from modelkin.casework.replay.facts import WIDTH, load_facts
from modelkin.casework.replay.matrices import full_z, router_z
from modelkin.casework.replay.record import Check
from modelkin.casework.replay.steps import one_number, step_size
from modelkin.casework.replay.together import JointMean
from modelkin.comparison.verdict import Conclusion

FACTS = load_facts()


@pytest.fixture(scope="module")
def story():
    return replay_solar_glm()


def test_every_published_number_comes_out_the_same(story):
    assert [check for check in story.checks if not check.agrees] == []
    assert {check.key for check in story.checks} == FACTS.claims.keys()


def test_a_check_can_fail():
    check = Check(key="x", computed=1.0, published=1.1, tolerance=0.05, source="O", kind="printed")
    assert not check.agrees


def test_the_printed_numbers_are_checked_to_their_digits(story):
    for check in story.checks_of("printed"):
        assert check.tolerance <= 1.1e-2 * max(abs(check.published), 0.05), check


def test_the_claim_is_recomputed_and_the_means_alone_explain_it(story):
    values = story.chapter("sigma").values
    assert values["sigmas"] == pytest.approx(181.95, abs=0.01)
    assert values["explained"] > values["sigmas"]
    assert values["best_p"] == pytest.approx(1 / 70)
    assert values["within_mean"] > values["across_mean"]
    assert values["random_sigmas"] < 0


def test_the_cosine_is_below_its_own_expectation(story):
    values = story.chapter("expectation").values
    assert values["cosine"] < values["expected"]
    assert values["below"] == pytest.approx(0.000454, abs=1e-6)
    assert values["one"] < values["one_mismatched"]
    assert story.chapter("identity").values["error"] < 1e-6


def test_the_baseline_is_the_rho_of_layer_0(story):
    values = story.chapter("layer_zero").values
    assert values["apart"] < 0.008
    assert values["rho_solar"] == pytest.approx(0.372, abs=5e-4)


def test_naive_scores_are_too_wide(story):
    values = story.chapter("projections").values
    assert (values["tests"], values["times"]) == (42, 3)
    assert values["rms"] == pytest.approx(1.28, abs=0.005)
    assert np.abs(full_z(FACTS)).max() == pytest.approx(3.28, abs=0.01)
    assert router_z(FACTS).max() == pytest.approx(5.91, abs=0.01)


def test_matched_experts_are_below_what_noise_gives(story):
    values = story.chapter("matching").values
    assert values["most"] < values["null_low"]
    assert values["above"] == 0
    assert values["null"] == pytest.approx(0.0379, abs=0.0004)


def test_controls_are_larger_than_the_pair_in_question(story):
    values = story.chapter("controls").values
    assert values["control"] > values["asked"]
    assert values["control_most"] > values["asked_most"]
    rows = story.chapter("controls").grids[0].rows
    assert {row[0]: row[2] for row in rows}["GLM-INTELLECT"] is None  # not published; never 0


def test_overlaps_of_tokenizers_are_ordinary(story):
    for _, here, least, most, _ in story.chapter("beside").grids[0].rows:
        assert least < here < most


def test_steps_of_bf16():
    assert (step_size(0.5), step_size(0.499), step_size(1.0)) == (2**-8, 2**-9, 2**-7)


def test_the_model_of_rounding_keeps_its_exception(story):
    model, values = one_number(FACTS), story.chapter("steps").values
    assert values["odd_layer"] == 4
    assert len(model.layers) == values["layers"] == 11
    assert values["correlation_all"] < values["correlation"]
    assert values["last"] == pytest.approx(1.0, abs=0.01)


# -- layers together -----------------------------------------------------------------------------------


def test_the_joint_deviation_is_that_of_shuffled_dimensions():
    random = np.random.default_rng(3)
    layers, n = 6, WIDTH
    models = []
    for _ in range(2):
        common = random.normal(size=n)
        rows = 0.8 * common + 0.6 * random.normal(size=(layers, n))
        rows -= rows.mean(axis=1, keepdims=True)
        models.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    a, b = models
    off = ~np.eye(layers, dtype=bool)
    shared = float(((a @ a.T) * (b @ b.T))[off].mean())
    drawn = [np.einsum("ij,ij->i", a, b[:, random.permutation(n)]).mean() for _ in range(3000)]
    foretold = JointMean(mean=1.0, layers=layers, shared=shared)
    assert np.std(drawn) == pytest.approx(1.0 / foretold.joint_z, rel=0.05)
    assert foretold.sure_z < foretold.joint_z < foretold.naive_z


# -- cases ---------------------------------------------------------------------------------------------


EXPECTED = {
    **dict.fromkeys(("V1", "V2", "V3", "V4", "V5", "V9", "V10", "V14"), Conclusion.NO_EVIDENCE),
    **dict.fromkeys(("V6", "V8"), Conclusion.SHARED),
    **dict.fromkeys(("V7", "V11", "V12", "V13"), Conclusion.NOT_TESTABLE),
}


def test_all_fourteen_cases_have_the_expected_answer(story):
    assert {case.key: case.conclusion for case in story.cases} == EXPECTED
    assert [case.key for case in story.cases] == [f"V{number}" for number in range(1, 15)]


def test_what_cannot_be_tested_has_no_z(story):
    for case in story.cases:
        assert (case.sure_z is None) == (case.conclusion is Conclusion.NOT_TESTABLE)


@pytest.mark.parametrize(
    ("effect", "looks", "answer"),
    [
        (0.5, 1, Conclusion.SHARED),
        (-0.5, 1, Conclusion.SHARED),
        (0.0, 1, Conclusion.NO_EVIDENCE),
        (0.095, 1, Conclusion.SHARED),
        (0.095, 46, Conclusion.NO_EVIDENCE),
        (None, 1, Conclusion.NOT_TESTABLE),
    ],
)
def test_the_rule_looks_at_size_and_number_of_looks(effect, looks, answer):
    assert judged("x", effect, {}, looks=looks).conclusion is answer


def test_the_naive_scores_would_have_accused(story):
    """What the cautious z is for: by the number of entries, routers would pass modelkin's own threshold."""
    case = next(case for case in story.cases if case.key == "V4")
    assert case.values["naive_z"] > 5.8
    assert case.sure_z == pytest.approx(abs(case.effect) * math.sqrt(WIDTH - 1))
    assert case.sure_z < 1


def test_the_verdict_follows_from_the_cases(story):
    assert story.conclusion is Conclusion.NO_EVIDENCE
    assert story.chapter("verdict").values["tested"] == len(ASKED)
    found = judged("V1", 1.0, {})
    assert conclusion((found,)) is Conclusion.SHARED_PARTIAL
    assert conclusion(()) is Conclusion.NOT_TESTABLE


# -- contradictions, record ----------------------------------------------------------------------------


def test_all_35_contradictions_are_listed_once(story):
    assert [item.number for item in story.contradictions] == list(range(1, 36))
    assert sum(item.recomputed for item in story.contradictions) == 28


@pytest.mark.parametrize(
    ("number", "said", "found"),
    [(1, "said_0", "layer_0"), (3, "said", "std"), (15, "said", "cosine"), (16, "said", "layer_10")],
)
def test_what_is_called_a_contradiction_is_one(story, number, said, found):
    values = story.contradictions[number - 1].values
    assert abs(values[said] - values[found]) > 0.005


def test_other_contradictions_hold(story):
    values = {item.number: item.values for item in story.contradictions}
    assert values[17]["mean"] < values[17]["said"]
    assert values[18]["layer_6"] < values[18]["said"]
    assert values[23]["sigmas"] < 0
    assert values[25]["fall"] < 0
    assert values[27]["points"] < values[27]["needed"]
    assert values[28]["models"] < values[28]["said"]
    assert values[29]["across"] < min(values[29]["solar"], values[29]["glm"])
    assert values[33]["solar_glm"] < values[33]["glm_phi"]
    assert values[22]["said_z"] == round(0.948743 * math.sqrt(values[22]["said_n"]) - 0.5)


def test_the_record_is_json_without_holes(story):
    document = json.loads(story.to_json())
    assert document["schema"] == "modelkin.replay/1"
    assert document["conclusion"] == "no-evidence"
    assert len(document["cases"]) == 14
