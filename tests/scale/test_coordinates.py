"""Strangers in common coordinates: what was drawn is looked for, and not found."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scale.coordinates import KINDS, SIZES, compared, measure, with_directions
from tests.scale.guards import seen
from tests.support.amount import marked

from modelkin.casework.lab import derive
from modelkin.comparison.methods import Tested, unit_matching

pytestmark = pytest.mark.timeout(1_800)

ROWS = [(kind, width) for kind in KINDS for width in SIZES]


@pytest.mark.parametrize("row", marked(ROWS, lambda _: False, lambda row: row[1] == 256), ids=str)
def test_what_was_drawn_is_not_found_where_coordinates_are_known(row):
    assert measure(*row)["problems"] == []


@pytest.mark.parametrize("width", marked(SIZES, lambda _: False, lambda width: width == 256))
def test_units_that_read_the_same_directions_are_not_the_same_units(width, monkeypatch):
    kind = "tokens and directions"
    assert measure(kind, width)["problems"] == []

    def similar(halves, rivals):
        return unit_matching._row_cosines(*halves) > unit_matching.FOUND_COSINE

    monkeypatch.setattr(unit_matching, "_found_again", similar)
    assert "mlp was drawn and accused" in measure(kind, width, keep=False)["problems"]  # the trap is there
    seen("units that resemble many units", width, springs=True)


@pytest.mark.parametrize("width", marked(SIZES, lambda width: False, lambda width: width == 256))
def test_units_of_a_copy_are_found_also_where_all_read_the_same_directions(width):
    base = with_directions(SIZES[width].drawn(seed=1), seed=1)
    rng = np.random.default_rng(6)
    copy = derive.permute_mlp_units(derive.add_noise(base, size=0.3, rng=rng), rng=rng)
    found = compared(copy, base)
    assert {
        item.layers
        for item in found.evidence
        if isinstance(item, Tested) and item.method == "mlp-matching" and item.log10_p < -20
    } >= {(0,), (1,)}
    assert found.verdict.components["mlp"].conclusion.related
    seen("units that resemble many units", width, springs=False)
