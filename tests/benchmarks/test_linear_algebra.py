"""The ways that `benchmarks.linear_algebra` measures do what they are measured for."""

import numpy as np
import pytest
from benchmarks.linear_algebra import QUICK, Growing
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import linear_algebra_match as match
from benchmarks import linear_algebra_polar as polar


@pytest.mark.parametrize("way", [way for way in polar.WAYS if "scipy" not in way])
@pytest.mark.parametrize("case", ["related", "strangers", "rectangular"])
def test_a_way_finds_the_polar_factor_it_is_given(way, case, tmp_path):
    found = polar.work(
        {"case": polar.store_case(case, 32, tmp_path), "way": way, "dtype": "float64", "repeats": 1}
    )
    assert found["orthogonality"] < 1e-9
    assert found["distance"] < 1e-9
    assert abs(found["shortfall"]) < 1e-9


def test_without_full_rank_the_svd_still_returns_an_orthogonal_matrix_and_eigh_a_part_of_one(tmp_path):
    case = polar.store_case("rank 3/4", 32, tmp_path)
    svd, eigh = (
        polar.work({"case": case, "way": way, "dtype": "float64", "repeats": 1})
        for way in ("SVD (gesdd)", "eigh of the square")
    )
    assert svd["orthogonality"] < 1e-9
    assert eigh["orthogonality"] > 0.1
    assert max(svd["distance"], eigh["distance"]) < 1e-9


def test_a_singular_matrix_that_newton_cannot_invert_is_a_failure_and_no_answer(tmp_path):
    path = tmp_path / "zero.npz"
    np.savez(path, matrix=np.zeros((4, 4)), left=np.eye(4), right=np.eye(4), values=np.zeros(4))
    found = polar.work({"case": path, "way": "scaled Newton", "dtype": "float64", "repeats": 1})
    assert found == {"failed": "Singular matrix"}


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 30),
    more=st.integers(0, 5),
    seed=st.integers(0, 10**6),
    levels=st.sampled_from([3, 10**6]),
)
def test_augmenting_paths_solve_the_assignment(n, more, seed, levels):
    optimize = pytest.importorskip("scipy.optimize")
    drawn = np.random.default_rng(seed).integers(0, levels, size=(n, n + more))
    similarity = (drawn / levels).astype(np.float32)
    found = match.by_paths(similarity)
    assert len(set(found.tolist())) == n
    rows, columns = optimize.linear_sum_assignment(similarity, maximize=True)
    best = similarity.astype(np.float64)[rows, columns].sum()
    assert similarity.astype(np.float64)[np.arange(n), found].sum() == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("way", ["best of each row", "mutual best", "mutual best, repeated"])
def test_a_noisy_copy_is_matched_without_a_solver(way):
    candidate, base, truth = match.draw(200, 0.7)
    np.testing.assert_array_equal(match.WAYS[way](candidate @ base.T), truth)


def test_repeated_mutual_best_ends_in_a_permutation_of_strangers():
    candidate, base, _ = match.draw(200, 0.0)
    found = match.by_repeated_mutual_best(candidate @ base.T)
    np.testing.assert_array_equal(np.sort(found), np.arange(200))


@pytest.mark.parametrize("cosine", [0.0, 0.25])
def test_blocks_find_what_the_full_matrix_has(cosine, monkeypatch):
    candidate, base, _ = match.draw(150, cosine)
    expected = match.best_in_full(candidate, base)
    monkeypatch.setattr(match, "BLOCK", 32)
    for found, wanted in zip(match.best_in_blocks(candidate, base), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_size_that_would_take_too_long_is_left_out_and_said_so(monkeypatch):
    took = iter([{"cpu": 50.0}])
    monkeypatch.setattr("benchmarks.linear_algebra.run_job", lambda *_, **__: next(took))
    growing = Growing(QUICK, say=lambda line: None)
    assert growing.run("m", 100, ("way",), {"way": "x"}) == {"cpu": 50.0}
    assert growing.run("m", 200, ("way",), {"way": "x"}) == {"failed": "not run, about 400"}
