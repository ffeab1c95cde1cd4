"""Every formula against numbers that others measured on real models."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from modelkin.describe.measures import (
    MEASURES,
    LayerMatrix,
    Pairs,
    Stack,
    describe_rows,
    distribution,
    gaussian_cosine,
    measured,
    off_diagonal,
    offset_profile,
    random_draws,
)

from .exact import pair_with

DATA = Path(__file__).parent / "data"
NORMS = list(csv.DictReader((DATA / "solar_glm_norms.csv").read_text().splitlines()))
THREE = json.loads((DATA / "three_models.json").read_text())
SINGLE = 1e-6
"""Single precision moves these numbers by less."""


def vectors(row):
    return pair_with(
        mean_a=float(row["mean_a"]),
        std_a=float(row["std_a"]),
        mean_b=float(row["mean_b"]),
        std_b=float(row["std_b"]),
        r=float(row["pearson"]),
    )


@pytest.fixture(scope="module")
def gains():
    """All 92 pairs of gains, with the published statistics."""
    both = [vectors(row) for row in NORMS]
    return Stack([a for a, _ in both]), Stack([b for _, b in both])


def column(name):
    return np.array([float(row[name]) for row in NORMS])


def of(name, gains, *, expect=False):
    return measured(MEASURES[name], gains[0], gains[1], Pairs.diagonal(92), expect=expect)


def test_there_are_two_norms_of_46_layers():
    assert len(NORMS) == 92


def test_the_identity_of_cosine_means_and_correlation_holds_on_all_92_rows(gains):
    assert np.abs(of("cosine", gains).values - column("cosine")).max() < SINGLE
    assert np.abs(of("pearson", gains).values - column("pearson")).max() < SINGLE
    excess = of("cosine", gains).values - of("mean-direction", gains).values
    assert np.abs(of("excess-cosine", gains).values - excess).max() < 1e-12


def test_cosines_in_double_precision_agree_too(gains):
    assert np.abs(of("cosine", gains).values - column("cosine_windows")).max() < SINGLE


def test_relative_distances_agree_on_all_92_rows(gains):
    found = of("relative-l2", gains).values
    assert np.abs(found / column("relative_l2") - 1.0).max() < SINGLE


def test_one_published_shuffle_is_within_its_exact_distribution(gains):
    found = of("cosine", gains, expect=True)
    z = (column("shuffled") - found.expected) / found.expected_sd
    assert np.abs(column("shuffled") - found.expected).max() < 0.0027
    # One order was used for all of them, so they are not independent; but each is one draw.
    assert np.abs(z).max() < 4.0
    assert 0.5 < float(np.sqrt((z**2).mean())) < 1.6


def test_published_means_over_layers(gains):
    pre = np.array([row["role"] == "attention_norm" for row in NORMS])
    cosine, null, r = (of(name, gains).values for name in ("cosine", "mean-direction", "pearson"))
    assert cosine[pre].mean() == pytest.approx(0.948743, abs=SINGLE)
    assert null[pre].mean() == pytest.approx(0.94920, abs=1e-5)
    assert r[pre].mean() == pytest.approx(0.012602, abs=SINGLE)
    assert cosine[~pre].mean() == pytest.approx(0.986383, abs=SINGLE)
    assert r[~pre].mean() == pytest.approx(-0.001872, abs=SINGLE)
    # The number that was taken for proof is below what reordering gives.
    assert cosine[pre].mean() < null[pre].mean()


def test_layer_0_is_an_outlier_by_its_mean_alone(gains):
    rho = gains[0].rho
    assert rho[0] == pytest.approx(0.372, abs=0.0005)
    assert rho[0] * rho[20] == pytest.approx(0.366, abs=0.001)  # row 20 is the input norm of layer 10


def test_published_lengths_and_distances(gains):
    found = describe_rows(gains[0])
    assert found[0].norm == pytest.approx(2.797, abs=0.0005)
    assert found[1].norm == pytest.approx(10.170, abs=0.0005)
    assert of("l2", gains).values[20] == pytest.approx(17.1803, abs=5e-5)


@pytest.mark.parametrize("layer", [10, 20, 30])
@pytest.mark.parametrize("role", ["attention_norm", "mlp_norm"])
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("cosine", "cosine"),
        ("pearson", "pearson"),
        ("centered_cosine", "pearson"),
        ("rel_l2", "relative-l2"),
        ("cv_diff", "cv-difference"),
    ],
)
def test_a_second_team_measured_the_same(gains, layer, role, theirs, ours):
    row = next(i for i, item in enumerate(NORMS) if (int(item["layer"]), item["role"]) == (layer, role))
    published = THREE[theirs][str(layer)][role][0][1]
    found = measured(MEASURES[ours], gains[0], gains[1], Pairs.of([row], [row])).values[0]
    assert found == pytest.approx(published, abs=SINGLE)


def test_counted_values_were_counted_three_times():
    # z was cosine times the root of the number of values: 12,288 for tensors of 4,096.
    counted = (column("z_windows") / column("cosine_windows")) ** 2
    assert np.abs(counted - 12_288).max() < 0.01


def test_the_digitised_matrix_has_no_peak_on_its_diagonal():
    cells = np.loadtxt(DATA / "solar_glm_pearson_47x47_digitised.csv", delimiter=",")
    numbers = tuple(range(47))
    values = np.ma.masked_invalid(cells)
    matrix = LayerMatrix(values=values, expected=values, layers_a=numbers, layers_b=numbers)
    profile = offset_profile(matrix)
    others = off_diagonal(matrix)
    assert profile[0].n == 47
    assert profile[0].mean == pytest.approx(0.0135, abs=5e-5)
    assert others is not None
    assert others.mean == pytest.approx(0.0113, abs=5e-5)
    assert profile[-10].mean == pytest.approx(0.010, abs=0.002)
    assert profile[10].mean > profile[0].mean


def test_embedding_rows_scatter_as_unrelated_ones_do():
    found = distribution(np.loadtxt(DATA / "solar_glm_embedding_cosines.txt"))
    assert found is not None
    assert found.n == 300
    assert found.sd == pytest.approx(0.015330, abs=3e-5)
    assert found.mean == pytest.approx(-0.000984, abs=1e-6)
    assert found.sd == pytest.approx(1 / 64, rel=0.05)


@pytest.mark.parametrize(
    ("sd", "cosine", "spread", "r_sd"),
    [(0.01, 0.999900, 2.213e-6, 0.01577), (0.1, 0.9901, 2e-4, 0.0150)],
)
def test_published_random_baselines(sd, cosine, spread, r_sd):
    rows, _ = pair_with(mean_a=1.0, std_a=sd, mean_b=1.0, std_b=sd, r=0.0)
    stack = Stack(rows[None, :])
    names = [MEASURES["cosine"], MEASURES["pearson"]]
    drawn = random_draws(names, stack, stack, Pairs.diagonal(1), draws=400, seed=0)
    assert gaussian_cosine(1.0, 1.0, sd, sd) == pytest.approx(cosine, abs=1e-4 * sd**0.5)
    assert drawn["cosine"].mean() == pytest.approx(cosine, abs=spread)
    assert drawn["cosine"].std() == pytest.approx(spread, rel=0.2)
    assert drawn["pearson"].std() == pytest.approx(r_sd, rel=0.12)


def test_one_step_of_one_value_is_what_deep_layers_of_a_sibling_showed():
    # The published mean absolute difference of layers 44 and 45 is 9.5e-7 = 2^-8 / 4096.
    rng = np.random.default_rng(0)
    gains = (rng.integers(128, 256, 4096) / 256).astype(np.float32)  # BF16 numbers between 0.5 and 1
    moved = gains.copy()
    moved[7] += np.float32(2.0**-8)
    a, b = Stack(gains[None], "BF16"), Stack(moved[None], "BF16")
    found = {name: float(MEASURES[name](a, b).values[0]) for name in MEASURES}
    assert found["mean-absolute-difference"] == pytest.approx(9.5367431640625e-07, abs=0)
    assert (found["mean-ulps"], found["max-ulps"], found["byte-identity"]) == (1.0, 1.0, 0.0)
    assert found["changed-share"] == 1 / 4096
