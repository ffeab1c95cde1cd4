"""The rule, applied to made-up evidence: the expected outcome of each pattern."""

import math
from dataclasses import replace

import pytest

from modelkin.comparison.methods import (
    HEADS_ALIKE,
    Agreement,
    Contrast,
    Effect,
    Likeness,
    Mismatched,
    Rank,
    Skipped,
    Tested,
)
from modelkin.comparison.verdict import Conclusion, Identity, decide, load_rule, retold_by_equality
from modelkin.message import say

RULE = load_rule()
NULL = say("null-mlp")
NO_LAYERS = say("no-layers")


def found(
    component,
    *,
    log10_p,
    effect=0.5,
    layer=None,
    z=20.0,
    matched=100,
    role=None,
    low=None,
    high=None,
    frame="identity",
):
    return Tested(
        method="m",
        version="1",
        component=component,
        axis="mlp",
        null=NULL,
        role=role,
        frame=frame,
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


def judged(evidence, *, stage="standard", identity=None, parameters=None, unfaced=None):
    return decide(
        evidence,
        RULE,
        candidate="B",
        base="A",
        stage=stage,
        identity=identity,
        parameters=parameters,
        unfaced=unfaced,
    )


def conclusions(verdict):
    return {name: item.conclusion.value for name, item in verdict.components.items()}


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
    assert verdict.components["mlp"].basis == "rank"
    assert verdict.log10_p == pytest.approx(math.log10(1 / (1 + n_pairs)))
    assert "more than any control pair" in str(verdict.summary)
    assert "not an exact p-value" in str(verdict.limitations[0])


def test_an_exact_test_beside_a_rank_gives_the_p_value_of_the_verdict():
    verdict = judged([agreeing(layer) for layer in range(3)] + [found("norms", log10_p=-30)], stage="deep")
    assert verdict.conclusion is Conclusion.SHARED_REPARAMETRISED
    assert verdict.log10_p is not None
    assert verdict.log10_p < -28
    assert "the same units or heads in other coordinates: mlp, norms" in str(verdict.summary)
    assert "not an exact p-value" in str(verdict.limitations[0])


@pytest.mark.parametrize(
    "odd",
    [{"control_pairs": 19}, {"beaten_by": 1}, {"share": 0.24}, {"control_pairs": 90, "beaten_by": 1}],
)
def test_a_rank_decides_nothing_with_few_controls_or_a_rival_or_little_agreement(odd):
    verdict = judged([agreeing(layer, **odd) for layer in range(3)] + [null("norms")], stage="deep")
    assert verdict.conclusion is Conclusion.NO_EVIDENCE


def test_a_rank_counts_where_a_quarter_of_the_units_agree():
    verdict = judged([agreeing(layer, share=0.3) for layer in range(3)] + [null("norms")], stage="deep")
    assert verdict.conclusion is Conclusion.SHARED_REPARAMETRISED


@pytest.mark.parametrize("stage", ["quick", "standard"])
def test_below_the_deep_stage_disguises_are_not_undone_and_the_way_out_is_named(stage):
    assert any("--depth deep" in str(line) for line in judged([null("mlp")], stage=stage).limitations)
    partial = judged([null("mlp"), found("norms", log10_p=-30)], stage=stage)
    assert any("--depth deep" in str(line) for line in partial.limitations)
    assert any("--depth deep" in str(line) for line in judged([skipped("mlp")], stage=stage).limitations)


def test_at_the_deep_stage_it_is_said_what_stays_invisible():
    lines = judged([null("mlp")], stage="deep").limitations
    for words in ("Distillation", "until the old directions are gone", "fewer than half of the layers"):
        assert sum(words in str(line) for line in lines) == 1
    assert not any("--depth deep" in str(line) for line in lines)


def contrasted(layer, *, component="mlp", share=0.9, log10_p=-12.0):
    return Contrast(
        method="own-layers",
        version="1",
        component=component,
        axis="mlp",
        null=NULL,
        layers=(layer,),
        frame="rotation",
        statistic=share,
        log10_p=log10_p,
        effect=Effect(value=share, low=share - 0.05, high=share + 0.05),
        n=512,
        n_matched=round(512 * share),
        mismatched=Mismatched(n_pairs=24, largest=0.02, limit=0.05),
    )


def weak(layer, **where):
    return contrasted(layer, share=0.02, log10_p=0.0, **where)


def test_layers_that_agree_more_than_mismatched_ones_decide_and_are_told_as_such():
    agreeing = [contrasted(0), contrasted(1), contrasted(2)]
    verdict = judged([*agreeing, weak(3), weak(4), null("norms")], stage="deep")
    assert verdict.conclusion is Conclusion.SHARED_REPARAMETRISED
    assert verdict.components["mlp"].basis == "own-layers"
    assert (verdict.components["mlp"].layers, verdict.components["mlp"].other_layers) == ((0, 1, 2), (3, 4))
    assert verdict.components["norms"].conclusion is Conclusion.NOT_TESTABLE
    assert "calibrated on the pair's own layers" in str(verdict.headline)
    assert "calibrated on the pair's own layers" in str(verdict.summary)
    assert "not exact" in str(verdict.limitations[0])
    assert "one agreed a little more in facing layers" in str(verdict.limitations[0])
    assert verdict.effect is not None
    assert verdict.effect.value == pytest.approx(0.9)


@pytest.mark.parametrize(
    "evidence",
    [
        [contrasted(0), weak(1), weak(2)],
        [contrasted(0), weak(1)],
        [contrasted(0), contrasted(1), weak(2), weak(3)],
        [contrasted(0), contrasted(1), *(weak(layer) for layer in range(2, 6))],
        [contrasted(layer, share=0.22) for layer in range(4)],
        [contrasted(layer, log10_p=-6.0) for layer in range(4)],
    ],
    ids=["one of three", "one of two", "two of four", "two of six", "below the floor", "not sure enough"],
)
def test_layers_that_agree_too_little_decide_nothing(evidence):
    verdict = judged([*evidence, null("mlp")], stage="deep")
    assert verdict.conclusion is Conclusion.NO_EVIDENCE
    assert verdict.related is False


def test_where_two_layers_were_tested_both_must_agree():
    assert judged([contrasted(0), contrasted(1)], stage="deep").related


def test_three_layers_of_many_are_enough():
    verdict = judged([contrasted(0), contrasted(1), contrasted(2), *map(weak, range(3, 12))], stage="deep")
    assert verdict.components["mlp"].layers == (0, 1, 2)
    assert verdict.related


def test_a_component_held_against_mismatched_layers_keeps_its_no_evidence():
    evidence = [*(contrasted(n) for n in range(4)), *(weak(n, component="attention") for n in range(4))]
    verdict = judged([*evidence, null("attention"), null("mlp")], stage="deep")
    assert verdict.components["attention"].conclusion is Conclusion.NO_EVIDENCE
    assert verdict.components["mlp"].conclusion is Conclusion.SHARED_REPARAMETRISED


def test_an_exact_test_beside_mismatched_layers_gives_the_p_value_of_the_verdict():
    evidence = [*(contrasted(n) for n in range(4)), found("norms", log10_p=-30)]
    verdict = judged(evidence, stage="deep")
    assert verdict.log10_p is not None
    assert verdict.log10_p < -28
    assert "calibrated" not in str(verdict.headline)
    assert "not exact" in str(verdict.limitations[0])


def test_everything_shared():
    verdict = judged([found("mlp", log10_p=-50), found("norms", log10_p=-30)])
    assert verdict.conclusion is Conclusion.SHARED
    assert verdict.related is True
    assert "mlp, norms" in str(verdict.summary)


def test_only_the_norms_shared_is_partial_and_named():
    verdict = judged([null("mlp"), found("norms", log10_p=-30), null("embedding")])
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert "agree in their norm gains; no evidence in embedding, mlp" in str(verdict.summary)
    assert "a student of the other's hidden states" in str(verdict.summary)
    assert verdict.components["norms"].conclusion is Conclusion.SHARED
    assert verdict.components["mlp"].conclusion is Conclusion.NO_EVIDENCE


PARAMETERS = {"norms": 10, "embedding": 1000, "head": 1000, "mlp": 6000, "attention": 1990}


def test_the_headline_says_how_much_of_the_parameters_a_part_is():
    verdict = judged([null("mlp"), found("norms", log10_p=-30)], parameters=PARAMETERS)
    assert str(verdict.headline) == "Only the norm gains are shared (0.1% of the parameters)"
    assert verdict.reading == "norm-gains-only"
    assert verdict.shared_parameters == pytest.approx(0.001)
    assert verdict.components["mlp"].parameters == 6000
    attention = judged([null("mlp"), found("attention", log10_p=-30)], parameters=PARAMETERS)
    assert str(attention.headline) == "Common origin of some parts (19.9% of the parameters): attention"
    unknown = judged([null("mlp"), found("norms", log10_p=-30)])
    assert unknown.shared_parameters is None
    assert "an unknown share" in str(unknown.headline)


def test_of_a_component_only_the_shared_layers_count_as_shared_parameters():
    evidence = [found("mlp", log10_p=-40, layer=0), *(null("mlp", layer=layer) for layer in (1, 2, 3))]
    assert judged(evidence, parameters=PARAMETERS).shared_parameters == pytest.approx(0.15)
    more = [found("mlp", log10_p=-40, layer=layer) for layer in (4, 5)]
    assert str(judged([*evidence, *more]).headline).endswith("mlp (3 of 6 tested layers)")


@pytest.mark.parametrize("component", ["norms", "embedding", "head", "router", "residual"])
def test_the_whole_is_not_called_shared_without_mlp_experts_or_attention(component):
    verdict = judged([found(component, log10_p=-50)])
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.related is True


@pytest.mark.parametrize("component", RULE.body)
def test_one_of_mlp_experts_and_attention_is_enough(component):
    assert judged([found(component, log10_p=-50)]).conclusion is Conclusion.SHARED


def test_only_norm_gains_tested_and_shared_says_that_nothing_else_was():
    verdict = judged([found("norms", log10_p=-50), skipped("mlp")], stage="quick", parameters=PARAMETERS)
    assert verdict.reading == "norm-gains-alone"
    expected = "The norm gains are shared (0.1% of the parameters); nothing else was tested"
    assert str(verdict.headline) == expected
    assert "agree in their norm gains; nothing else was tested" in str(verdict.summary)
    assert "a student of the other's hidden states" in str(verdict.summary)


def test_a_tested_component_keeps_its_result_where_other_coordinates_were_only_tried():
    evidence = [null("mlp", layer=0), found("norms", log10_p=-50), null("mlp", layer=0, frame="rotation")]
    verdict = judged(evidence, stage="deep")
    assert conclusions(verdict) == {"mlp": "no-evidence", "norms": "shared"}
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL


def test_what_was_found_in_coordinates_as_stored_keeps_every_other_result():
    evidence = [found("norms", log10_p=-50), found("mlp", log10_p=-50, frame="rotation"), null("head")]
    assert conclusions(judged(evidence, stage="deep"))["head"] == "no-evidence"


def test_after_a_finding_in_other_coordinates_silence_in_the_old_ones_says_nothing():
    evidence = [null("norms"), null("mlp", layer=0), found("mlp", log10_p=-50, layer=0, frame="rotation")]
    evidence += [null("attention", layer=0), null("attention", layer=0, frame="rotation")]
    verdict = judged(evidence, stage="deep")
    assert verdict.conclusion is Conclusion.SHARED_REPARAMETRISED
    wanted = {"mlp": "shared-reparametrised", "attention": "no-evidence", "norms": "not-testable"}
    assert conclusions(verdict) == wanted
    assert "mlp. No evidence in attention. Tested only in the old coordinates" in str(verdict.summary)
    assert str(verdict.summary).endswith("follows from a lack of evidence: norms.")


def test_half_of_the_layers_is_partial_and_the_layers_are_named():
    evidence = [found("mlp", log10_p=-40, layer=layer) for layer in (0, 1)]
    evidence += [null("mlp", layer=layer) for layer in (2, 3)]
    verdict = judged(evidence)
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.components["mlp"].layers == (0, 1)
    assert verdict.components["mlp"].other_layers == (2, 3)
    assert "layers 0, 1" in str(verdict.summary)


def faint(layer, **how):
    """Return a test that is certain and whose effect is small."""
    return found("mlp", log10_p=-24, layer=layer, effect=0.012, low=0.008, high=0.016, matched=3, **how)


def test_one_certain_layer_is_a_finding_however_little_the_others_share():
    """The mean over the four layers touches the floor; what is claimed is one layer, and it does not."""
    evidence = [null("mlp", layer=layer, low=-0.02, high=0.02) for layer in (0, 1, 3)] + [faint(2)]
    verdict = judged(evidence, parameters=PARAMETERS)
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.components["mlp"].layers == (2,)
    assert verdict.components["mlp"].other_layers == (0, 1, 3)
    assert verdict.effect.value == pytest.approx(0.012)
    assert "mlp (layer 2 of those tested)" in str(verdict.summary)
    assert str(verdict.headline) == "Common origin of some parts (15% of the parameters): mlp (layer 2)"


def test_a_certain_layer_with_a_negligible_effect_is_none_whatever_others_show():
    tiny = found("mlp", log10_p=-24, layer=2, effect=0.0015, low=0.0005, high=0.0025, matched=2)
    loud = found("mlp", log10_p=-0.5, layer=0, effect=0.3, low=0.1, high=0.5, matched=40)
    assert judged([tiny, loud]).conclusion is Conclusion.NO_EVIDENCE


def test_the_effect_is_that_of_the_test_that_decided():
    evidence = [found("mlp", log10_p=-40, effect=0.4, layer=layer, role="gate") for layer in (0, 1)]
    evidence += [found("mlp", log10_p=-12, effect=0.9, layer=layer, role="up") for layer in (0, 1)]
    assert judged(evidence).effect.value == pytest.approx(0.4)


def test_the_effect_of_many_layers_is_of_one_pairing_of_them():
    by_number = replace(found("norms", log10_p=-10, effect=0.1, low=0.05), layers=(0, 1, 2))
    along = replace(found("norms", log10_p=-40, effect=0.9), layers=(0, 1, 2), base_layers=(1, 2, 3))
    assert judged([by_number, along]).components["norms"].effect.value == pytest.approx(0.9)


def test_the_effect_of_a_part_is_that_of_its_shared_layers():
    evidence = [found("mlp", log10_p=-40, effect=0.4, layer=0), null("mlp", layer=1)]
    assert judged(evidence).effect.value == pytest.approx(0.4)


def test_units_that_agree_up_to_their_signs_are_a_changed_form():
    turned = replace(found("embedding", log10_p=-40), flags=("signs",))
    assert judged([turned]).conclusion is Conclusion.SHARED_REPARAMETRISED


def test_a_square_does_not_call_a_flipped_tensor_unchanged():
    flipped = found("mlp", log10_p=-40, effect=-0.3, z=-30.0, low=-0.4, high=-0.2, matched=0, layer=0)
    square = replace(found("mlp", log10_p=-50, layer=0, role="up"), sign_free=True)
    assert judged([flipped, square]).conclusion is Conclusion.SHARED_REPARAMETRISED
    assert judged([square]).conclusion is Conclusion.SHARED


def test_a_limit_holds_for_one_layer_whichever_it_is():
    limits = {0: 0.02, 1: 0.05, 2: 0.03}
    evidence = [replace(null("mlp", layer=n), detection_limit=limit) for n, limit in limits.items()]
    evidence += [replace(null("mlp", layer=1, role="up"), detection_limit=0.04)]
    item = judged(evidence).components["mlp"]
    assert item.detection_limit == 0.02
    assert item.layer_detection_limit == 0.04
    unknown = [*evidence, replace(null("mlp", layer=3), detection_limit=None)]
    assert judged(unknown).components["mlp"].layer_detection_limit is None
    assert judged([null("norms")]).components["norms"].layer_detection_limit is None


def test_limits_are_said_to_hold_in_equal_numbering():
    for evidence in ([null("mlp")], [null("mlp"), null("norms")]):
        assert "in equal numbering, a shared direction above 0.01" in str(judged(evidence).summary)


@pytest.mark.parametrize(
    ("stage", "reason", "remedy"),
    [
        ("standard", say("hidden-sizes", n=64, m=96), "--depth deep looks for the parts"),
        ("deep", say("tokenizer-missing"), "With the tokenizer.json of both models"),
        ("deep", say("unknown-architecture", model="x"), "With a config.json that names"),
        ("deep", NO_LAYERS, "Nothing in this version"),
    ],
)
def test_what_is_not_testable_says_what_would_make_it_so(stage, reason, remedy):
    verdict = judged([skipped("mlp", reason), skipped("norms", say("no-norms"))], stage=stage)
    assert verdict.conclusion is Conclusion.NOT_TESTABLE
    assert remedy in str(verdict.summary)


def test_layers_of_the_base_without_a_counterpart_make_it_a_part_from_either_side():
    """A model with half of the layers: the verdict does not depend on which of the two is the candidate."""
    pruned = [replace(found("mlp", log10_p=-40, layer=n), base_layers=(2 * n,)) for n in (0, 1)]
    pruned += [null("mlp", layer=1)]  # of equal number, and not the same layer
    verdict = judged(pruned, stage="deep", unfaced={"mlp": {1, 3}}, parameters=PARAMETERS)
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.components["mlp"].unfaced_base_layers == (1, 3)
    assert verdict.shared_parameters == pytest.approx(0.6)
    assert "all layers of the candidate (60% of the parameters); the base has more" in str(verdict.headline)
    assert "layers 1, 3 of the base have no counterpart" in str(verdict.summary)
    whole = judged(pruned, stage="deep", unfaced={"mlp": {2}})
    assert whole.conclusion is Conclusion.SHARED


def test_one_layer_of_a_deeper_base_is_a_part_from_either_side():
    """With one layer there are no others to tell it from, but the base has more."""
    cut = [replace(found("mlp", log10_p=-40, layer=0), base_layers=(2,)), found("norms", log10_p=-40)]
    verdict = judged(cut, stage="deep", unfaced={"mlp": {0, 1, 3}}, parameters=PARAMETERS)
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.components["mlp"].unfaced_base_layers == (0, 1, 3)
    assert "the base has more" in str(verdict.headline)
    assert judged(cut, stage="deep", unfaced={"mlp": {2}}).conclusion is Conclusion.SHARED
    assert (
        judged(cut, stage="deep", unfaced={"norms": {0}}).conclusion is Conclusion.SHARED
    )  # no single layer


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


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0017, 0.1, Conclusion.NO_EVIDENCE),
        (0.0023, 0.1, Conclusion.SHARED),
        (-0.1, -0.0017, Conclusion.NO_EVIDENCE),
        (-0.1, -0.0023, Conclusion.SHARED_REPARAMETRISED),
    ],
)
def test_an_effect_counts_from_the_floor_of_the_rule(low, high, expected):
    small = found("mlp", log10_p=-30, effect=(low + high) / 2, low=low, high=high, matched=2)
    assert judged([small]).conclusion is expected


@pytest.mark.parametrize(
    ("matched", "expected"), [(11, Conclusion.NO_EVIDENCE), (12, Conclusion.SHARED), (20, Conclusion.SHARED)]
)
def test_a_dozen_matched_units_need_no_effect(matched, expected):
    tiny = found("mlp", log10_p=-30, effect=0.001, low=0.0005, high=0.0015, matched=matched)
    assert judged([tiny]).conclusion is expected


@pytest.mark.parametrize(("log10_p", "layers"), [(-3.4, (0, 1)), (-3.8, (0, 1, 2))])
def test_a_layer_is_shared_at_a_level_corrected_for_the_number_of_layers(log10_p, layers):
    """One in a thousand, of four layers: 10^-3.6."""
    evidence = [found("mlp", log10_p=-40, layer=layer) for layer in (0, 1)]
    evidence += [found("mlp", log10_p=log10_p, layer=2), null("mlp", layer=3)]
    assert judged(evidence).components["mlp"].layers == layers


@pytest.mark.parametrize(("share", "expected"), [(0.5, "no-evidence"), (0.6, "shared-reparametrised")])
def test_units_that_mostly_agree_are_among_the_weights_that_are_shared(share, expected):
    """The models share their gains, which exact tests show; the lower end of the interval is 0.05 less."""
    agreement = [agreeing(layer, share=share, control_pairs=3) for layer in range(3)]
    verdict = judged([null("mlp"), *agreement, found("norms", log10_p=-30)], stage="deep")
    assert conclusions(verdict)["mlp"] == expected


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


@pytest.mark.parametrize(
    ("effect", "expected"),
    [(0.02, "not-testable"), (0.2, "not-testable"), (0.3, "no-evidence"), (0.4, "no-evidence")],
)
def test_a_faint_echo_in_the_old_coordinates_does_not_say_that_they_are_shared(effect, expected):
    """Units of a rotated copy that load on few directions also agree a little in their old places."""
    evidence = [found("mlp", log10_p=-50, layer=layer, effect=1.0, frame="rotation") for layer in (0, 1)]
    evidence += [found("mlp", log10_p=-20, layer=0, effect=effect), null("embedding")]
    assert conclusions(judged(evidence, stage="deep"))["embedding"] == expected
    old = decide(evidence, load_rule("rule-3"), candidate="B", base="A", stage="deep")
    assert conclusions(old)["embedding"] == "no-evidence"


def test_what_is_found_in_the_old_coordinates_of_another_layer_is_no_echo():
    evidence = [found("mlp", log10_p=-50, layer=0, effect=1.0, frame="rotation")]
    evidence += [found("mlp", log10_p=-20, layer=1, effect=0.02), null("embedding")]
    assert conclusions(judged(evidence, stage="deep"))["embedding"] == "no-evidence"


def test_what_was_not_read_whole_is_a_limit_of_finding_nothing():
    """Only at deep, and only where layers were too large: then units cannot teach coordinates."""
    part = replace(weak(0), could_agree=0.1)
    found_nothing = [null("norms"), null("mlp", layer=0)]

    def codes(*more, stage="deep"):
        return {item.code for item in judged([*found_nothing, *more], stage=stage).limitations}

    assert "limitation.renumbered" in codes(part)
    assert "limitation.renumbered" not in codes(weak(0))
    assert "limitation.renumbered" not in codes()
    skipped = Skipped(
        method="own-layers",
        version="2",
        component="mlp",
        axis="mlp",
        null=NULL,
        exact=False,
        reason=say("layer-large"),
    )
    assert "limitation.renumbered" in codes(skipped)


@pytest.mark.parametrize("name", ["rule-1", "rule-2", "rule-3", "rule-4", "rule-5", "rule-6"])
def test_rules_of_earlier_results_can_still_be_read(name):
    assert load_rule(name).version == name[-1]


def test_the_rule_is_strict_data():
    assert RULE.version == "7"
    assert math.isclose(sum(RULE.stages.values()), 1.0)


@pytest.mark.parametrize(
    ("evidence", "basis"),
    [
        ([found("mlp", log10_p=-30)], "exact"),
        ([null("mlp")], "exact"),
        ([contrasted(layer) for layer in range(3)] + [null("norms")], "own-layers"),
        ([contrasted(layer) for layer in range(3)] + [found("norms", log10_p=-30)], "exact"),
        ([agreeing(layer) for layer in range(3)] + [null("norms")], "rank"),
        ([skipped("mlp")], None),
    ],
)
def test_the_verdict_says_what_its_p_value_rests_on(evidence, basis):
    verdict = judged(evidence, stage="deep")
    assert verdict.basis == basis
    assert (verdict.log10_p_extrapolated is not None) == (basis == "exact")


def blind(component, limit=1.3):
    return replace(null(component), detection_limit=limit)


def test_a_limit_that_no_effect_reaches_is_not_told_as_one():
    told = str(judged([null("mlp"), blind("embedding")]).summary)
    assert "above 0.01 in mlp would have been found" in told
    assert "No shared direction could have been found reliably in embedding" in told
    assert "1.3" not in told
    assert "reliably" not in str(judged([blind("embedding", 0.99)]).summary)


def test_what_could_not_have_been_found_at_any_size_was_not_tested():
    both = judged([null("mlp"), blind("embedding")])
    assert both.conclusion is Conclusion.NO_EVIDENCE
    assert both.components["embedding"].conclusion is Conclusion.NOT_TESTABLE
    alone = judged([blind("embedding", 1.0)])
    assert alone.conclusion is Conclusion.NOT_TESTABLE
    assert "not even equal weights would have been found reliably" in str(alone.summary)
    assert judged([blind("embedding", 0.99)]).conclusion is Conclusion.NO_EVIDENCE
    # One test that could have found something is enough, and a finding is a finding.
    assert judged([blind("mlp"), null("mlp")]).conclusion is Conclusion.NO_EVIDENCE
    assert judged([replace(found("mlp", log10_p=-30), detection_limit=1.3)]).related


def test_beside_a_finding_a_blind_test_keeps_the_claim_narrow():
    verdict = judged([found("mlp", log10_p=-30), blind("embedding")])
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.components["embedding"].conclusion is Conclusion.NO_EVIDENCE


def test_earlier_rules_called_everything_tested():
    verdict = decide([blind("mlp")], load_rule("rule-4"), candidate="B", base="A", stage="deep")
    assert verdict.conclusion is Conclusion.NO_EVIDENCE


def alike_heads():
    return replace(found("attention", log10_p=-40, layer=2), method="head-matching", flags=(HEADS_ALIKE,))


def test_heads_that_are_only_alike_are_coordinates_where_no_units_are_shared():
    verdict = judged([found("embedding", log10_p=-40), null("mlp"), alike_heads()], stage="deep")
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.reading == "coordinates-and-heads"
    assert "do not tell them apart" in str(verdict.summary)
    assert verdict.components["attention"].conclusion is Conclusion.NOT_TESTABLE
    tested = judged(
        [found("embedding", log10_p=-40), null("mlp"), null("attention"), alike_heads()], stage="deep"
    )
    assert tested.components["attention"].conclusion is Conclusion.NO_EVIDENCE


@pytest.mark.parametrize(
    "others",
    [
        [null("mlp")],  # no coordinates are shared
        [found("embedding", log10_p=-40), found("mlp", log10_p=-40)],  # units are shared
        [found("embedding", log10_p=-40), null("mlp"), found("attention", log10_p=-40, layer=1)],
    ],
)
def test_heads_that_are_only_alike_count_beside_units_and_without_coordinates(others):
    verdict = judged([*others, alike_heads()], stage="deep")
    assert verdict.components["attention"].conclusion.related


def test_heads_that_are_the_same_count():
    same = replace(alike_heads(), flags=())
    verdict = judged([found("embedding", log10_p=-40), null("mlp"), same], stage="deep")
    assert verdict.components["attention"].conclusion.related
    assert verdict.reading is None


def found_again(component, method):
    test = found(component, log10_p=-40, layer=2)
    return replace(test, method=method, axis="residual", reordered=True)


def test_units_that_were_only_found_again_may_have_been_learned():
    matched = [found_again("mlp", "mlp-matching"), found_again("attention", "head-matching")]
    verdict = judged([found("embedding", log10_p=-40), null("mlp"), *matched], stage="deep")
    assert verdict.conclusion is Conclusion.SHARED_REPARAMETRISED
    assert verdict.reading == "units-found-again"
    assert "learned block by block" in str(verdict.headline)
    assert "limitation.learned" in {item.code for item in verdict.limitations}


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([found("embedding", log10_p=-40), found("attention", log10_p=-40)], True),  # numbers were kept
        ([found("embedding", log10_p=-40), found("mlp", log10_p=-40)], False),  # of the same units
        ([], True),  # nothing shows that coordinates are shared
    ],
)
def test_units_found_again_beside_parts_that_kept_their_numbers_are_a_copy_as_a_whole(others, said):
    verdict = judged([*others, found_again("mlp", "mlp-matching")], stage="deep")
    assert verdict.reading is None
    assert ("limitation.learned" in {item.code for item in verdict.limitations}) is said


def test_units_that_are_equal_number_by_number_were_not_learned():
    verdict = judged([found("embedding", log10_p=-40), found_again("mlp", "mlp-matching")], stage="deep")
    retold = retold_by_equality(verdict, {"mlp": ()}, everything=False, candidate="B", base="A")
    assert retold.reading is None
    assert "limitation.learned" not in {item.code for item in retold.limitations}
    assert "learned" not in str(retold.headline)


@pytest.mark.parametrize(
    ("others", "mark"),
    [
        ([null("norms")], "calibrated on the pair's own layers"),
        ([found("embedding", log10_p=-40)], ""),  # an exact p-value in the coordinates that were found
    ],
    ids=["alone", "beside exact tests"],
)
def test_units_found_again_in_other_coordinates_may_have_been_learned(others, mark):
    verdict = judged([*others, *(contrasted(layer) for layer in range(3))], stage="deep")
    assert verdict.conclusion is Conclusion.SHARED_REPARAMETRISED
    assert verdict.reading == "layers-found-again"
    assert "learned block by block" in str(verdict.headline)
    assert mark in str(verdict.headline)
    assert "do not tell them apart" in str(verdict.summary)
    assert "limitation.learned" in {item.code for item in verdict.limitations}


def test_units_that_agree_more_than_those_of_controls_may_have_been_learned():
    verdict = judged([*(agreeing(layer) for layer in range(3)), null("norms")], stage="deep")
    assert verdict.reading == "layers-found-again"
    assert "by comparison with controls" in str(verdict.headline)


def test_equal_numbers_in_other_coordinates_were_not_learned():
    equal = [replace(contrasted(layer, share=1.0), same_numbers=1.0) for layer in range(3)]
    verdict = judged([*equal, null("norms")], stage="deep")
    assert verdict.reading is None
    assert "limitation.learned" not in {item.code for item in verdict.limitations}


def test_units_proven_equal_afterwards_keep_what_they_rest_on():
    verdict = judged([null("norms"), *(contrasted(layer) for layer in range(3))], stage="deep")
    retold = retold_by_equality(verdict, {"mlp": ()}, everything=False, candidate="B", base="A")
    assert retold.reading is None
    assert "learned" not in str(retold.headline)
    assert "calibrated on the pair's own layers" in str(retold.headline)


def test_units_in_other_coordinates_beside_values_that_kept_their_order_are_a_copy():
    attention = found("attention", log10_p=-40)
    verdict = judged([attention, *(contrasted(layer) for layer in range(3))], stage="deep")
    assert verdict.reading is None


def contrasted_heads(share):
    return [contrasted(layer, component="attention", share=share) for layer in range(3)]


@pytest.mark.parametrize("flagged", [[], [alike_heads()]], ids=["contrast alone", "beside flagged heads"])
@pytest.mark.parametrize(("share", "counts"), [(0.4, False), (0.84, False), (0.86, True), (0.9, True)])
def test_contrasted_heads_count_beside_coordinates_only_if_they_are_the_same(flagged, share, counts):
    """Directions of alike heads agree in facing layers, too, once the coordinates are right."""
    around = [found("embedding", log10_p=-40), null("mlp"), null("attention"), *flagged]
    verdict = judged([*around, *contrasted_heads(share)], stage="deep")
    assert verdict.components["attention"].conclusion.related is counts
    assert verdict.reading == ("layers-found-again" if counts else "coordinates-and-heads")


@pytest.mark.parametrize(
    "others",
    [
        [null("mlp")],  # no coordinates are shared
        [found("embedding", log10_p=-40), found("mlp", log10_p=-40)],  # units are shared
    ],
)
def test_contrasted_heads_that_are_alike_count_beside_units_and_without_coordinates(others):
    verdict = judged([*others, *contrasted_heads(0.4)], stage="deep")
    assert verdict.components["attention"].conclusion.related


def gate(layer, *, z, effect, log10_p):
    return found("mlp", log10_p=log10_p, z=z, effect=effect, layer=layer, role="mlp_gate", low=effect - 0.02)


@pytest.mark.parametrize(("z", "counts"), [(-4.0, True), (-5.0, False), (-20.0, False)])
def test_small_findings_beside_a_gate_that_points_away_do_not_count(z, counts):
    """Weights made from public matrices have a sign for each matrix; no copy turns a gate around."""
    evidence = [gate(0, z=15.0, effect=0.2, log10_p=-40), gate(1, z=z, effect=-0.05, log10_p=-1)]
    verdict = judged([*evidence, null("norms")])
    assert verdict.components["mlp"].conclusion.related is counts
    older = decide([*evidence, null("norms")], load_rule("rule-6"), candidate="B", base="A", stage="standard")
    assert older.components["mlp"].conclusion.related


def test_large_findings_and_other_coordinates_count_beside_a_gate_that_points_away():
    away = gate(1, z=-20.0, effect=-0.1, log10_p=-60)
    assert judged([gate(0, z=40.0, effect=0.9, log10_p=-200), away]).components["mlp"].conclusion.related
    turned = found("mlp", log10_p=-40, layer=0, effect=0.3, frame="signed-permutation")
    assert judged([turned, away], stage="deep").components["mlp"].conclusion.related


@pytest.mark.parametrize(
    ("share", "layers", "others"), [(0.84, (0,), (1, 2)), (0.86, (0, 1, 2), ()), (0.95, (0, 1, 2), ())]
)
def test_layers_of_a_copy_are_not_silent_because_exact_tests_found_others(share, layers, others):
    """Some heads of a reordered copy keep their places by chance; only their layers are found."""
    heads = [null("attention", layer=layer) for layer in (1, 2)]
    heads += [found("attention", log10_p=-40, layer=0), *contrasted_heads(share)]
    item = judged([found("mlp", log10_p=-40), *heads], stage="deep").components["attention"]
    assert (item.layers, item.other_layers) == (layers, others)
    assert item.contrasted_layers == layers[1:]
    assert item.is_exact
    older = decide(heads, load_rule("rule-6"), candidate="B", base="A", stage="deep").components["attention"]
    assert (older.layers, older.other_layers, older.contrasted_layers) == ((0,), (1, 2), ())


def test_contrasted_heads_counted_by_rule_5():
    evidence = [found("embedding", log10_p=-40), null("mlp"), *contrasted_heads(0.4)]
    verdict = decide(evidence, load_rule("rule-5"), candidate="B", base="A", stage="deep")
    assert verdict.components["attention"].conclusion.related


def test_heads_that_do_not_agree_leave_the_reading_alone():
    agree = [weak(layer, component="attention") for layer in range(3)]
    verdict = judged([found("embedding", log10_p=-40), null("mlp"), *agree], stage="deep")
    assert verdict.reading == "coordinates-only"


def test_units_in_an_order_of_their_own_clear_nobody():
    guarded = replace(null("norms"), flags=("shift-dispersion",), detection_limit=None)
    verdict = judged([guarded])
    assert verdict.conclusion is Conclusion.NOT_TESTABLE
    assert "the order of the 512 units is not arbitrary" in str(verdict.summary)
    beside = judged([guarded, null("mlp")])
    assert beside.conclusion is Conclusion.NO_EVIDENCE
    assert beside.components["norms"].conclusion is Conclusion.NOT_TESTABLE
    assert judged([guarded, null("norms")]).components["norms"].conclusion is Conclusion.NO_EVIDENCE
