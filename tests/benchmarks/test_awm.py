"""AWM and phi_U as others publish them, on small trained models, and how the table counts what they say."""

import json

import numpy as np
import pytest
from tests.places import ZOO as ZOO_FOLDER

from modelkin.casework.lab import derive, load_zoo
from modelkin.casework.lab.checkpoint import Checkpoint

pytest.importorskip("scipy")

from benchmarks.awm_own import key_of
from benchmarks.awm_score import AwmScore, PhiU, Skipped, awm, phi_u

from benchmarks import awm as table
from benchmarks import awm_cases, awm_own

ZOO = load_zoo(ZOO_FOLDER)
FAMILIES = {"llama": "base", "qwen2": "qwen2-base", "mixtral": "moe-base", "gpt2": "gpt2-base"}
TWINS = {"base": "twin-1", "qwen2-base": "qwen2-twin", "moe-base": "moe-twin", "gpt2-base": "gpt2-twin"}


def model(name: str) -> Checkpoint:
    return ZOO[name].load()


def rng():
    return np.random.default_rng(7)


def awm_score(candidate: Checkpoint, base: Checkpoint) -> float:
    found = awm(candidate, base)
    assert isinstance(found, AwmScore)
    return found.score


def log10_phi_u(candidate: Checkpoint, base: Checkpoint) -> float:
    found = phi_u(candidate, base)
    assert isinstance(found, PhiU)
    return found.log10_p


@pytest.mark.parametrize("name", FAMILIES.values(), ids=FAMILIES)
def test_a_copy_scores_one_and_a_twin_far_less(name):
    base = model(name)
    assert awm_score(base, base) == pytest.approx(1.0)
    assert awm_score(model(TWINS[name]), base) < 0.3
    assert log10_phi_u(base, base) < -100
    assert log10_phi_u(model(TWINS[name]), base) > -3


@pytest.mark.parametrize("name", FAMILIES.values(), ids=FAMILIES)
def test_awm_sees_through_a_residual_permutation_and_phi_u_does_not(name):
    changed = derive.permute_residual(model(name), rng=rng())
    assert awm_score(changed, model(name)) == pytest.approx(1.0)
    assert log10_phi_u(changed, model(name)) > -3


@pytest.mark.parametrize("name", ["base", "qwen2-base", "moe-base"])
def test_awm_sees_through_signs_but_a_rotation_brings_it_down(name):
    base = model(name)
    assert awm_score(derive.flip_residual_signs(base, rng=rng()), base) == pytest.approx(1.0)
    assert awm_score(derive.rotate_residual(base, rng=rng()), base) < 0.4


def test_scaled_rope_pairs_lower_the_score_of_awm():
    base = model("base")
    assert 0.3 < awm_score(derive.turn_rope_pairs(base, rng=rng()), base) < 0.9


def test_a_permutation_of_units_hides_a_copy_from_phi_u_only():
    changed = derive.permute_mlp_units(model("base"), rng=rng())
    assert awm_score(changed, model("base")) == pytest.approx(1.0)
    assert log10_phi_u(changed, model("base")) > -3


def test_layers_are_assigned_when_depths_differ():
    base = model("base")
    deeper = derive.reorder_layers(base, [0, 1, 2, 1, 2, 3])
    found = awm(deeper, base)
    assert isinstance(found, AwmScore)
    assert found.score == pytest.approx(1.0)
    assert sorted(second for _, second in found.layers) == [0, 1, 2, 3]
    assert isinstance(phi_u(deeper, base), Skipped)


def test_a_narrower_model_is_matched_to_a_part_of_the_columns():
    base = model("base")
    narrower = derive.prune_residual(base, n_kept=48)
    found = awm(narrower, base)
    assert isinstance(found, AwmScore)
    assert found.score == pytest.approx(1.0)


def test_without_common_tokens_there_is_no_score():
    base = model("base")
    found = awm(Checkpoint(config=base.config, tensors=base.tensors, tokenizer=None), base)
    assert found == Skipped(reason="a tokenizer.json is missing, so tokens cannot be matched by text")


def test_tokens_are_matched_by_text_and_not_by_number():
    candidate, base = model("new-tokenizer"), model("base")
    found = awm(candidate, base)
    assert isinstance(found, AwmScore)
    assert found.n_tokens == 424


def test_the_published_z_is_a_distance_from_fixed_constants():
    at = AwmScore(score=0.00375 + 2 * 0.0028, n_tokens=99, layers=())
    below = AwmScore(score=0.00375 - 2 * 0.0028, n_tokens=99, layers=())
    assert at.absolute_z == pytest.approx(2.0)
    assert below.absolute_z == pytest.approx(2.0)


def outcome(*, related, score, half=1, log10_p=None, own=None, group="g", kinds=("a", "a")):
    case = awm_cases.Case(
        name="x", group=group, related=related, half=half, models=lambda: (model("base"),) * 2
    )
    return table.Outcome(
        case=case,
        awm=AwmScore(score=score, n_tokens=99, layers=()),
        phi_u=Skipped(reason="other widths") if log10_p is None else PhiU(log10_p=log10_p, n_tests=1),
        own=own,
        kinds=kinds,
    )


def test_thresholds_come_from_the_strangers_of_the_calibration_half_alone():
    outcomes = [
        outcome(related=False, half=0, score=0.2, log10_p=-1.0),
        outcome(related=False, half=0, score=0.1, log10_p=-2.0),
        outcome(related=False, half=1, score=0.9, log10_p=-9.0),
        outcome(related=True, score=0.8, log10_p=-8.0),
    ]
    assert table.threshold(outcomes, table.awm_strength) == 0.2
    assert table.threshold(outcomes, table.phi_u_strength) == 2.0
    with pytest.raises(ValueError, match="no stranger of the calibration half"):
        table.threshold(outcomes[2:], table.awm_strength)


def test_a_kind_with_enough_strangers_has_its_own_threshold():
    enough = [
        outcome(related=False, half=0, score=0.01 * number, kinds=("a", "b"))
        for number in range(table.FEWEST_STRANGERS)
    ]
    few = [outcome(related=False, half=0, score=0.9, kinds=("a", "c"))]
    found = table.thresholds_by_kind(enough + few, table.awm_strength)
    assert found == {"a": 0.9, "b": pytest.approx(0.19)}
    judged = [*enough, *few, outcome(related=True, score=0.5, log10_p=-1.0, kinds=("b", "b"))]
    judged.append(outcome(related=False, half=0, score=0.0, log10_p=-1.0, kinds=("d", "d")))
    by_base = {rule.name: rule.accuses(judged[-2]) for rule in table.rules(judged)}
    assert by_base["AWM, calibrated for the base"] is True
    assert by_base["AWM, score > 0.900"] is False


def test_the_table_counts_hits_false_alarms_and_silence():
    outcomes = [
        outcome(related=False, half=0, score=0.2, log10_p=-1.0),
        outcome(related=False, score=0.3, log10_p=-0.5, own=False, group="strangers"),
        outcome(related=False, score=0.004, own=Skipped(reason="not testable"), group="strangers"),
        outcome(related=True, score=0.9, log10_p=-30.0, own=True, group="copies"),
        outcome(related=True, score=0.15, own=True, group="copies"),
    ]
    rows = {row[0]: row[1:] for row in table.table(outcomes).rows}
    assert rows["copies"] == [
        "1 of 2",
        "1 of 2",
        "2 of 2",
        "1 of 2 (1 silent)",
        "1 of 2 (1 silent)",
        "2 of 2",
    ]
    assert rows["strangers"] == [
        "1 of 2",
        "1 of 2",
        "1 of 2",
        "0 of 2 (1 silent)",
        "0 of 2 (1 silent)",
        "0 of 2 (1 silent)",
    ]
    assert rows["**all relatives: found**"] == rows["copies"]
    assert [row[1:] for row in table.summary(outcomes).rows] == [
        [hits, alarms] for hits, alarms in zip(rows["copies"], rows["strangers"], strict=True)
    ]
    assert any("AWM" in line and "missed" in line for line in table.misses(outcomes))


def test_modelkin_is_not_asked_about_calibration_pairs():
    asked = []

    def own(case: awm_cases.Case, candidate: Checkpoint, base: Checkpoint) -> bool:
        asked.append(candidate)
        return True

    base, twin = model("base"), model("twin-1")
    cases = [
        awm_cases.Case(name="a", group="s", related=False, half=0, models=lambda: (twin, base)),
        awm_cases.Case(name="b", group="r", related=True, models=lambda: (base, base)),
    ]
    first, second = table.judge(cases, own)
    assert asked == [base]
    assert first.own is None
    assert second.own is True


def case_of(*controls: str) -> awm_cases.Case:
    folders = [str(ZOO_FOLDER / name) for name in controls]
    return awm_cases.Case(
        name="x", group="g", related=True, models=lambda: (model("base"),) * 2, controls=lambda: folders
    )


@pytest.mark.more
def test_modelkin_answers_from_files_in_memory():
    verdict = awm_own.modelkin_verdict("standard")
    assert verdict(case_of(), model("finetune-light"), model("base")) is True
    assert verdict(case_of(), model("twin-1"), model("base")) is False


def test_modelkin_finds_a_copy_with_every_axis_renumbered_without_controls():
    verdict = awm_own.modelkin_verdict("deep")
    base = model("moe16-1")
    hidden = derive.permute_residual(derive.permute_mlp_units(base, rng=rng()), rng=rng())
    hidden = derive.permute_experts(hidden, rng=rng())
    assert verdict(case_of(), hidden, base) is True
    assert verdict(case_of(), hidden, model("moe16-2")) is False


def test_no_lineage_of_the_zoo_is_in_both_halves():
    truth = pytest.importorskip("tests.comparison.relations")
    root = {member: name for name, members in truth.lineages().items() for member in members}
    halves: dict[int, set[str]] = {0: set(), 1: set()}
    for case in awm_cases.stranger_cases():
        pair = case.name.partition(" (")[0].split(" ~ ")
        halves[case.half] |= {root[name] for name in pair}
    assert len(halves[0]) > 10
    assert len(halves[1]) > 10
    assert not halves[0] & halves[1]


def test_few_strangers_can_be_drawn_to_count_and_all_others_set_thresholds():
    few, every = awm_cases.stranger_cases(most=3), awm_cases.stranger_cases()
    assert sum(case.half == 1 for case in few) == 6
    assert [case.name for case in few if case.half == 0] == [case.name for case in every if case.half == 0]


def test_verdicts_of_the_same_code_are_kept_and_those_of_other_code_are_not(tmp_path):
    code = awm_own._script().code_digest()
    found = {
        "exact": "shared",
        "ranked": "shared-reparametrised",
        "missed": "no-evidence",
        "x": "not-testable",
    }
    rows = [
        {"key": key_of(outcome, related=True), "code": code, "outcome": outcome, "conclusion": conclusion}
        for outcome, conclusion in found.items()
    ]
    rows.append({**rows[0], "key": key_of("old", related=True), "code": "other"})
    rows.append({**rows[2], "key": key_of("exact", related=False)})
    file = tmp_path / "kept.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    kept = awm_own.kept_verdicts(file)
    assert kept == {
        "relation|exact|": True,
        "relation|ranked|": True,
        "relation|missed|": False,
        "relation|x|": Skipped(reason="not testable"),
        "strangers|exact|": False,
    }
    verdict = awm_own.modelkin_verdict("standard", {key_of("x", related=True): False})
    assert verdict(case_of(), model("base"), model("base")) is False


def test_another_process_finds_the_same_cases():
    place = len(awm_cases.related_cases()) + 5
    case = awm_cases.all_cases(1)[place]
    assert not case.related
    (here,) = table.judge([case])
    there = table._answers_at("none", 1, None, place)
    assert table.Outcome(case=case, **there) == here


def test_all_rows_of_the_truth_table_are_put_to_the_methods():
    truth = pytest.importorskip("tests.comparison.relations")
    cases = awm_cases.related_cases()
    assert [case.name for case in cases] == [row.name for row in truth.relations()]
    candidate, base = cases[0].models()
    assert (candidate, base) == (truth.relations()[0].candidate(), truth.relations()[0].base())
