"""Relatives of width 4,096, with and without experts: the truth is found.

A file of its own, because one process runs a whole file and each of these models is a gigabyte or two.
"""

from __future__ import annotations

import pytest
from tests.comparison.relation import Relation
from tests.scale.families import CHOSEN, rows_at
from tests.scale.lifelike import GROWN
from tests.scale.relatives import measured_alone

pytestmark = [pytest.mark.timeout(1_800), pytest.mark.scale]

ROWS = [row for key in CHOSEN if GROWN[key].width == 4_096 for row in rows_at(key)]


@pytest.mark.parametrize("relation", ROWS, ids=lambda row: row.name)
def test_what_is_true_of_a_row_comes_out(relation: Relation) -> None:
    assert measured_alone(relation)["problems"] == []
