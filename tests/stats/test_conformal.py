"""The rank of a score among controls."""

import math

import numpy as np
import pytest

from modelkin.stats import log10_conformal


def test_no_control_says_nothing_and_the_floor_is_one_over_their_number_plus_one():
    assert log10_conformal(0.9, []) == 0.0
    assert log10_conformal(0.9, [0.1] * 19) == pytest.approx(math.log10(1 / 20))


def test_a_tie_counts_against_the_pair():
    assert log10_conformal(0.5, [0.5, 0.5, 0.1]) == pytest.approx(math.log10(3 / 4))
    assert log10_conformal(0.0, [0.0] * 9) == 0.0


def test_every_rank_is_equally_likely_where_scores_are_alike():
    rng = np.random.default_rng(1)
    draws = 4000
    p = np.array([10 ** log10_conformal(row[0], row[1:].tolist()) for row in rng.random((draws, 10))])
    counts = np.bincount(np.rint(10 * p).astype(int), minlength=11)[1:]
    assert counts.sum() == draws
    assert np.abs(counts - draws / 10).max() < 5 * math.sqrt(draws * 0.09)


def test_pairs_that_have_models_in_common_keep_the_level():
    """Scores of pairs depend on each other through their models; the level holds all the same."""
    rng = np.random.default_rng(2)
    n_models, draws, rejected = 7, 2000, 0
    pairs = [(i, j) for i in range(n_models) for j in range(i) if (i, j) != (1, 0)]
    for _ in range(draws):
        own = rng.standard_exponential(n_models)  # some models agree with everything
        score = own[:, None] * own + 0.1 * rng.random((n_models, n_models))
        rejected += log10_conformal(score[1, 0], [score[pair] for pair in pairs]) <= math.log10(1 / 20)
    assert len(pairs) == 20
    assert rejected <= draws / 20 + 5 * math.sqrt(draws * 0.05 * 0.95)


def test_scattered_values_of_one_control_would_not():
    """Why a control must not be given twice: copies of it make any p-value small."""
    rng = np.random.default_rng(3)
    draws = 1000
    small = sum(
        log10_conformal(row[0], [row[1]] * 10 + [row[2]] * 10) <= math.log10(1 / 20)
        for row in rng.random((draws, 3))
    )
    assert small > 0.25 * draws
