"""Norm gains of wide models: an arbitrary order is tested, and an order of its own is recognised."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from tests.scale.guards import seen
from tests.scale.lifelike import Grown
from tests.support.amount import marked

import modelkin as mk
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.methods import EQUAL_VALUES, ORDERED, Tested
from modelkin.comparison.verdict import Conclusion
from modelkin.source import MemorySource

pytestmark = pytest.mark.timeout(1_800)

SIZES = {
    256: Grown(width=256, layers=2, units=256, heads=4, kv_heads=4, vocab=256),
    1_024: Grown(width=1_024, layers=2, units=256, heads=8, kv_heads=8, vocab=256),
    4_096: Grown(width=4_096, layers=2, units=256, heads=32, kv_heads=8, vocab=256),
}
WIDTHS = marked(SIZES, lambda width: width == 256)
GUARD = "gains in an order of their own"
REACHES = (4, 25, 100)
"""Over how many neighbours gains are averaged."""


@lru_cache(maxsize=2)
def drawn(width: int, seed: int) -> Checkpoint:
    return SIZES[width].drawn(seed=seed)


def with_gains_of(model: Checkpoint, other: Checkpoint, *, reach: int = 1) -> Checkpoint:
    """Give all norms the gains of another model, in its order or averaged over neighbours."""
    gains = {
        name: smoothed(values, reach) if reach > 1 else values
        for name, values in other.tensors.items()
        if values.ndim == 1
    }
    return replace(model, tensors={**model.tensors, **gains})


def smoothed(gains: np.ndarray, reach: int) -> np.ndarray:
    """Average gains over neighbours, around the circle, with the spread they had."""
    logs = np.log(gains.astype(np.float64))
    window = np.arange(reach) - reach // 2
    mean = np.mean([np.roll(logs, step) for step in window], axis=0)
    mean = (mean - mean.mean()) * logs.std() / mean.std() + logs.mean()
    return np.asarray(np.exp(mean), np.float32)


def compared(candidate: Checkpoint, base: Checkpoint) -> mk.Comparison:
    return mk.compare(
        candidate=MemorySource(candidate.files("F32"), name="candidate"),
        base=MemorySource(base.files("F32"), name="base"),
    )


def gains_of(result: mk.Comparison) -> Tested:
    (test,) = (item for item in result.evidence if isinstance(item, Tested) and item.component == "norms")
    return test


@pytest.mark.parametrize("width", WIDTHS)
def test_equal_gains_in_an_arbitrary_order_are_found(width):
    base = drawn(width, 1)
    found = compared(with_gains_of(drawn(width, 2), base), base)
    assert {EQUAL_VALUES} == {*gains_of(found).flags}
    assert found.verdict.components["norms"].conclusion is Conclusion.SHARED
    assert found.verdict.reading == "norm-gains-only"
    assert not found.strong_flags
    seen(GUARD, width, springs=False)


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("width", WIDTHS)
def test_equal_gains_that_resemble_their_neighbours_are_a_strong_flag_and_clear_nobody(width, reach):
    gains = drawn(width, 1)
    found = compared(
        with_gains_of(drawn(width, 2), gains, reach=reach), with_gains_of(gains, gains, reach=reach)
    )
    test = gains_of(found)
    assert EQUAL_VALUES in test.flags
    assert ORDERED & {*test.flags}
    assert test.detection_limit is None
    norms = found.verdict.components["norms"]
    assert norms.conclusion is Conclusion.NOT_TESTABLE
    assert norms.reason is not None
    assert norms.reason.code == "units-ordered"
    assert not found.verdict.related
    assert [flag.code for flag in found.strong_flags] == ["flag-equal"]
    seen(GUARD, width, springs=True)


@pytest.mark.parametrize("reach", [1, *REACHES])
@pytest.mark.parametrize("width", WIDTHS)
def test_gains_of_strangers_are_neither_accused_nor_flagged(width, reach):
    models = [with_gains_of(drawn(width, seed), drawn(width, seed), reach=reach) for seed in (1, 2)]
    found = compared(*models)
    test = gains_of(found)
    assert EQUAL_VALUES not in test.flags
    assert bool(ORDERED & {*test.flags}) == (reach > 1)
    assert (test.detection_limit is None) == (reach > 1)
    expected = Conclusion.NOT_TESTABLE if reach > 1 else Conclusion.NO_EVIDENCE
    assert found.verdict.components["norms"].conclusion is expected
    assert not found.verdict.related
    assert not found.strong_flags
