"""The rule, applied to made-up evidence: what each pattern must come out as."""

import math

import pytest

from modelkin.comparison.methods import Agreement, Effect, Likeness, Rank, Skipped, Tested
from modelkin.comparison.verdict import Conclusion, Identity, decide, load_rule
from modelkin.message import say

RULE = load_rule()
NULL = say("null-mlp")
NO_LAYERS = say("no-layers")


def found(component, *, log10_p, effect=0.5, layer=None, z=20.0, matched=100, role=None, low=None, high=None):
    return Tested(
        method="m",
        version="1",
        component=component,
        axis="mlp",
        null=NULL,
        role=role,
        layers=() if layer is None else (layer,),
        z=z,
        log10_p=log10_p,
        log10_p_extrapolated=log10_p * 2,
        effect=Effect(
            value=effect,
            low=effect - 0.1 if low is None else low,
            high=effect + 0.1 if high is None else high,
        ),
        n=512,
        n_matched=matched,
        detection_limit=0.01,
        statistic=1.0,
    )


def skipped(component, reason=NO_LAYERS):
    return Skipped(
        method="m", version="1", component=component, axis="mlp", null=NULL, exact=True, reason=reason
    )


def null(component, **how):
    return found(component, log10_p=-0.4, effect=0.001, z=0.3, matched=1, **how)


def judged(evidence, *, stage="standard", identity=None):
    return decide(evidence, RULE, candidate="B", base="A", stage=stage, identity=identity)


def agreeing(layer, *, share=0.9, control_pairs=27, beaten_by=0):
    rank = math.log10((1 + beaten_by) / (1 + control_pairs))
    return Agreement(
        method="unit-agreement",
        version="1",
        component="mlp",
        axis="mlp",
        null=NULL,
        layers=(layer,),
        statistic=share,
        effect=Effect(value=share, low=share - 0.05, high=share + 0.05),
        n=512,
        rank=Rank(log10_p=rank, control_pairs=control_pairs, largest_control=0.03),
    )


@pytest.mark.parametrize("n_pairs", [20, 24, 27, 90])
def test_a_rank_among_enough_controls_is_told_as_such(n_pairs):
    ranked = [agreeing(layer, control_pairs=n_pairs) for layer in range(3)]
    verdict = judged([*ranked, null("norms")], stage="deep")
    assert verdict.conclusion is Conclusion.SHARED_REPARAMETRISED
    assert verdict.components["mlp"].calibrated
    assert verdict.log10_p == pytest.approx(math.log10(1 / (1 + n_pairs)))
    assert "more than any control pair" in str(verdict.summary)
    assert "not an exact p-value" in str(verdict.limitations[0])


def test_an_exact_test_beside_a_rank_gives_the_p_value_of_the_verdict():
    verdict = judged([agreeing(layer) for layer in range(3)] + [found("norms", log10_p=-30)], stage="deep")
    assert verdict.conclusion is Conclusion.SHARED_REPARAMETRISED
    assert verdict.log10_p is not None
    assert verdict.log10_p < -28
    assert "share weights of common origin in a changed form" in str(verdict.summary)
    assert "mlp, norms" in str(verdict.summary)
    assert "not an exact p-value" in str(verdict.limitations[0])


@pytest.mark.parametrize(
    "odd",
    [{"control_pairs": 19}, {"beaten_by": 1}, {"share": 0.24}, {"control_pairs": 90, "beaten_by": 1}],
)
def test_a_rank_decides_nothing_with_few_controls_or_a_rival_or_little_agreement(odd):
    verdict = judged([agreeing(layer, **odd) for layer in range(3)] + [null("norms")], stage="deep")
    assert verdict.conclusion is Conclusion.NO_EVIDENCE


@pytest.mark.parametrize("stage", ["quick", "standard"])
def test_below_the_deep_stage_disguises_are_not_undone_and_the_way_out_is_named(stage):
    assert any("--depth deep" in str(line) for line in judged([null("mlp")], stage=stage).limitations)
    partial = judged([null("mlp"), found("norms", log10_p=-30)], stage=stage)
    assert any("--depth deep" in str(line) for line in partial.limitations)
    assert any("--depth deep" in str(line) for line in judged([skipped("mlp")], stage=stage).limitations)


def test_at_the_deep_stage_it_is_said_what_stays_invisible():
    lines = judged([null("mlp")], stage="deep").limitations
    for words in ("Distillation", "comparison with controls only", "nothing to find coordinates by"):
        assert sum(words in str(line) for line in lines) == 1
    assert not any("--depth deep" in str(line) for line in lines)


def test_everything_shared():
    verdict = judged([found("mlp", log10_p=-50), found("norms", log10_p=-30)])
    assert verdict.conclusion is Conclusion.SHARED
    assert verdict.related is True
    assert "mlp, norms" in str(verdict.summary)


def test_only_the_norms_shared_is_partial_and_named():
    verdict = judged([null("mlp"), found("norms", log10_p=-30), null("embedding")])
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert "in part: norms; no evidence in embedding, mlp" in str(verdict.summary)
    assert verdict.components["norms"].conclusion is Conclusion.SHARED
    assert verdict.components["mlp"].conclusion is Conclusion.NO_EVIDENCE


def test_half_of_the_layers_is_partial_and_the_layers_are_named():
    evidence = [found("mlp", log10_p=-40, layer=layer) for layer in (0, 1)]
    evidence += [null("mlp", layer=layer) for layer in (2, 3)]
    verdict = judged(evidence)
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.components["mlp"].layers == (0, 1)
    assert verdict.components["mlp"].other_layers == (2, 3)
    assert "layers 0, 1" in str(verdict.summary)


def test_nothing_significant_is_no_evidence_with_its_detection_limit():
    verdict = judged([null("mlp"), null("norms")])
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert verdict.related is False
    assert verdict.detection_limit == 0.01
    assert "above 0.01 in mlp or 0.01 in norms would have been found" in str(verdict.summary)


def test_nothing_testable_says_why():
    verdict = judged([skipped("mlp", say("hidden-sizes", n=64, m=96)), skipped("norms", say("no-norms"))])
    assert verdict.conclusion is Conclusion.NOT_TESTABLE
    assert verdict.related is None
    assert verdict.log10_p is None
    assert "the hidden sizes differ" in str(verdict.summary)


def test_significant_but_negligible_is_no_evidence():
    tiny = found("router", log10_p=-9, effect=0.0015, low=0.0005, high=0.0025, matched=2)
    assert judged([tiny]).conclusion is Conclusion.NO_EVIDENCE


def test_a_small_effect_counts_when_its_interval_excludes_the_floor():
    small = found("mlp", log10_p=-9, effect=0.01, low=0.006, high=0.014, matched=2)
    assert judged([small]).conclusion is Conclusion.SHARED


def test_a_strong_negative_is_a_changed_form():
    flipped = found("mlp", log10_p=-40, effect=-0.3, z=-30.0, low=-0.4, high=-0.2, matched=0)
    assert judged([flipped, null("norms")]).conclusion is Conclusion.SHARED_REPARAMETRISED


def test_naive_z_of_three_is_not_enough():
    assert (
        judged([found("attention", log10_p=-2.6, effect=0.001, z=2.9)]).conclusion is Conclusion.NO_EVIDENCE
    )


def test_the_best_layer_counts_corrected_for_their_number():
    evidence = [found("mlp", log10_p=-3 - layer, layer=layer, effect=0.05) for layer in range(4)]
    assert judged(evidence).components["mlp"].log10_p == pytest.approx(-6 + math.log10(4))


def test_several_tensors_of_one_layer_count_once_corrected_for_their_number():
    evidence = [found("mlp", log10_p=-10, layer=0, role=role) for role in ("gate", "up", "down")]
    assert judged(evidence).components["mlp"].log10_p == pytest.approx(-10 + math.log10(3))


def test_the_verdict_pays_for_components_and_stages():
    one = judged([found("mlp", log10_p=-10)])
    two = judged([found("mlp", log10_p=-10), null("norms")])
    quick = judged([found("mlp", log10_p=-10)], stage="quick")
    assert one.log10_p == pytest.approx(-10 - math.log10(0.5))
    assert two.log10_p == pytest.approx(-10 + math.log10(2) - math.log10(0.5))
    assert quick.log10_p == pytest.approx(-10 - math.log10(0.25))


def test_equal_files_are_identical_without_any_test():
    verdict = judged([], identity=Identity(all_files_equal=True, how=say("published-digest")))
    assert verdict.conclusion is Conclusion.IDENTICAL
    assert "published digest" in str(verdict.summary)


@pytest.mark.parametrize(
    "evidence",
    [
        [null("mlp")],
        [found("mlp", log10_p=-50)],
        [skipped("mlp")],
        [found("mlp", log10_p=-50), null("norms")],
    ],
)
def test_limitations_are_always_there(evidence):
    assert judged(evidence).limitations


def test_evidence_without_an_exact_null_never_accuses():
    measure = Likeness(
        method="same-names",
        version="1",
        component="unknown",
        axis="none",
        null=NULL,
        n=4096,
        share_equal=0.999,
        cosine=0.999,
    )
    assert judged([measure]).conclusion is Conclusion.NOT_TESTABLE


def test_the_rule_is_strict_data():
    assert RULE.version == "2"
    assert math.isclose(sum(RULE.stages.values()), 1.0)
