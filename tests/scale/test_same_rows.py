"""A part of a stranger that holds the same numbers in another order is found at every width."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scale.lifelike import GROWN
from tests.support.amount import marked

import modelkin as mk
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.source import MemorySource

pytestmark = pytest.mark.timeout(1_800)
SIZES = ("width 256", "width 1,024", "width 4,096", "256 k tokens")
PARTS = {  # in layers that are among those looked at, at any size
    "embedding": "model.embed_tokens.weight",
    "norms": "norm.weight",
    "mlp": "layers.0.mlp.gate_proj.weight",
    "attention": "layers.2.self_attn.q_proj.weight",
}


def compared(candidate: Checkpoint, base: Checkpoint) -> mk.Comparison:
    return mk.compare(
        candidate=MemorySource(candidate.files("BF16"), name="candidate"),
        base=MemorySource(base.files("BF16"), name="base"),
        options=mk.CompareOptions(depth="deep"),
    )


CASES = [(size, part) for size in SIZES for part in (*PARTS, None)]


@pytest.mark.parametrize("case", marked(CASES, lambda _: False, more=lambda case: case == CASES[0]), ids=str)
def test_one_part_in_another_order_is_found_at_every_size_and_no_stranger_is(case):
    size, part = case
    base, stranger = (GROWN[size].drawn(seed=seed) for seed in (1, 2))
    order = np.random.default_rng(7).permutation(GROWN[size].width)
    taken = {
        name: values[..., order]
        for name, values in base.tensors.items()
        if part is not None and name.endswith(PARTS[part])
    }
    found = compared(stranger.with_tensors(taken), base)
    shared = {name for name, item in found.verdict.components.items() if item.conclusion.related}
    assert shared == ({part} if part is not None else set())
