"""Unrelated models of small widths, many layers, or few experts are never accused."""

from __future__ import annotations

import pytest
from tests.scale.lifelike import SHAPES
from tests.scale.strangers import NARROW, NARROW_DEEP, WANTED, WIDE, Seen, compare_strangers, pairs_of

pytestmark = pytest.mark.timeout(1_800)


@pytest.mark.more
def test_two_strangers_of_a_width_of_the_world_are_not_accused():
    seen = Seen()
    seen.add("width 1,024", "standard", (900, 901))
    assert (seen.pairs, seen.accused) == (1, [])
    assert seen.scores


@pytest.mark.scale
@pytest.mark.parametrize("name", NARROW)
def test_strangers_are_never_accused(name):
    seen = compare_strangers(name, "standard")
    assert seen.accused == []
    assert seen.smallest_log10_p > -6


@pytest.mark.scale
@pytest.mark.parametrize("name", NARROW_DEEP)
def test_strangers_are_never_accused_after_a_search(name):
    assert compare_strangers(name, "deep").accused == []


def test_every_shape_is_tried_and_a_thousand_pairs_are_compared():
    assert {*NARROW, *WIDE} == {*SHAPES}
    assert sum(NARROW.values()) + sum(WIDE.values()) >= 1_000
    assert all(len({*pairs_of(n)}) == n for n in WANTED.values())
