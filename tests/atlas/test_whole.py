"""An atlas of models of a Hub with everything it is for: dates, a merge, and cards of all kinds."""

import pytest
from huggingface_hub import constants
from tests.places import ZOO
from tests.serving.client import Client
from tests.support import HubRepo, HubServer

from modelkin.atlas import AtlasOptions, make_atlas, model_key
from modelkin.casework.lab import derive, load_zoo
from modelkin.document import AtlasSite
from modelkin.options import FetchOptions
from modelkin.registry import create_registry, sync, targets_of_hub
from modelkin.serving.application import atlas_app

pytestmark = pytest.mark.more
FETCH = FetchOptions(use_store=False)
CARDS = {
    "base": ((), "llama3", "2024-01-05"),
    "light": (("org/base",), "llama3", "2024-02-05"),  # true
    "heavy": (("org/base",), "mit", "2024-03-05"),  # true, with a wider licence
    "quiet": ((), "llama3", "2024-04-05"),  # leaves its base out
    "merged": (("org/light", "org/heavy"), "llama3", "2024-05-05"),  # true
    "liar": (("org/base",), "llama3", "2024-06-05"),  # a stranger
    "early": (("org/base",), "llama3", "2023-12-05"),  # shares weights, and is dated before its parent
}
ZOO_NAMES = {
    "base": "base",
    "light": "finetune-light",
    "heavy": "finetune-heavy",
    "quiet": "lora",
    "liar": "twin-1",
    "early": "finetune-sibling",
}


def repos(folder):
    """Return the models as repositories."""
    zoo = load_zoo(ZOO)
    places = {name: ZOO / known for name, known in ZOO_NAMES.items()} | {"merged": folder / "merged"}
    mixed = derive.merge_linear([zoo["finetune-light"].load(), zoo["finetune-heavy"].load()], [0.4, 0.6])
    mixed.write(places["merged"])
    found = {}
    for name, (parents, licence, date) in CARDS.items():
        listed = "".join(f"- {parent}\n" for parent in parents)
        base = f"base_model:\n{listed}" if parents else ""
        files = {path.name: path.read_bytes() for path in places[name].iterdir() if path.is_file()}
        files["README.md"] = f"---\nlicense: {licence}\n{base}---\n# {name}\n".encode()
        card = {"license": licence, **({"base_model": list(parents)} if parents else {})}
        found[f"org/{name}"] = HubRepo(files=files, card_data=card, dates=(date,))
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return the atlas, and where its registry is."""
    where = str(tmp_path_factory.mktemp("whole") / "registry")
    with (
        HubServer(repos(tmp_path_factory.mktemp("merged"))) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(constants, "ENDPOINT", server.url)
        registry, _ = sync(create_registry(where), targets_of_hub(FETCH, author="org"), fetch=FETCH)
        return make_atlas(registry, AtlasOptions(reports=1, fetch=FETCH)), where


@pytest.fixture(scope="module")
def atlas(found):
    return found[0]


@pytest.fixture(scope="module")
def client(found):
    return Client(atlas_app(*found))


def test_dates_are_those_of_the_first_commit_on_the_hub(atlas):
    assert {ref: model.declared.date for ref, model in atlas.models.items()} == {
        f"org/{name}": date for name, (_, _, date) in CARDS.items()
    }


def test_every_card_is_judged_as_it_deserves(atlas):
    assert {(claim.child, claim.named): claim.status for claim in atlas.claims} == {
        ("org/light", "org/base"): "supported",
        ("org/heavy", "org/base"): "supported",
        ("org/merged", "org/light"): "supported",
        ("org/merged", "org/heavy"): "supported",
        ("org/liar", "org/base"): "contradicted",
        ("org/early", "org/base"): "untestable",
    }
    (early,) = [claim for claim in atlas.claims if claim.child == "org/early"]
    assert early.reason.code == "atlas-later-parent"
    assert (early.child_date, early.parent_date) == ("2023-12-05", "2024-01-05")


def test_the_merge_has_its_parents_and_their_weights(atlas):
    (merge,) = atlas.merges
    assert merge.model == "org/merged"
    assert dict(zip(merge.parents, merge.weights, strict=True)) == pytest.approx(
        {"org/light": 0.4, "org/heavy": 0.6}, abs=0.02
    )
    kinds = {
        (edge.first, edge.second): edge.kind
        for edge in atlas.edges
        if "org/merged" in (edge.first, edge.second)
    }
    assert set(kinds.values()) == {"merge"}


def test_the_card_that_leaves_its_base_out_and_the_licence_that_widens_are_listed(atlas):
    (unnamed,) = atlas.unnamed
    assert (unnamed.child, unnamed.date) == ("org/quiet", "2024-04-05")
    assert "org/base" in unnamed.earlier
    assert {(step.child, step.parent) for step in atlas.licences} == {
        ("org/heavy", "org/base"),
    }


def test_the_interface_tells_all_of_it(client):
    def about(name):
        return client.get(f"/api/models/{model_key(f'org/{name}')}").json()

    assert [claim["status"] for claim in about("liar")["claims"]] == ["contradicted"]
    assert about("quiet")["unnamed"]["earlier_dates"][0].startswith("202")
    assert [step["parent_licence"] for step in about("heavy")["licences"]] == ["llama3"]
    (merge,) = about("merged")["merges"]
    assert merge == about("light")["merges"][0]
    assert about("merged")["declared"]["date"] == "2024-05-05"
    whole = client.get("/api/atlas").json()
    assert [len(whole[key]) for key in ("merges", "unnamed", "licences")] == [1, 1, 1]


def test_the_pages_tell_all_of_it(atlas):
    site = AtlasSite(atlas)

    def text(path):
        part = site.part(path)
        assert part is not None
        return part.text

    first = text("index.html")
    for key, name in (
        ("contradicted", "liar"),
        ("unnamed", "quiet"),
        ("licences", "heavy"),
        ("merges", "merged"),
    ):
        section = first.partition(f'id="{key}"')[2].partition("<section")[0]
        assert f"org/{name}" in section, key
    page = text(f"models/{model_key('org/merged')}.html")
    assert "2024-05-05" in page
    assert "0.40" in page
    assert "0.60" in page
