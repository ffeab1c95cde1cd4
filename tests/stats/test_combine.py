"""Bonferroni's rule: what it does to one p-value and to many, and how often it rejects."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.stats import bonferroni

LOGS = st.lists(st.floats(-5000.0, -1e-9), min_size=1, max_size=8)


@pytest.mark.parametrize("log10_p", [-0.01, -1.0, -7.9, -8.1, -400.0, -1e6])
def test_one_p_value_stays_what_it_is(log10_p):
    assert bonferroni([log10_p]) == log10_p


def test_the_smallest_of_many_pays_for_all():
    np.testing.assert_allclose(bonferroni([-8.0] + [-0.1] * 99), -6.0)
    assert bonferroni([-0.1, -0.1]) == 0.0


@given(LOGS)
def test_combined_p_values_are_p_values(logs):
    assert -math.inf < bonferroni(logs) <= 0.0


@given(LOGS, st.integers(0, 7), st.floats(0.01, 100.0))
def test_a_smaller_p_value_never_raises_the_combination(logs, at, less):
    lower = list(logs)
    lower[at % len(logs)] -= less
    assert bonferroni(lower) <= bonferroni(logs) + 1e-9


def test_true_nulls_are_rejected_at_most_at_the_nominal_rate():
    rng = np.random.default_rng(3)
    combined = np.array([bonferroni(np.log10(rng.random(5)).tolist()) for _ in range(4000)])
    assert int(np.sum(combined <= math.log10(0.05))) <= 200 + 5 * 14, "five standard deviations above 5 %"


def test_no_p_values_and_wrong_ones_are_refused():
    with pytest.raises(ValueError, match="at least one number"):
        bonferroni([])
    with pytest.raises(ValueError, match="finite numbers of at most 0"):
        bonferroni([0.5])
