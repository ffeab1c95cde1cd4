"""Drawn baselines have the distribution they claim, and are the same every time."""

import numpy as np
import pytest

from modelkin.describe.measures import (
    MEASURES,
    Pairs,
    Stack,
    distribution,
    draws_for,
    gaussian_cosine,
    generator,
    measured,
    permuted_pairs,
    random_draws,
    random_pairs,
    shuffle_draws,
)

CHOSEN = [
    MEASURES[name] for name in ("cosine", "pearson", "spearman", "mean-absolute-difference", "changed-share")
]


@pytest.fixture(scope="module")
def stacks():
    rng = np.random.default_rng(0)
    common = rng.normal(size=300)
    a = Stack((1.0 + 0.1 * rng.normal(size=(4, 300)) + 0.1 * common).astype(np.float32))
    b = Stack((0.5 + 0.2 * rng.normal(size=(4, 300)) + 0.1 * common).astype(np.float32))
    return a, b


def test_shuffles_scatter_about_the_exact_expectation(stacks):
    pairs = Pairs.diagonal(4)
    drawn = shuffle_draws(CHOSEN, stacks[0], stacks[1], pairs, draws=600, seed=0)
    for measure in CHOSEN:
        found = measured(measure, stacks[0], stacks[1], pairs, expect=True)
        values = drawn[measure.name]
        assert values.shape == (600, 4)
        errors = (values.mean(axis=0) - found.expected) / (values.std(axis=0) / np.sqrt(600) + 1e-15)
        assert np.abs(errors).max() < 4.5
        if found.expected_sd.count():
            np.testing.assert_allclose(values.std(axis=0), found.expected_sd, rtol=0.15)


def test_layers_are_shuffled_together_so_that_their_mean_scatters_more(stacks):
    together = shuffle_draws(
        [MEASURES["pearson"]], stacks[0], stacks[1], Pairs.diagonal(4), draws=1000, seed=0
    )["pearson"]
    alone = together.std(axis=0).mean() / 2.0  # what independent layers would give for a mean of four
    assert together.mean(axis=1).std() > 1.1 * alone


def test_draws_depend_on_seed_and_key_alone(stacks):
    def draw(**options):
        return shuffle_draws(
            [MEASURES["cosine"]], stacks[0], stacks[1], Pairs.diagonal(4), draws=3, **options
        )["cosine"]

    assert (draw(seed=1) == draw(seed=1)).all()
    assert (draw(seed=1) != draw(seed=2)).any()
    assert (draw(seed=1) != draw(seed=1, key="other")).any()
    assert generator(0, "a", "b").random() != generator(0, "ab").random()


@pytest.mark.parametrize("sd", [1.0, 0.5, 0.1])
@pytest.mark.parametrize(("first", "second"), [(0.1, 0.5), (0.5, 1.0), (1.0, 2.0)])
def test_random_vectors_follow_the_closed_form(first, second, sd):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(2, 4096))
    rows = (rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)
    a, b = Stack(first + sd * rows[:1]), Stack(second + sd * rows[1:])
    drawn = random_draws([MEASURES["cosine"]], a, b, Pairs.diagonal(1), draws=60, seed=0)["cosine"]
    expected = float(gaussian_cosine(first, second, sd, sd))
    assert drawn.mean() == pytest.approx(expected, abs=5 * drawn.std() / np.sqrt(60) + 1e-4)


def test_rows_that_cannot_be_used_stay_so_in_draws():
    a = Stack(np.array([[1.0, np.nan, 2.0], [1.0, 2.0, 3.0]]))
    for draw in (shuffle_draws, random_draws):
        found = draw([MEASURES["pearson"]], a, a, Pairs.diagonal(2), draws=5, seed=0)["pearson"]
        assert np.ma.getmaskarray(found)[:, 0].all()
        assert not np.ma.getmaskarray(found)[:, 1].any()


@pytest.mark.parametrize("n", [2, 3, 50])
def test_in_a_permuted_pairing_no_row_meets_its_partner(n):
    for pairs in permuted_pairs(n, draws=20, seed=0):
        assert sorted(pairs.first) == sorted(pairs.second) == list(range(n))
        assert (pairs.first != pairs.second).all()


def test_one_row_cannot_be_permuted_nor_paired():
    assert list(permuted_pairs(1, draws=5, seed=0)) == []
    assert len(random_pairs(1, count=5, seed=0)) == 0


def test_random_pairs_are_of_different_rows():
    pairs = random_pairs(5, count=1000, seed=0)
    assert (pairs.first != pairs.second).all()
    assert set(pairs.first) == set(pairs.second) == set(range(5))


def test_fewer_draws_are_made_of_large_data():
    large = 96 * 65_536
    assert draws_for(2 * 3, 100) == 100
    assert draws_for(large, 100) == 10
    assert draws_for(2 * 65_536, 1000) == 381
    assert draws_for(large, 5) == 5


def test_a_distribution_counts_what_is_there():
    found = distribution(np.ma.masked_invalid([1.0, np.nan, 3.0, 2.0]))
    assert found is not None
    assert (found.n, found.mean, found.sd, found.minimum, found.median, found.maximum) == (
        3,
        2.0,
        1.0,
        1.0,
        2.0,
        3.0,
    )
    assert distribution(np.array([np.nan])) is None
    assert distribution(np.array([])) is None
    single = distribution(np.array([4.0]))
    assert single is not None
    assert (single.n, single.sd, single.q05) == (1, None, 4.0)
