"""Strangers under disguises, at deep depth: the search for parts that face each other accuses nobody.

Some forty pairs; `make disguises` takes a thousand.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.comparison.expectations import compared_strangers
from tests.comparison.relations import DISGUISES, Strangers, strangers

from modelkin.comparison.methods import Tested

pytestmark = pytest.mark.timeout(600)
EACH_KIND = {"distilled": 4, "twins": 8, "same-config": 8, "same-family": 6, "other-family": 6}
"""Those that have most in common are the most dangerous."""


def chosen() -> list[tuple[Strangers, str]]:
    """Draw pairs of every kind, each with the disguise that has been drawn least so far."""
    rng = random.Random(11)
    so_far: Counter[str] = Counter()
    drawn = []
    for kind, most in EACH_KIND.items():
        for pair in rng.sample([pair for pair in strangers() if pair.kind == kind], most):
            disguise = min(pair.disguises(), key=lambda name: so_far[name])
            so_far[disguise] += 1
            drawn.append((pair, disguise))
    return drawn


PAIRS = chosen()


@pytest.mark.parametrize(
    ("pair", "disguise"), PAIRS, ids=[f"{pair.name}, {disguise}" for pair, disguise in PAIRS]
)
def test_strangers_are_not_accused(pair: Strangers, disguise: str):
    result = compared_strangers(pair, disguise)
    assert not result.verdict.related, result.verdict.summary
    assert not result.flags
    tested = [test for test in result.evidence if isinstance(test, Tested)]
    assert all(test.log10_p > -6 for test in tested)


def test_every_disguise_is_among_them():
    assert {disguise for _, disguise in chosen()} == set(DISGUISES)
