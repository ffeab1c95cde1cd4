"""Strangers in common coordinates: what was drawn is looked for, and not found."""

from __future__ import annotations

import pytest
from tests.scale.coordinates import KINDS, SIZES, measure
from tests.support.amount import marked

from modelkin.comparison.methods import unit_matching

pytestmark = pytest.mark.timeout(1_800)

ROWS = [(kind, width) for kind in KINDS for width in SIZES]


@pytest.mark.parametrize(
    "row", marked(ROWS, lambda row: row == ("tokens, experts", 256), lambda row: row[1] == 256), ids=str
)
def test_what_was_drawn_is_not_found_where_coordinates_are_known(row):
    assert measure(*row)["problems"] == []


@pytest.mark.parametrize("width", marked(SIZES, lambda width: width == 256))
def test_units_that_read_the_same_directions_are_not_the_same_units(width, monkeypatch):
    kind = "tokens and directions"
    assert measure(kind, width)["problems"] == []

    def similar(halves, rivals):
        return unit_matching._row_cosines(*halves) > unit_matching.FOUND_COSINE

    monkeypatch.setattr(unit_matching, "_found_again", similar)
    assert "mlp was drawn and accused" in measure(kind, width, keep=False)["problems"]  # the trap is there
