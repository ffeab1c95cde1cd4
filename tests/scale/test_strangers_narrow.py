"""Unrelated models of small widths, many layers, or few experts are never accused."""

from __future__ import annotations

import pytest
from tests.scale.lifelike import SHAPES
from tests.scale.strangers import compare_strangers
from tests.scale.test_strangers_wide import WIDE

pytestmark = pytest.mark.timeout(1_800)

NARROW = {
    "width 96": 320,
    "width 256": 240,
    "width 256, 96 layers": 20,
    "width 1,024": 210,
    "8 experts": 60,
    "GPT-2, width 1,024": 40,
}
"""Shapes and numbers of pairs."""
DEEP = {"width 96": 40, "width 256": 20, "width 1,024": 6, "8 experts": 4}


def test_two_strangers_of_a_width_of_the_world_are_not_accused():
    assert compare_strangers("width 1,024", pairs=1, depth="standard", first_seed=900).accused == []


@pytest.mark.scale
@pytest.mark.parametrize("name", NARROW)
def test_strangers_are_never_accused(name):
    seen = compare_strangers(name, pairs=NARROW[name], depth="standard")
    assert seen.accused == []
    assert seen.smallest_log10_p > -6


@pytest.mark.scale
@pytest.mark.parametrize("name", DEEP)
def test_strangers_are_never_accused_after_a_search(name):
    assert compare_strangers(name, pairs=DEEP[name], depth="deep").accused == []


def test_every_shape_is_tried_and_a_thousand_pairs_are_compared():
    assert {*NARROW, *WIDE} == {*SHAPES}
    assert sum(NARROW.values()) + sum(WIDE.values()) >= 1_000
