"""What was done before a residual stream of width 4,096 was rotated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np
import pytest
from tests.comparison.disguises import disguised
from tests.comparison.kinds_held_out import as_trained
from tests.scale.lifelike import Grown

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint, StoredAs
from modelkin.source import MemorySource

SIZE = Grown(width=4_096, layers=2, units=4_608, heads=32, kv_heads=8, vocab=8_000)
CHANGES: Mapping[str, tuple[Callable[[Checkpoint], Checkpoint], StoredAs]] = {
    "low-rank": (partial(derive.merge_low_rank, rank=8, size=0.05, rng=np.random.default_rng(2)), "F32"),
    "quantised-copy": (derive.round_to_int8, "F32"),
    "fine-tune": (partial(as_trained, size=0.05, seed=10), "BF16"),
}


@cache
def base() -> Checkpoint:
    return SIZE.drawn(seed=5)


@pytest.mark.scale
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", CHANGES)
def test_what_was_done_is_told_after_a_wide_stream_is_turned_back(kind):
    change, stored = CHANGES[kind]
    relation = compared(disguised(change(base()), "rotation-and-gains"), stored).relation
    assert relation.kind == kind
    found = {item.kind: item.numbers for item in relation.findings}
    assert float(found["turned"]["error"]) < 0.05
    if kind == "low-rank":
        assert found[kind]["rank"] == 8
    if kind == "quantised-copy":
        assert found[kind]["bits"] == 8


def compared(candidate: Checkpoint, stored: StoredAs) -> mk.Comparison:
    return mk.compare(
        candidate=MemorySource(candidate.files(stored), name="candidate"),
        base=MemorySource(base().files(stored), name="base"),
        options=mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False)),
    )
