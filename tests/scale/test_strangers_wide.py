"""Unrelated models of the widths, vocabularies and mixtures of large published ones are never accused."""

from __future__ import annotations

import pytest
from tests.scale.strangers import compare_strangers

pytestmark = [pytest.mark.timeout(1_800), pytest.mark.scale]

WIDE = {
    "width 4,096, 14,336 units": 60,
    "width 4,096, 256 k tokens": 6,
    "width 5,120": 30,
    "64 experts": 16,
    "256 experts": 6,
    "GPT-2, width 5,120": 6,
}
"""Shapes and numbers of pairs."""
DEEP = {"width 4,096, 14,336 units": 1, "width 5,120": 1}


@pytest.mark.parametrize("name", WIDE)
def test_strangers_are_never_accused(name):
    seen = compare_strangers(name, pairs=WIDE[name], depth="standard")
    assert seen.accused == []
    assert seen.smallest_log10_p > -6


@pytest.mark.parametrize("name", DEEP)
def test_strangers_are_never_accused_after_a_search(name):
    assert compare_strangers(name, pairs=DEEP[name], depth="deep").accused == []
