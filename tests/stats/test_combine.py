"""Combining p-values: against recorded values of scipy 1.17, closed forms, and simulation."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.stats import bonferroni, cauchy, fisher, holm, stouffer

P = np.log10([0.01, 0.2, 0.5, 0.03])
LOGS = st.lists(st.floats(-5000.0, -1e-9), min_size=1, max_size=8)
RULES = [fisher, stouffer, cauchy, bonferroni]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [(fisher, -2.118223351103609), (stouffer, -2.2369386162064036), (cauchy, -1.537528241482965)],
)
def test_rules_agree_with_scipy(rule, expected):
    np.testing.assert_allclose(rule(P), expected, rtol=1e-12)


def test_weighted_stouffer_agrees_with_scipy():
    np.testing.assert_allclose(stouffer(P, weights=[1, 2, 3, 4]), -1.7539891089382296, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("log10_p", [-0.01, -1.0, -7.9, -8.1, -400.0, -1e6])
def test_one_p_value_stays_what_it_is(rule, log10_p):
    np.testing.assert_allclose(rule([log10_p]), log10_p, rtol=1e-9)


def test_fisher_of_two_has_its_closed_form_far_below_underflow():
    # P(chi2_4 >= x) = exp(-x/2) (1 + x/2), and x/2 = -ln(p q).
    log10_pq = -3000.0
    expected = log10_pq + math.log10(1.0 - log10_pq * math.log(10.0))
    np.testing.assert_allclose(fisher([-1000.0, -2000.0]), expected, rtol=1e-13)


def test_four_layers_at_the_floor_of_drawing_reach_ten_to_the_minus_sixteen():
    assert -16.0 < fisher([-5.0] * 4) < -15.5


def test_stouffer_adds_quantiles_far_below_underflow():
    # Equal z in m tests become sqrt(m) z: for large z, log p grows m-fold.
    np.testing.assert_allclose(stouffer([-1e6] * 4), -4e6, rtol=1e-5)


def test_cauchy_of_equal_p_values_is_that_p_value():
    for log10_p in (-0.2, -3.0, -9.0, -2000.0):
        np.testing.assert_allclose(cauchy([log10_p] * 5), log10_p, rtol=1e-9)


def test_cauchy_is_continuous_where_it_changes_formula():
    for rest in (-0.001, -0.3, -4.0):
        np.testing.assert_allclose(cauchy([-8.0 - 1e-12, rest]), cauchy([-8.0 + 1e-12, rest]), rtol=1e-9)


def test_a_p_value_near_one_can_cancel_a_small_one_in_cauchy():
    assert cauchy([-10.0, math.log10(1.0 - 1e-12)]) > -1.0


@given(LOGS)
def test_combined_p_values_are_p_values(logs):
    for rule in RULES:
        assert -math.inf < rule(logs) <= 0.0


@given(LOGS, st.integers(0, 7), st.floats(0.01, 100.0))
def test_a_smaller_p_value_never_raises_the_combination(logs, at, less):
    lower = list(logs)
    lower[at % len(logs)] -= less
    for rule in RULES:
        assert rule(lower) <= rule(logs) + 1e-9


@given(LOGS)
def test_holm_lies_between_the_p_value_and_bonferroni(logs):
    adjusted = holm(logs)
    assert (adjusted >= np.array(logs) - 1e-12).all()
    assert (adjusted <= np.minimum(0.0, np.array(logs) + math.log10(len(logs))) + 1e-12).all()
    np.testing.assert_allclose(adjusted.min(), bonferroni(logs))
    assert (np.diff(adjusted[np.argsort(logs)]) >= 0.0).all()


def test_holm_agrees_with_a_search_over_all_subsets_of_true_hypotheses():
    # Closed testing: a hypothesis falls if every subset that contains it falls by Bonferroni.
    logs = np.log10([0.001, 0.01, 0.02, 0.03, 0.6])
    n = len(logs)
    for i in range(n):
        worst = max(
            bonferroni([logs[k] for k in range(n) if member[k]])
            for member in product([False, True], repeat=n)
            if member[i]
        )
        np.testing.assert_allclose(holm(logs)[i], worst, atol=1e-12)


def test_bonferroni_counts_tests_that_were_not_looked_at():
    np.testing.assert_allclose(bonferroni([-8.0], n_tests=100), -6.0)
    with pytest.raises(ValueError, match="n_tests: expected at least 2"):
        bonferroni([-1.0, -2.0], n_tests=1)


@pytest.mark.parametrize("rule", RULES)
def test_independent_true_nulls_are_rejected_at_the_nominal_rate(rule):
    rng = np.random.default_rng(3)
    combined = np.array([rule(np.log10(rng.random(5))) for _ in range(4000)])
    rejected = int(np.sum(combined <= math.log10(0.05)))
    assert rejected <= 200 + 5 * 14, "five standard deviations above 5 %"
    if rule is not bonferroni:
        assert rejected >= 200 - 5 * 14


@pytest.mark.parametrize("rule", [*RULES, holm])
def test_no_p_values_and_wrong_ones_are_refused(rule):
    with pytest.raises(ValueError, match="at least one number"):
        rule([])
    with pytest.raises(ValueError, match="finite numbers of at most 0"):
        rule([0.5])


def test_weights_must_fit():
    with pytest.raises(ValueError, match="weights: expected 4 numbers"):
        stouffer(P, weights=[1.0])
