"""The norm experiment with its training, in the smallest size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modelkin.casework.lab import NormsOptions, norms_document, norms_experiment, norms_figures
from modelkin.casework.lab.norms_report import groups_of

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(600),  # it trains, and the machine may be busy
    pytest.mark.filterwarnings("ignore"),  # of other people's packages
]

SMALL = NormsOptions(inits=("ones", "random")).small()


@pytest.fixture(scope="module")
def trained():
    told: list[str] = []
    return norms_experiment(SMALL, report=told.append), told


def test_every_arm_has_all_relations(trained):
    result, told = trained
    assert [(group.init, group.relation, group.n) for group in groups_of(result)] == [
        (init, relation, n)
        for init in SMALL.inits
        for relation, n in (("unrelated, other data", 1), ("same start", 2), ("fine-tuned", 2))
    ]
    assert len(result.models) == 12
    assert sum("CPU" in line for line in told) == 12
    assert result.cpu_minutes > 0


def test_models_learn_and_gains_move(trained):
    result, _ = trained
    chance = dict(result.chance_losses)
    for run in result.models:
        assert run.losses[-1] < run.losses[0]
        assert run.gain_moved > 0.01
        if run.relation == "base":
            assert run.held_out < chance[run.corpus] + 0.2
            assert run.held_out < run.held_out_other
        assert (run.start_kept is None) == (run.init == "ones")


def test_children_begin_where_their_parents_ended(trained):
    result, _ = trained
    runs = {run.name: run for run in result.models}
    for run in result.models:
        if run.relation == "fine-tuned":
            assert run.losses[0] < runs[f"{run.init}-{run.number}"].losses[0] - 0.5
            assert run.corpus != runs[f"{run.init}-{run.number}"].corpus


def test_relatives_are_found_and_strangers_are_not(trained):
    result, _ = trained
    for pair in result.pairs:
        if pair.relation.startswith("unrelated"):
            assert pair.norm_test.log10_p > -3
            assert pair.unit_test.log10_p > -3
            assert pair.verdict == "no-evidence"
        else:
            assert pair.unit_test.log10_p < -10
    for pair in result.group("ones", "fine-tuned"):
        assert pair.pearson > 0.8
        assert pair.norm_test.log10_p < -6


def test_only_gains_with_a_mean_have_a_high_cosine(trained):
    result, _ = trained
    (ones,) = result.group("ones", "unrelated, other data")
    (random,) = result.group("random", "unrelated, other data")
    assert ones.cosine > 0.98 > 0.5 > abs(random.cosine)
    assert ones.cosine == pytest.approx(ones.expected, abs=0.005)


def test_equal_options_give_equal_models(trained):
    result, _ = trained
    again = norms_experiment(replace(SMALL, inits=("ones",)))
    firsts = [replace(run, cpu_seconds=0.0) for run in result.models if run.init == "ones"]
    assert [replace(run, cpu_seconds=0.0) for run in again.models] == firsts


def test_llamas_too():
    result = norms_experiment(replace(SMALL, inits=("ones",), family="llama", steps=12))
    assert {pair.verdict for pair in result.pairs if pair.relation == "fine-tuned"} <= {
        "shared",
        "shared-partial",
    }
    assert "12 steps" in norms_document(result)
    assert norms_figures(result)["norms_training"].panels[0].title == "ones"
