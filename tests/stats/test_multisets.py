"""The chance of the same numbers in any order is bounded for every distribution that they may come from."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from modelkin.stats import log10_same_numbers


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("shares", [(1.0,), (0.5, 0.5), (0.7, 0.2, 0.1), (0.25, 0.25, 0.25, 0.25)])
def test_no_distribution_gives_equal_numbers_more_often(width, shares):
    chances: dict[tuple[int, ...], float] = {}
    for drawn in itertools.product(range(len(shares)), repeat=width):
        key = tuple(sorted(drawn))
        chances[key] = chances.get(key, 0.0) + math.prod(shares[number] for number in drawn)
    assert math.isclose(sum(chances.values()), 1.0)
    for numbers, chance in chances.items():
        assert chance <= 10 ** log10_same_numbers(numbers) * (1 + 1e-9)


def test_the_bound_is_reached_by_the_shares_of_the_row_itself():
    row = [0, 0, 1, 1, 1]
    assert math.isclose(10 ** log10_same_numbers(row), 10 * 0.4**2 * 0.6**3)


def test_few_distinct_numbers_are_no_evidence_and_many_are():
    rng = np.random.default_rng(1)
    assert log10_same_numbers(np.zeros(4096)) == 0.0
    assert log10_same_numbers(rng.integers(0, 2, 4096)) > -4
    assert log10_same_numbers(rng.integers(-1, 2, 4096)) > -5
    assert log10_same_numbers(rng.normal(size=48)) < -18
    assert log10_same_numbers(rng.normal(size=4096)) < -1000


def test_order_does_not_matter():
    row = np.random.default_rng(2).integers(0, 9, 64)
    assert log10_same_numbers(row) == log10_same_numbers(np.sort(row)[::-1])
