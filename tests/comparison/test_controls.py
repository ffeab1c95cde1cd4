"""Controls of the truth table: like the base, related to nobody, and no help to accuse a stranger."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from tests.comparison.expectations import DEEP, controls_of, n_units
from tests.comparison.relations import disguised, lineages, zoo_model
from tests.places import ZOO

import modelkin as mk
from modelkin.comparison import stages
from modelkin.comparison.controls import agreement_score
from modelkin.comparison.deep import agreements
from modelkin.comparison.methods import Agreement
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.stages import judge
from modelkin.comparison.tokens import pair_tokens
from modelkin.comparison.verdict import load_rule
from modelkin.source import MemorySource
from modelkin.stats import log10_conformal

pytestmark = pytest.mark.timeout(600)
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
