"""Relatives at realistic sizes: the truth about a row of the truth table is found, at deep depth."""

from __future__ import annotations

import numpy as np
import pytest
from tests.comparison.disguises import DISGUISES
from tests.comparison.relation import Relation
from tests.scale.families import CHOSEN, rows_at
from tests.scale.lifelike import GROWN, grown
from tests.scale.relatives import measure
from tests.support.amount import marked

pytestmark = pytest.mark.timeout(1_800)

NOW = ("residual-permutation of a copy", "tuned-units-heads-residual-int8")
"""Rows of width 256 that `make test-more` has time for; `make scale` runs the others. A copy of this width
that `make test` has time for is in test_widths.py."""
NARROW = [*rows_at("width 256"), *rows_at("width 1,024")]


def name_of(relation: Relation) -> str:
    return relation.name


def test_weights_are_numbers_and_no_bit_patterns():
    model = grown("lifelike-width 256-base")
    gate = model.tensors["model.layers.0.mlp.gate_proj.weight"]
    assert abs(float(gate.mean())) < 0.05 * float(gate.std()) < 0.05
    gains = model.tensors["model.norm.weight"]
    assert 0.3 < float(np.median(gains)) < 1.0


@pytest.mark.parametrize(
    "relation",
    marked(NARROW, lambda row: row.name in {f"width 256: {name}" for name in NOW}),
    ids=name_of,
)
def test_what_is_true_of_a_row_comes_out_at_width(relation):
    assert measure(relation)["problems"] == []


def test_every_row_that_is_chosen_exists():
    assert len(rows_at("width 256")) == len(rows_at("width 1,024"))
    assert all(len(rows_at(key)) == len(names) for key, names in CHOSEN.items())
    assert {*CHOSEN} | {"width 256", "width 1,024"} == {*GROWN}
    assert {row.name for row in NARROW} >= {f"width 256: {name}" for name in NOW}


def test_every_change_has_a_row_at_a_width_of_the_world():
    """Of a copy or of a fine-tune; what has experts is in rows of its own."""

    def kinds(*keys: str) -> set[str]:
        return {row.name.partition(": ")[2].split(" of a ")[0] for key in keys for row in rows_at(key)}

    wide = kinds("width 4,096", "width 4,096, 2 layers", "width 5,120")
    assert kinds("width 256") <= wide
    assert {*DISGUISES} <= wide | kinds("8 experts, width 4,096")
