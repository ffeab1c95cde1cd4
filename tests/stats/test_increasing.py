"""The longest rise of best matches: its length, and a bound that holds for every set of matches."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.stats import log10_increasing_bound, longest_increasing


def by_trying(places):
    return max(
        (
            len(chosen)
            for size in range(len(places) + 1)
            for chosen in itertools.combinations(places, size)
            if all(a < b for a, b in itertools.pairwise(chosen))
        ),
        default=0,
    )


@given(st.lists(st.integers(0, 6), max_size=8))
def test_the_length_is_that_of_the_best_of_all_subsequences(places):
    assert longest_increasing(places) == by_trying(places)


def exceeds_nowhere(lengths, n, total):
    for length in range(n + 1):
        share = sum(count for found, count in lengths.items() if found >= length) / total
        assert share <= 10 ** log10_increasing_bound(n, length) * (1 + 1e-9)


@pytest.mark.parametrize("n", [1, 4, 7])
def test_the_bound_holds_over_all_orders(n):
    lengths = Counter(longest_increasing(order) for order in itertools.permutations(range(n)))
    exceeds_nowhere(lengths, n, math.factorial(n))
    assert log10_increasing_bound(n, n) == pytest.approx(-math.log10(math.factorial(n)))


@pytest.mark.parametrize("chosen", [(0, 0, 1, 1, 2, 3), (0, 1, 0, 1, 0, 1), (0, 1, 2, 3, 4, 4), (0,) * 6])
def test_the_bound_holds_where_several_units_choose_one(chosen):
    """Candidate units choose base units, and the base's units come in any order."""
    orders = list(itertools.permutations(range(6)))
    lengths = Counter(longest_increasing([order[unit] for unit in chosen]) for order in orders)
    exceeds_nowhere(lengths, 6, len(orders))


def test_the_bound_is_not_empty_where_a_layer_was_pruned():
    rng = np.random.default_rng(0)
    kept = np.sort(rng.permutation(512)[:256])
    assert log10_increasing_bound(256, longest_increasing(kept.tolist())) < -400
    strangers = [longest_increasing(rng.permutation(512)[:256].tolist()) for _ in range(50)]
    assert max(log10_increasing_bound(256, length) for length in strangers) == 0.0


def test_lengths_that_cannot_be_are_refused():
    for length in (-1, 4):
        with pytest.raises(ValueError, match="length"):
            log10_increasing_bound(3, length)
