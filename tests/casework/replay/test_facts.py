"""The shipped facts: small, complete, with their sources; and the formulas hold on them."""

import numpy as np
import pytest

from modelkin.casework.replay.facts import PAIRS, WIDTH, _file, load_facts
from modelkin.casework.replay.matrices import matched_mean, random_matchings
from modelkin.casework.replay.norms import about_one, relative_l2

FACTS = load_facts()


def vectors(norms, layer, seed=0):
    """Make two vectors with the published means, deviations and correlation of one layer."""
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(2, WIDTH))
    a = (a - a.mean()) / a.std()
    b = b - b.mean() - (a @ (b - b.mean())) / WIDTH * a
    b = b / b.std()
    r = norms.pearson[layer]
    b = r * a + np.sqrt(1 - r**2) * b
    return norms.mean_a[layer] + norms.std_a[layer] * a, norms.mean_b[layer] + norms.std_b[layer] * b


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_the_facts_are_small_and_every_file_names_its_source():
    files = [file for file in _file("").iterdir() if file.is_file()]
    assert sum(len(file.read_bytes()) for file in files) < 300_000
    described = FACTS.single["files"]
    for file in files:
        name = "abs_pearson_*.csv" if file.name.startswith("abs_pearson_") else file.name
        assert set(described[name]["from"].split(", ")) <= FACTS.single["sources"].keys()
    assert len(described) == len({n if "abs_" not in n else "abs" for n in (f.name for f in files)})


def test_every_claim_has_a_source_that_exists():
    for key, (_, tolerance, source, kind) in FACTS.claims.items():
        assert set(source.split(", ")) <= FACTS.single["sources"].keys(), key
        assert tolerance >= 0
        assert kind in {"printed", "rounded", "read", "predicted", "average"}


def test_there_are_two_norms_of_46_layers():
    for norms in FACTS.norms.values():
        assert norms.layers.tolist() == list(range(46))


@pytest.mark.parametrize("role", ["input", "post"])
@pytest.mark.parametrize("layer", [0, 10, 45])
def test_the_formulas_from_means_and_correlation_are_those_of_real_vectors(role, layer):
    norms = FACTS.norms[role]
    a, b = vectors(norms, layer)
    assert norms.identity[layer] == pytest.approx(cosine(a, b), abs=1e-12)
    assert about_one(norms)[layer] == pytest.approx(cosine(a - 1, b - 1), abs=1e-12)
    # The published cosine has the precision of single numbers.
    exact = np.linalg.norm(a - b) / np.linalg.norm(a)
    assert relative_l2(norms)[layer] == pytest.approx(exact, abs=1e-6)


def test_the_identity_holds_on_all_92_published_rows():
    for norms in FACTS.norms.values():
        assert np.abs(norms.identity - norms.cosine).max() < 1e-6


def test_the_figures_that_were_read_agree_with_the_tables_to_the_pixel():
    r = FACTS.norms["input"].pearson
    assert np.abs(FACTS.pearson.facing - r).max() < 0.0015
    drawn = FACTS.abs_pearson["Solar-GLM"].published
    assert np.abs(np.abs(FACTS.pearson.published) - drawn).max() < 0.003
    assert set(FACTS.abs_pearson) == set(PAIRS)


def test_the_prediction_layer_of_glm_faces_nothing():
    depth = {"Solar": 47, "GLM": 46, "INTELLECT": 46, "Phi": 32}  # the last layer of Solar was not drawn
    for pair, table in {"Solar-GLM": FACTS.pearson, **FACTS.abs_pearson}.items():
        first, second = pair.split("-")
        assert table.decoders.shape == (depth[first], depth[second])
        assert len(table.facing) == min(depth[first], depth[second])


def test_both_runs_of_the_claim_agree_on_the_norms():
    for role, norms in FACTS.norms.items():
        assert np.abs(FACTS.window(role, "cosine") - norms.cosine).max() < 1e-6
        assert np.abs(norms.claim_pearson - norms.pearson).max() < 1e-6


def test_the_matching_finds_a_hidden_order():
    random = np.random.default_rng(1)
    rows = random.normal(size=(20, 64))
    order = random.permutation(20)
    assert matched_mean(rows, rows[order]) == pytest.approx(1.0)


def test_a_search_finds_something_in_noise_and_is_seeded():
    found = random_matchings(32, 256, draws=3, seed=4)
    assert found.min() > 0.05
    assert found.tolist() == random_matchings(32, 256, draws=3, seed=4).tolist()
