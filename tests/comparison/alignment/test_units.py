"""Best matches of units."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.comparison.alignment import agreement, match_units

ROWS = np.random.default_rng(8).normal(size=(40, 24)).astype(np.float32)


@given(st.integers(0, 50))
def test_units_in_another_order_are_found_whatever_their_scale(seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(40)[:25]
    found = match_units(ROWS[order] * rng.uniform(0.1, 9, (25, 1)), ROWS, seed=seed)
    assert found.places.tolist() == order.tolist()
    assert found.cosines == pytest.approx(np.ones(25), abs=1e-5)


def test_signs_are_followed_where_they_are_free():
    found = match_units(-ROWS, ROWS, seed=1, sign_free=True)
    assert found.places.tolist() == list(range(40))
    assert found.cosines.max() < -0.99
    assert (match_units(-ROWS, ROWS, seed=1).places != np.arange(40)).all()


def test_a_unit_of_zeros_matches_nothing_and_is_matched_by_nothing():
    mine, theirs = ROWS.copy(), np.concatenate([np.zeros((2, 24), np.float32), -ROWS[:1]])
    mine[[3, 7]] = 0
    mine[9] = np.nan
    found = match_units(mine, theirs, seed=1)
    assert np.flatnonzero(~found.usable).tolist() == [3, 7, 9]
    assert set(found.places[found.usable].tolist()) == {2}  # though its cosine with the first is -1
    assert not match_units(ROWS, np.zeros_like(ROWS), seed=1).usable.any()


def test_ties_are_drawn_and_not_always_the_first():
    twice = np.concatenate([ROWS, ROWS])
    found = match_units(ROWS, twice, seed=1).places
    assert (found % 40).tolist() == list(range(40))
    assert 8 <= np.count_nonzero(found >= 40) <= 32
    assert (found != match_units(ROWS, twice, seed=2).places).any()


def test_a_unit_and_its_copies_are_passed_over_for_the_next_one():
    rng = np.random.default_rng(3)
    base = rng.normal(size=(6, 64)).astype(np.float32)
    base[4] = 2.0 * base[1] + 0.1 * rng.normal(size=64)  # a copy
    candidate = base[[1, 1]] + 0.5 * base[[2, 3]]
    first = match_units(candidate, base, seed=0).places
    assert {*first} <= {1, 4}
    assert match_units(candidate, base, seed=0, besides=first).places.tolist() == [2, 3]
    assert not match_units(candidate, base[[1, 4]], seed=0, besides=np.array([0, 0])).usable.any()


def test_agreement_is_over_units_that_have_matches_in_both():
    first, second = ROWS.copy(), ROWS.copy()
    first[:10] = second[:10] = 0
    second[10:25] = ROWS[25:]
    matches = [match_units(rows, ROWS, seed=1) for rows in (first, second)]
    assert agreement(*matches) == pytest.approx(0.5)
    nothing = match_units(np.zeros_like(ROWS), ROWS, seed=1)
    assert agreement(nothing, nothing) is None
    with pytest.raises(ValueError, match="expected 40 units"):
        agreement(matches[0], match_units(ROWS[:5], ROWS, seed=1))
