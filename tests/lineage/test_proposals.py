"""Fingerprints say which pairs to compare; only the comparison connects anything."""

import numpy as np
import pytest
from tests.lineage.collection import permuted
from tests.lineage.models import loaded, source

from modelkin import family_forest, fingerprint_model
from modelkin.lineage.proposals import proposed_pairs
from modelkin.lineage.tree_facts import follow
from modelkin.lineage.tree_result import DirectionFact, TreeEdge
from modelkin.message import say
from modelkin.model import open_model

LIGHT = "finetune-light"


def prints(*names):
    found = {}
    for name in names:
        with open_model(source(name)) as model:
            found[name] = fingerprint_model(model)
    return found


def test_relatives_are_proposed_and_strangers_are_not():
    proposed = proposed_pairs(prints("base", LIGHT, "twin-1", "rotated", "deep-1"))
    found = {key: item for key, item in proposed.items() if item.is_found}
    assert found.keys() == {frozenset(("base", LIGHT)), frozenset(("rotated", "deep-1"))}
    assert all(item.log10_p < -6 for item in found.values())
    assert found[frozenset(("base", LIGHT))].other("base") == LIGHT


@pytest.mark.more
def test_only_proposed_pairs_are_compared():
    models = {name: source(name) for name in ("base", LIGHT, "twin-1", "gpt2-base")}
    found = family_forest(models, pairs="proposed", fingerprints=prints("base"))
    assert [{pair.first, pair.second} for pair in found.pairs] == [{"base", LIGHT}]
    assert [set(family.members) for family in found.families] == [{"base", LIGHT}]
    assert set(found.alone) == {"twin-1", "gpt2-base"}
    (edge,) = found.edges
    assert (edge.parent, edge.relation) == ("base", "fine-tune")


@pytest.mark.more
def test_a_model_that_is_left_alone_is_compared_deeper_with_whom_its_fingerprint_proposes():
    models = {name: source(name) for name in ("deep-1", "fewer-layers", "rotated", "twin-1")}
    found = family_forest(models)
    assert [set(family.members) for family in found.families] == [{"deep-1", "fewer-layers", "rotated"}]
    assert found.alone == ("twin-1",)
    deep = [{pair.first, pair.second} for pair in found.pairs if pair.depth == "deep"]
    assert {"rotated", "deep-1"} in deep
    assert not any("twin-1" in pair for pair in deep)
    edge = next(edge for edge in found.edges if "rotated" in (edge.first, edge.second))
    assert {edge.first, edge.second} == {"rotated", "deep-1"}
    assert edge.reason.code == "tree-turned"


@pytest.mark.more
def test_a_heavy_fine_tune_in_another_order_is_looked_for_where_its_tokens_point():
    """Its tokens are too unlike its relatives' to be proposed; it is alone until a deeper look."""
    rng = np.random.default_rng(3)
    models = {name: source(permuted(loaded(name), rng), name) for name in ("finetune-heavy", LIGHT)}
    models |= {name: source(name) for name in ("base", "twin-1")}
    found = family_forest(models, pairs="proposed", relations=False)
    assert [set(family.members) for family in found.families] == [{"base", LIGHT, "finetune-heavy"}]
    assert found.alone == ("twin-1",)
    limit = next(item for item in found.limitations if item.code == "tree-limit-deep")
    assert dict(limit.values)["pairs"] == sum(pair.depth == "deep" for pair in found.pairs) <= 6


def edge(first, second, parent=None, facts=()):
    return TreeEdge(
        first=first,
        second=second,
        kind="nearest",
        parent=parent,
        facts=facts,
        reason=say("tree-nearest"),
        distance=None,
        inheritance=None,
        support=None,
        weight=None,
        pair=None,
    )


def test_what_hangs_on_a_model_with_a_parent_comes_from_it():
    known = edge("b", "a", parent="a")
    found = follow([edge("d", "c"), edge("c", "b"), known, edge("a", "x")])
    assert [item.parent for item in found] == ["c", "b", "a", None]
    assert found[1].facts[0].kind == "one-parent"
    assert found[1].child == "c"


def test_facts_that_contradict_each_other_stay_so():
    said = tuple(
        DirectionFact(kind="dates", parent=parent, child=child, reason=say("tree-nearest"))
        for parent, child in (("b", "c"), ("c", "b"))
    )
    found = follow([edge("b", "a", parent="a"), edge("c", "b", facts=said)])
    assert found[1].parent is None
