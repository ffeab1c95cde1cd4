"""Gains that are equal bit for bit are never passed over, also where no test can weigh them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.comparison.disguises import zoo_model

import modelkin as mk
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.methods import EQUAL_VALUES, Tested
from modelkin.comparison.verdict import Conclusion
from modelkin.source import MemorySource


def with_smooth_gains(model: Checkpoint, *, seed: int) -> Checkpoint:
    """Give all norms gains that change little from one dimension to the next."""
    rng = np.random.default_rng(seed)

    def drawn(n: int) -> np.ndarray:
        steps = np.convolve(rng.standard_normal(n + 24), np.ones(25) / 5, mode="valid")
        return np.asarray(1.0 + 0.1 * steps, np.float32)

    tensors = {
        name: drawn(len(values)) if values.ndim == 1 else values for name, values in model.tensors.items()
    }
    return replace(model, tensors=tensors)


def compared(candidate: Checkpoint, base: Checkpoint) -> mk.Comparison:
    return mk.compare(
        candidate=MemorySource(candidate.files("F32"), name="candidate"),
        base=MemorySource(base.files("F32"), name="base"),
    )


def gains_of(result: mk.Comparison) -> Tested:
    (test,) = (item for item in result.evidence if isinstance(item, Tested) and item.component == "norms")
    return test


def test_equal_gains_that_cannot_be_tested_are_a_strong_flag():
    found = compared(
        with_smooth_gains(zoo_model("twin-1"), seed=1), with_smooth_gains(zoo_model("base"), seed=1)
    )
    assert {"shift-dispersion", EQUAL_VALUES} <= {*gains_of(found).flags}
    assert gains_of(found).detection_limit is None
    assert found.verdict.components["norms"].conclusion is Conclusion.NOT_TESTABLE
    assert not found.verdict.related
    assert [flag.code for flag in found.strong_flags] == ["flag-equal"]


def test_other_gains_in_an_order_of_their_own_are_no_flag():
    found = compared(
        with_smooth_gains(zoo_model("twin-1"), seed=2), with_smooth_gains(zoo_model("base"), seed=1)
    )
    assert EQUAL_VALUES not in gains_of(found).flags
    assert not found.verdict.related
    assert not found.strong_flags


def test_equal_gains_that_can_be_tested_are_a_finding():
    found = compared(zoo_model("norms-only"), zoo_model("base"))
    assert found.verdict.components["norms"].conclusion.related
    assert not found.strong_flags
