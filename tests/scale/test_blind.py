"""Wide strangers are cleared by tests that could have found something, and by no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.scale.guards import seen
from tests.scale.lifelike import Grown
from tests.support.amount import marked

import modelkin as mk
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.comparison.methods import Tested
from modelkin.comparison.verdict import Conclusion
from modelkin.source import MemorySource

pytestmark = pytest.mark.timeout(1_800)

SIZES = {
    256: Grown(width=256, layers=2, units=32, heads=4, kv_heads=4, vocab=256, experts=16),
    1_024: Grown(width=1_024, layers=2, units=32, heads=8, kv_heads=8, vocab=256, experts=16),
    4_096: Grown(width=4_096, layers=2, units=32, heads=32, kv_heads=8, vocab=256, experts=16),
}
WIDTHS = marked(SIZES, lambda width: width == 256)
GUARD = "parts in which not even equal weights could be found"
LOUD, LOUDER = 3, 300.0
"""Dimensions that carry all of a router, as massive activations do, and by how much they do."""


def stranger(width: int, seed: int, *, loud: bool) -> Checkpoint:
    """Return a mixture of 16 experts; with `loud`, three dimensions carry nearly all of its routers."""
    model = SIZES[width].drawn(seed=seed)
    scale = np.ones(width, np.float32)
    scale[:LOUD] = LOUDER
    routers = {
        name: values * scale
        for name, values in model.tensors.items()
        if loud and name.endswith("moe.gate.weight")
    }
    assert len(routers) == (2 if loud else 0)
    return replace(model, tensors={**model.tensors, **routers})


def compared(candidate: Checkpoint, base: Checkpoint) -> mk.Comparison:
    return mk.compare(
        candidate=MemorySource(candidate.files("BF16"), name="candidate"),
        base=MemorySource(base.files("BF16"), name="base"),
    )


def limits_of(result: mk.Comparison) -> list[float | None]:
    return [
        test.detection_limit
        for test in result.evidence
        if isinstance(test, Tested) and test.component == "router"
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_routers_of_few_dimensions_are_not_testable(width):
    """Even equal ones would not be found reliably: sixteen units of three features."""
    found = compared(stranger(width, 1, loud=True), stranger(width, 2, loud=True))
    assert all(limit is not None and limit >= 1.0 for limit in limits_of(found))
    router = found.verdict.components["router"]
    assert router.conclusion is Conclusion.NOT_TESTABLE
    assert router.reason is not None
    assert router.reason.code == "blind"
    assert found.verdict.conclusion is Conclusion.NO_EVIDENCE  # the experts were tested
    assert router.detection_limit is None
    seen(GUARD, width, springs=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_routers_of_many_dimensions_are_tested(width):
    found = compared(stranger(width, 1, loud=False), stranger(width, 2, loud=False))
    assert all(limit is not None and limit < 1.0 for limit in limits_of(found))
    assert found.verdict.components["router"].conclusion is Conclusion.NO_EVIDENCE
    assert found.verdict.conclusion is Conclusion.NO_EVIDENCE
    seen(GUARD, width, springs=False)
