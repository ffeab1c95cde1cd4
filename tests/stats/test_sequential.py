"""Stopping when it is enough."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.stats import StagePlan, e_value_p, log10_e_value


def test_a_stage_is_judged_by_its_share():
    plan = StagePlan(shares=(0.5, 0.3, 0.2))
    np.testing.assert_allclose(plan.adjusted(-7.0, stage=0), -7.0 + math.log10(2.0))
    np.testing.assert_allclose(plan.running([-1.0, None, -8.0]), -8.0 + math.log10(5.0))


def test_a_stage_that_could_not_be_tested_says_nothing():
    assert StagePlan.equal(3).running([None, None]) == 0.0
    assert StagePlan.equal(3).running([]) == 0.0


@given(st.lists(st.floats(-300.0, 0.0), min_size=1, max_size=6))
def test_looking_further_never_raises_the_running_p(logs):
    plan = StagePlan.equal(6)
    running = [plan.running(logs[: k + 1]) for k in range(len(logs))]
    assert (np.diff(running) <= 0.0).all()


def test_stopping_at_the_first_success_keeps_the_error_even_for_dependent_stages():
    rng = np.random.default_rng(0)
    plan = StagePlan(shares=(0.5, 0.3, 0.2))
    common = rng.random(20_000)
    stopped = 0
    for first in common:
        logs = np.log10([first, 1.0 - first, first if rng.random() < 0.5 else rng.random()])
        stopped += any(plan.running(list(logs[:k])) <= math.log10(0.05) for k in (1, 2, 3))
    assert stopped <= 1000 + 5 * 31, "five standard deviations above 5 %"


def test_peeking_without_a_plan_breaks_the_error():
    rng = np.random.default_rng(0)
    assert np.mean(rng.random((20_000, 3)).min(axis=1) <= 0.05) > 0.13


def test_e_values_have_mean_one_under_the_null():
    middle = (np.arange(200_000) + 0.5) / 200_000
    values = [10.0 ** log10_e_value(math.log10(p)) for p in middle]
    np.testing.assert_allclose(np.mean(values), 1.0, atol=2e-3)


@pytest.mark.parametrize("dependence", ["independent", "any"])
def test_e_values_hold_whenever_one_stops(dependence):
    rng = np.random.default_rng(1)
    alarms = 0
    for row in rng.random((5000, 6)):
        logs = [log10_e_value(value) for value in np.log10(row)]
        if dependence == "any":
            alarms += e_value_p(logs, dependence="any") <= math.log10(0.05)
        else:
            running = [e_value_p(logs[:k], dependence="independent") for k in range(1, 7)]
            alarms += min(running) <= math.log10(0.05)
    assert alarms <= 250


def test_e_values_do_not_underflow():
    logs = [log10_e_value(-5000.0)] * 3
    np.testing.assert_allclose(e_value_p(logs, dependence="independent"), -7500.0 + 3.0 * math.log10(2.0))
    np.testing.assert_allclose(e_value_p(logs, dependence="any"), -2500.0 + math.log10(2.0))


def test_weak_e_values_cannot_give_a_p_above_one():
    assert e_value_p([log10_e_value(0.0)], dependence="any") == 0.0


@pytest.mark.parametrize("shares", [(), (0.5, 0.6), (0.5, 0.0)])
def test_a_plan_that_spends_too_much_is_refused(shares):
    with pytest.raises(ValueError, match="shares: expected positive numbers of sum at most 1"):
        StagePlan(shares=shares)


def test_stages_outside_the_plan_are_refused():
    plan = StagePlan.equal(2)
    with pytest.raises(ValueError, match="stage: expected 0 to 1, got 2"):
        plan.adjusted(-1.0, stage=2)
    with pytest.raises(ValueError, match="expected at most 2 stages"):
        plan.running([-1.0] * 3)
    with pytest.raises(ValueError, match="n_stages: expected at least 1"):
        StagePlan.equal(0)


def test_nonsense_is_not_an_e_value():
    with pytest.raises(ValueError, match="log10_p: expected"):
        log10_e_value(0.5)
    with pytest.raises(ValueError, match="log10_e: expected"):
        e_value_p([], dependence="any")
