"""All models of the zoo with true cards: whatever was done to them, nobody is accused."""

import json

import pytest
from tests.atlas.made import carded, registered
from tests.places import ZOO

from modelkin.atlas import AtlasOptions, make_atlas

pytestmark = [pytest.mark.more, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def parents():
    models = json.loads((ZOO / "zoo.json").read_text())["models"]
    return {model["name"]: model["parent"] for model in models}


@pytest.fixture(scope="module")
def honest(tmp_path_factory, parents):
    """Return the atlas of models whose cards name their true parents, each dated after its parent."""

    def generation(name):
        return 0 if parents[name] is None else 1 + generation(parents[name])

    cards = {
        name: ((() if parent is None else (f"org/{parent}",)), "mit", f"2024-01-{1 + generation(name):02d}")
        for name, parent in parents.items()
    }
    about = carded(tmp_path_factory.mktemp("honest"), ZOO, cards)
    registry = registered(tmp_path_factory.mktemp("honest-registry") / "r", list(about))
    return make_atlas(registry, AtlasOptions(grow=0, reports=0), about=about)


def test_no_honest_card_is_accused(honest, parents):
    assert honest.contradicted == ()
    assert honest.unnamed == ()
    assert honest.licences == ()
    declared = sum(parent is not None for parent in parents.values())
    assert len(honest.claims) == declared > 30
    assert {claim.status for claim in honest.claims} == {"supported"}


def test_signs_spare_most_pairs_and_join_no_strangers(honest, parents):
    def root(ref):
        name = ref.rpartition("/")[2]
        while parents[name] is not None:
            name = parents[name]
        # The same initial values are a common origin of weights without any descent.
        return "base" if name == "same-initialisation" else name

    assert honest.n_tested < honest.n_pairs / 10
    for family in honest.families:
        assert len({root(ref) for ref in family.members}) == 1, family.members
