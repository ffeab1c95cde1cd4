"""Unrelated models of the widths, vocabularies and mixtures of large published ones are never accused."""

from __future__ import annotations

import pytest
from tests.scale.strangers import WIDE, WIDE_DEEP, compare_strangers

pytestmark = [pytest.mark.timeout(1_800), pytest.mark.scale]


@pytest.mark.parametrize("name", WIDE)
def test_strangers_are_never_accused(name):
    seen = compare_strangers(name, "standard")
    assert seen.accused == []
    assert seen.smallest_log10_p > -6


@pytest.mark.parametrize("name", WIDE_DEEP)
def test_strangers_are_never_accused_after_a_search(name):
    assert compare_strangers(name, "deep").accused == []
