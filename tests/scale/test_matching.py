"""Methods that look for a permutation give strangers no small p, whatever they find."""

from __future__ import annotations

import math

import pytest
from tests.scale.matching import WANTED, compare_searched
from tests.support.amount import marked

pytestmark = pytest.mark.timeout(1_800)
NOW = next(row for row in WANTED if row[0] == "width 256")


@pytest.mark.more
@pytest.mark.parametrize(
    "row", marked(WANTED, lambda row: row == NOW, lambda row: row[0] == "width 256"), ids=", ".join
)
def test_what_a_search_finds_between_strangers_has_no_small_p(row):
    found = compare_searched(*row)
    assert found["tests"] >= found["pairs"]
    assert found["smallest_log10_p"] > -3
    if found["method"] not in ("mlp-order", "expert-map"):  # a count, and the largest z of all experts
        # About one: its error is 1/√(2n) if tests are independent; those of a pair are not.
        assert found["root_mean_square_z"] < 1 + 6 / math.sqrt(2 * found["pairs"])
