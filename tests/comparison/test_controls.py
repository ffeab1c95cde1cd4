"""Controls of the truth table: like the base, related to nobody, and no help to accuse a stranger."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from tests.comparison.expectations import DEEP, controls_of, n_units
from tests.comparison.relations import disguised, lineages, zoo_model
from tests.places import ZOO

import modelkin as mk
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison import controls, stages
from modelkin.comparison.controls import agreement_score, contrasted_layers, distinct_controls
from modelkin.comparison.deep import agreements, contrasts
from modelkin.comparison.methods import Agreement, Contrast
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.stages import judge
from modelkin.comparison.strangers import scores_by_part
from modelkin.comparison.tokens import pair_tokens
from modelkin.comparison.verdict import load_rule
from modelkin.source import MemorySource
from modelkin.stats import log10_conformal

pytestmark = pytest.mark.timeout(600)
HERE = mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False))
WANTED = load_rule().agreement["control_pairs"]


def score_of(candidate: str, base: str) -> float:
    with mk.open_model(str(ZOO / candidate)) as mine, mk.open_model(str(ZOO / base)) as theirs:
        pair = ModelPair(candidate=mine, base=theirs, options=DEEP)
        return agreement_score(agreements(pair, pair_tokens(mine, theirs)))


@pytest.mark.parametrize("base", [members[-1] for members in lineages().values()])
def test_controls_are_of_other_lineages_and_not_larger(base):
    found = controls_of(base, "moe16-tuned")
    roots = {member: root for root, members in lineages().items() for member in members}
    assert len({roots[name] for name in found}) == len(found)
    assert not {roots[name] for name in found} & {roots[base], "moe16-1", "distilled"}
    assert all(n_units(name) <= n_units(base) for name in found)


def test_strangers_agree_less_the_more_units_they_have():
    """This is why a control may be smaller than the base, and why the zoo's are not larger."""
    means = []
    for names in (
        ("heads8-1", "heads8-2", "heads8-3", "heads8-4"),
        ("deep-1", "deep-2", "deep-3"),
        ("base", "twin-1", "order-1", "corpus-1"),
        ("moe16-1", "moe16-2", "moe16-3", "moe16-4"),
    ):
        scores = [score_of(*pair) for pair in combinations(names, 2)]
        means.append(sum(scores) / len(scores))
    assert means == sorted(means, reverse=True)
    assert means[0] > 5 * means[-1]


@pytest.mark.parametrize(
    ("candidate", "base"), [("gpt2-twin", "gpt2-base"), ("moe-twin", "moe-base"), ("deep-2", "deep-1")]
)
def test_strangers_are_not_above_all_controls_where_these_are_smaller(candidate, base):
    controls = controls_of(base, candidate)
    assert any(n_units(name) < n_units(base) for name in controls)
    scores = [score_of(side, name) for name in controls for side in (candidate, base)]
    scores += [score_of(*pair) for pair in combinations(controls, 2)]
    assert len(scores) >= WANTED
    assert log10_conformal(score_of(candidate, base), scores) > -1


@pytest.mark.parametrize(
    ("candidate", "base"), [("gpt2-twin", "gpt2-base"), ("moe-twin", "moe-base"), ("deep-2", "deep-1")]
)
def test_strangers_under_a_disguise_that_only_controls_can_tell_are_not_accused(candidate, base, monkeypatch):
    judged: Counter[tuple[str, str]] = Counter()

    def counted(pair, *rest, **named):
        judged[pair.candidate.location.ref, pair.base.location.ref] += 1
        return judge(pair, *rest, **named)

    monkeypatch.setattr(stages, "judge", counted)
    hidden = disguised(zoo_model(candidate), "units", "heads", "residual-permutation")
    result = mk.compare(
        candidate=MemorySource(hidden.files("F32"), name="candidate"),
        base=str(ZOO / base),
        options=DEEP,
        controls=[str(ZOO / name) for name in controls_of(base, candidate)],
    )
    assert any(isinstance(test, Agreement) for test in result.evidence)
    assert result.verdict.related is False
    assert not result.flags
    assert judged.total() >= 1 + 2 * len(controls_of(base, candidate))
    assert set(judged.values()) == {1}


def held(name: str, again: int = 0) -> MemorySource:
    return MemorySource(zoo_model(name).files("F32"), name=f"{name}-{again}")


@pytest.fixture(scope="module")
def hidden() -> Checkpoint:
    """A copy in which only the pair's own layers tell."""
    return disguised(zoo_model("finetune-light"), "heads", "units", "residual-rotation")


def ranks(result: mk.Comparison) -> set[tuple[int, float]]:
    """Return how many pairs layers were ranked among, and the largest."""
    contrasts = [item for item in result.evidence if isinstance(item, Contrast)]
    assert contrasts
    return {
        (item.rank.control_pairs, round(item.rank.largest_control, 2))
        for item in contrasts
        if item.rank is not None
    }


def ranked(hidden: Checkpoint, *controls: MemorySource) -> mk.Comparison:
    return mk.compare(
        MemorySource(hidden.files("F32"), name="hidden"), held("base"), options=HERE, controls=controls
    )


def test_a_control_that_is_given_again_counts_once_and_this_is_said(hidden):
    result = ranked(hidden, held("twin-1"), held("twin-1", 1))
    assert ranks(result) == {(2, 0.01)}
    assert [flag.code for flag in result.flags] == ["flag-control-again"]
    assert len(result.controls) == 2
    assert len(result.environment.controls) == 2


def test_a_control_that_is_a_relative_of_another_counts_as_one_lineage(hidden):
    result = ranked(hidden, held("twin-1"), MemorySource(zoo_model("twin-1").files("BF16"), name="rounded"))
    assert ranks(result) == {(2, 0.01)}
    assert len(result.controls) == 4


def test_one_of_both_sides_is_no_control(hidden, monkeypatch):
    judged: Counter[tuple[str, str]] = Counter()

    def counted(pair, *rest, **named):
        judged[pair.candidate.location.ref, pair.base.location.ref] += 1
        return judge(pair, *rest, **named)

    monkeypatch.setattr(stages, "judge", counted)
    result = ranked(hidden, held("base", 1), held("twin-1"))
    assert set(judged.values()) == {1}
    assert judged.total() == 3
    unread = [item for item in result.controls if item.reason is not None]
    assert [(item.pair[1], item.reason.code) for item in unread if item.reason] == [
        ("base-1", "control-is-side")
    ] * 2
    assert ranks(result) == {(2, 0.01)}


def test_layers_that_a_judgement_contrasted_are_not_contrasted_again(hidden, monkeypatch):
    made: Counter[tuple[str, str]] = Counter()

    def counted(pair, *rest):
        made[pair.candidate.location.ref, pair.base.location.ref] += 1
        return contrasts(pair, *rest)

    monkeypatch.setattr(controls, "contrasts", counted)
    result = ranked(hidden, held("twin-1"), held("twin-2"))
    assert {n for n, _ in ranks(result)} == {5}
    assert made == {("twin-1-0", "twin-2-0"): 1}  # which nothing judges


@pytest.mark.parametrize("other", ["twin-1", "order-1"])
def test_a_judgement_contrasts_layers_as_contrasting_alone_does(other):
    with mk.open_model(str(ZOO / "base")) as mine, mk.open_model(str(ZOO / other)) as theirs:
        pair = ModelPair(candidate=mine, base=theirs, options=DEEP)
        alone = contrasted_layers(contrasts(pair, pair_tokens(mine, theirs)))
        together = contrasted_layers(judge(pair, stages.new_memory()).evidence)
    assert alone
    assert [(item.component, item.frame, item.layers) for item in alone] == [
        (item.component, item.frame, item.layers) for item in together
    ]
    assert scores_by_part(together) == pytest.approx(scores_by_part(alone), abs=0.01)


def test_models_with_one_name_in_memory_are_not_taken_for_one_another():
    with (
        mk.open_model(held("base")) as base,
        mk.open_model(MemorySource(zoo_model("twin-1").files("F32"), name="base-0")) as other,
    ):
        pair = ModelPair(candidate=base, base=base, options=DEEP)
        assert distinct_controls(pair, [other]).models == (other,)
        assert distinct_controls(pair, [base]).sides == (base,)
