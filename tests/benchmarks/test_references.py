"""What published methods cost, on small matrices."""

import pytest

pytest.importorskip("scipy")

from benchmarks.references import LAYERS, PER_LAYER, SMALL, as_table, run

from modelkin.message import say
from modelkin.reference import load_reference_cards


@pytest.mark.more
def test_every_method_on_weights_is_priced_and_timed():
    table = run(quick=True)
    weights = [name for name, card in load_reference_cards().items() if card.needs == "weights"]
    lines = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    assert lines == weights
    assert "not measured" not in table
    assert {*PER_LAYER, *LAYERS} <= {*weights}


def test_what_was_not_measured_is_no_number():
    table = as_table(SMALL, {"awm": (5_000_000, 4), "pdf": say("reference-layers")}, {"awm": 2.0})
    assert "| awm    |" in table
    assert "64.0" in table
    assert "not measured" in table
