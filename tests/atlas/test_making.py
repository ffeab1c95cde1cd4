"""From fingerprints to an atlas: what cannot be read is a reason, and nothing is guessed."""

from dataclasses import replace

import pytest
from tests.atlas.made import drawn_family, registered

from modelkin.atlas import AboutModel, AtlasOptions, make_atlas, read_about
from modelkin.errors import FormatError
from modelkin.message import say
from modelkin.registry import create_registry


@pytest.fixture(scope="module")
def of_fingerprints(tmp_path_factory):
    made = [*drawn_family("one", 3, seed=10), *drawn_family("two", 1, seed=20)]
    registry, _ = create_registry(str(tmp_path_factory.mktemp("drawn") / "r")).add(made)
    return registry


BARE = AtlasOptions(cards=False, claims_depth=None, grow=0, reports=0)


def test_fingerprints_alone_give_families_and_nearest_relatives(of_fingerprints):
    atlas = make_atlas(of_fingerprints, BARE)
    (family,) = atlas.families
    assert set(family.members) == {"one/base", "one/child-1", "one/child-2"}
    assert not family.grown
    assert {edge.kind for edge in atlas.edges} == {"nearest"}
    assert {edge.parent for edge in atlas.edges} == {None}
    assert len(atlas.edges) == 2
    assert [*atlas.claims, *atlas.unnamed, *atlas.licences] == []
    assert {model.declared.reason for model in atlas.models.values()} == {say("atlas-no-cards")}


def test_a_family_whose_weights_cannot_be_had_says_why(of_fingerprints):
    options = replace(BARE, grow=5, reports=1, fetch=replace(BARE.fetch, offline=True))
    atlas = make_atlas(of_fingerprints, options)
    (family,) = atlas.families
    assert not family.grown
    assert family.notes[0].code == "atlas-not-grown"
    (failed,) = [pair for pair in atlas.pairs if pair.reason is not None]
    assert failed.conclusion is None


def test_cards_that_cannot_be_read_are_reasons(of_fingerprints):
    options = replace(BARE, cards=True, fetch=replace(BARE.fetch, offline=True))
    about = {"one/base": AboutModel(date="2024-01-01"), "one/child-1": AboutModel(date="2024-02-01")}
    atlas = make_atlas(of_fingerprints, options, about=about)
    assert all(model.declared.reason is not None for model in atlas.models.values())
    assert atlas.unnamed == ()


def test_of_several_revisions_the_last_counts(of_fingerprints, tmp_path):
    made = drawn_family("one", 2, seed=10)
    newer = replace(made[1], model=replace(made[1].model, revision="f" * 40))
    registry, _ = create_registry(str(tmp_path / "r")).add([*made, newer])
    atlas = make_atlas(registry, BARE)
    assert len(atlas.models) == 2
    assert atlas.models["one/child-1"].revision == "f" * 40


def test_an_empty_registry_has_an_empty_atlas(tmp_path):
    atlas = make_atlas(registered(tmp_path / "r", []))
    assert (atlas.models, atlas.families, atlas.pairs) == ({}, (), ())


def test_a_damaged_segment_is_left_out_and_said(of_fingerprints, tmp_path):
    registry, _ = create_registry(str(tmp_path / "r")).add(drawn_family("one", 2, seed=1))
    registry, _ = registry.add(drawn_family("two", 2, seed=9))
    sorted((tmp_path / "r" / "segments").iterdir())[0].write_bytes(b"damage")
    atlas = make_atlas(registry, BARE)
    assert set(atlas.models) == {"two/base", "two/child-1"}
    assert atlas.notes[0].code == "scan-damaged"


def test_names_and_dates_are_read_from_a_table():
    text = "ref\tname\tdate\n/a\torg/a\t2024-01-31\n\n/b\t\t\n"
    found = read_about(text, where="models.tsv")
    assert found == {"/a": AboutModel(name="org/a", date="2024-01-31"), "/b": AboutModel()}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected the columns"),
        ("a,b,c\n", "expected the columns"),
        ("ref\tname\tdate\n/a\n", "line 2: expected a model"),
        ("ref\tname\tdate\n/a\t\t\n/a\t\t\n", "line 3: expected a model"),
        ("ref\tname\tdate\n/a\t\tyesterday\n", "line 2: expected a date"),
    ],
)
def test_a_malformed_table_is_refused(text, problem):
    with pytest.raises(FormatError, match=problem):
        read_about(text, where="models.tsv")
