"""Published models with documented descent as a forest: copies in three formats, and fine-tunes."""

from __future__ import annotations

import pytest
from tests.real.published import published

from modelkin import family_forest

# A minute of one core; a machine that does other things as well is slow.
pytestmark = pytest.mark.timeout(900)

COPIES = ("minilm_bin", "minilm_f16", "minilm_int8", "minilm_int8_other")
FINE_TUNES = {"sre", "cloneguard"}
TUNED = {"rx_ft", "rx_ft10k"}
VERSIONS = ("quire_3_0", "quire_3_1", "quire_3_2")


@pytest.fixture(scope="module")
def forest():
    names = ("minilm", *COPIES, *sorted(FINE_TUNES), "rx_pre", *sorted(TUNED), *VERSIONS)
    return family_forest({name: str(published(name)) for name in names}, pairs="proposed")


def test_families_are_those_of_the_documents(forest):
    families = {frozenset(family.members) for family in forest.families}
    assert families == {
        frozenset({"minilm", *FINE_TUNES, *COPIES}),
        frozenset({"rx_pre", *TUNED}),
        frozenset(VERSIONS),
    }
    assert forest.alone == ()


def test_copies_and_fine_tunes_hang_on_what_they_were_made_of(forest):
    edges = {frozenset((edge.first, edge.second)): edge.relation for edge in forest.edges}
    known = {pair: relation for pair, relation in edges.items() if not pair & {*VERSIONS}}
    assert known == {
        frozenset(("minilm", "minilm_bin")): "copy",
        frozenset(("minilm", "minilm_f16")): "precision-copy",
        frozenset(("minilm", "minilm_int8")): "quantised-copy",
        frozenset(("minilm", "minilm_int8_other")): "quantised-copy",
        frozenset(("minilm", "sre")): "fine-tune",
        frozenset(("minilm", "cloneguard")): "fine-tune",
        frozenset(("rx_pre", "rx_ft")): "fine-tune",
        frozenset(("rx_pre", "rx_ft10k")): "fine-tune",
    }


def test_a_version_that_was_stored_anew_hangs_on_its_copy(forest):
    """What all of them were made of is not there: which of two equal ones the third hangs on says nothing."""
    edges = [
        (edge, {edge.first, edge.second}) for edge in forest.edges if {edge.first, edge.second} & {*VERSIONS}
    ]
    (copy,) = (edge for edge, pair in edges if pair == {"quire_3_1", "quire_3_2"})
    (other,) = (edge for edge, pair in edges if "quire_3_0" in pair)
    assert len(edges) == 2
    assert (copy.relation, other.relation) == ("copy", "fine-tune")
    assert copy.distance == 0.0
    assert other.distance > 0.01


def test_directions_are_named_where_rounding_tells_them_and_nowhere_else(forest):
    """All are float32: of a fine-tune and its base nothing says which came first."""
    named = {
        edge.child: (edge.parent, [fact.kind for fact in edge.facts]) for edge in forest.edges if edge.parent
    }
    assert named == {
        "minilm_f16": ("minilm", ["rounded"]),
        "minilm_int8": ("minilm", ["quantised-grid"]),
        "minilm_int8_other": ("minilm", ["quantised-grid"]),
    }
