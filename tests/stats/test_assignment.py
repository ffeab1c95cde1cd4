"""The best pairing of rows with columns."""

import itertools

import numpy as np
import pytest

from modelkin.stats import best_pairing


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_no_other_pairing_is_better(n: int):
    for seed in range(20):
        gain = np.random.default_rng(seed).standard_normal((n, n))
        found = best_pairing(gain)
        best = max(sum(gain[i, j] for i, j in enumerate(order)) for order in itertools.permutations(range(n)))
        assert sorted(found) == list(range(n))
        assert np.isclose(gain[np.arange(n), found].sum(), best)


def test_a_planted_pairing_is_found_among_many():
    random = np.random.default_rng(0)
    planted = random.permutation(128)
    gain = random.standard_normal((128, 128)) * 0.1
    gain[np.arange(128), planted] += 1.0
    assert best_pairing(gain).tolist() == planted.tolist()


@pytest.mark.parametrize("n", [40, 90])
def test_a_large_pairing_is_that_of_scipy(n: int):
    optimize = pytest.importorskip("scipy.optimize")
    gain = np.random.default_rng(n).standard_normal((n, n))
    rows, columns = optimize.linear_sum_assignment(gain, maximize=True)
    assert gain[np.arange(n), best_pairing(gain)].sum() == pytest.approx(gain[rows, columns].sum())


def test_nothing_to_pair_is_no_pair():
    assert best_pairing(np.zeros((0, 0))).tolist() == []


@pytest.mark.parametrize("gain", [np.zeros((2, 3)), np.array([[np.nan]]), np.array([[np.inf]])])
def test_only_a_square_of_finite_numbers_can_be_paired(gain: np.ndarray):
    with pytest.raises(ValueError, match="expected a square of finite numbers"):
        best_pairing(gain)
