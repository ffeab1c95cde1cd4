"""Heads in another order are found whatever stands in front of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.comparison.disguises import zoo_model
from tests.comparison.expectations import DEEP

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.methods import Tested
from modelkin.source import MemorySource


def with_gains(model: Checkpoint, spread: float, *, seed: int = 2) -> Checkpoint:
    """Draw new gains for the norms in front of attention, over so many powers of e."""
    rng = np.random.default_rng(seed)
    tensors = {
        name: np.exp(spread * rng.standard_normal(values.shape)).astype(np.float32)
        if "input_layernorm" in name
        else values
        for name, values in model.tensors.items()
    }
    return replace(model, tensors=tensors)


def heads_found(candidate: Checkpoint, base: Checkpoint) -> set[int]:
    result = mk.compare(
        candidate=MemorySource(candidate.files("F32"), name="candidate"),
        base=MemorySource(base.files("F32"), name="base"),
        options=DEEP,
    )
    return {
        item.layers[0]
        for item in result.evidence
        if isinstance(item, Tested) and item.method == "head-matching" and item.log10_p < -9
    }


@pytest.mark.more
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_new_gains_do_not_hide_heads(spread):
    base = with_gains(zoo_model("base"), 1.0)
    moved = derive.permute_heads(base, rng=np.random.default_rng(1))
    assert heads_found(with_gains(moved, spread, seed=3), base) == {0, 1, 2, 3}


def test_folded_gains_do_not_hide_heads():
    base = with_gains(zoo_model("base"), 1.0)
    moved = derive.permute_heads(base, rng=np.random.default_rng(1))
    assert heads_found(derive.fold_gains(moved), base) == {0, 1, 2, 3}


def test_heads_of_strangers_are_found_neither_way():
    assert not heads_found(with_gains(zoo_model("twin-1"), 2.0), with_gains(zoo_model("base"), 2.0))
