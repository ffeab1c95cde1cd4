"""The atlas of demo models: honest cards pass, others are named."""

from pathlib import Path

import pytest
from tests.atlas.made import carded, registered

from modelkin.atlas import AtlasOptions, make_atlas
from modelkin.demo import demo_zoo

pytestmark = pytest.mark.more
CARDS = {
    "base": ((), "apache-2.0", "2024-01-01"),
    "finetune-light": (("org/base",), "apache-2.0", "2024-03-01"),  # true
    "continued": ((), "mit", "2024-04-01"),  # leaves its base out
    "twin-1": (("org/base",), "mit", "2024-06-01"),  # a stranger
    "moe-base": ((), "llama3", "2024-02-01"),
    "moe-tuned": (("org/moe-base", "org/elsewhere"), "mit", "2024-07-01"),  # true, with a wider licence
}


@pytest.fixture(scope="module")
def about(tmp_path_factory):
    with demo_zoo() as zoo:
        return carded(tmp_path_factory.mktemp("models"), zoo, CARDS)


@pytest.fixture(scope="module")
def registry(tmp_path_factory, about):
    return registered(tmp_path_factory.mktemp("atlas") / "registry", list(about))


@pytest.fixture(scope="module")
def atlas(registry, about):
    return make_atlas(registry, AtlasOptions(reports=1), about=about)


def short(ref):
    return Path(ref).name


def test_families_are_what_accepted_pairs_connect(atlas):
    assert [{short(ref) for ref in family.members} for family in atlas.families] == [
        {"base", "continued", "finetune-light"},
        {"moe-base", "moe-tuned"},
    ]
    assert [short(ref) for ref, model in atlas.models.items() if model.family is None] == ["twin-1"]
    assert atlas.n_found == 4
    assert atlas.n_pairs == 15


def test_a_card_is_contradicted_by_weights_alone_and_no_honest_one_is(atlas):
    said = {(short(claim.child), claim.named): claim.status for claim in atlas.claims}
    assert said == {
        ("finetune-light", "org/base"): "supported",
        ("twin-1", "org/base"): "contradicted",
        ("moe-tuned", "org/moe-base"): "supported",
        ("moe-tuned", "org/elsewhere"): "untestable",
    }
    (claim,) = atlas.contradicted
    (pair,) = [item for item in atlas.pairs if {item.first, item.second} == {claim.child, claim.parent}]
    assert (pair.conclusion, pair.depth, pair.found) == ("no-evidence", "deep", False)


def test_a_card_without_a_parent_has_its_earlier_relatives_listed(atlas):
    (item,) = atlas.unnamed
    assert short(item.child) == "continued"
    assert {short(ref) for ref in item.earlier} == {"base", "finetune-light"}


def test_a_licence_that_widens_is_listed(atlas):
    (step,) = atlas.licences
    assert (short(step.child), short(step.parent)) == ("moe-tuned", "moe-base")
    assert step.missing == ("named", "use-limits", "user-limits")


def test_trees_are_grown_on_weights_and_declared_edges_stay(atlas):
    assert all(family.grown for family in atlas.families)
    kinds = {(short(edge.first), short(edge.second)): edge.kind for edge in atlas.edges}
    assert kinds["finetune-light", "base"] == "declared"
    assert kinds["moe-tuned", "moe-base"] == "declared"
    assert len(kinds) == 3


def test_pairs_that_were_compared_have_their_report(atlas):
    compared = [pair for pair in atlas.pairs if pair.comparison is not None]
    assert len(compared) == 2
    assert all(pair.comparison.verdict.conclusion.value == pair.conclusion for pair in compared)
