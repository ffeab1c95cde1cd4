"""Traces of small blocks: exact moments, a bound that holds, and sums over sets of units."""

import itertools
import math

import numpy as np
import pytest

from modelkin.stats import AxisOptions, AxisTest, axis_test, trace_test


def blocks(n, k, seed, share=0.0):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, n, k))
    b = share * a + math.sqrt(1 - share**2) * b
    return a - a.mean(axis=0), b - b.mean(axis=0)


def test_mean_and_variance_are_those_of_all_orders():
    a, b = blocks(6, 3, 0)
    traces = [np.vdot(a, b[list(order)]) for order in itertools.permutations(range(6))]
    assert np.mean(traces) == pytest.approx(0.0, abs=1e-12)
    assert np.var(traces) == pytest.approx(np.sum((a.T @ a) * (b.T @ b)) / 5)
    assert proved([a @ b.T]).z == pytest.approx(np.vdot(a, b) / np.std(traces))


def proved(similarities):
    found = trace_test(similarities)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_never_below_the_exact_p_value(seed):
    a, b = blocks(7, 4, seed, share=0.97)
    traces = np.array([np.vdot(a, b[list(order)]) for order in itertools.permutations(range(7))])
    exact = np.mean(np.abs(traces) >= abs(np.vdot(a, b)) - 1e-9)
    assert proved([a @ b.T]).log10_p >= math.log10(exact) - 1e-9


def test_one_block_says_what_the_test_on_an_axis_says():
    a, b = blocks(64, 16, 3, share=0.6)
    whole = axis_test(candidate=a, base=b, exchangeable=True, seed=0, options=AxisOptions(unit_rows=False))
    found = proved([a @ b.T])
    assert isinstance(whole, AxisTest)
    assert found.z == pytest.approx(whole.z, rel=1e-6)
    assert found.log10_p == pytest.approx(whole.log10_p_tail, abs=0.05)


def test_independent_sets_of_units_add_up():
    parts = [a @ b.T for a, b in (blocks(64, 16, seed, share=0.12) for seed in range(12))]
    alone = min(proved([part]).log10_p for part in parts)
    together = proved(parts)
    assert together.log10_p < alone - 5
    assert together.z == pytest.approx(sum(proved([part]).z for part in parts) / math.sqrt(12))


def test_the_bound_holds_for_sums_of_blocks_without_a_relation():
    rng = np.random.default_rng(0)
    a, b = blocks(24, 6, 1), blocks(24, 6, 2)
    bounds = []
    for _ in range(3_000):
        orders = rng.permutation(24), rng.permutation(24)
        bounds.append(proved([a[0] @ a[1][orders[0]].T, b[0] @ b[1][orders[1]].T]).log10_p)
    for level in (-2.0, -3.0):
        assert np.mean(np.array(bounds) <= level) <= 10**level + 3 * math.sqrt(10**level / 3_000)


def test_nothing_that_varies_is_no_test():
    assert trace_test([np.zeros((8, 8))]) is None
