"""Routers that several models draw from one default seed: they are shared, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from tests.comparison.disguises import zoo_model

import modelkin as mk
from modelkin.comparison.verdict import Conclusion
from modelkin.source import MemorySource


def routers(model):
    return [name for name in model.tensors if name.endswith("block_sparse_moe.gate.weight")]


def with_public_routers(model, *, own):
    """Replace routers by public random ones, with a share of the model's own beside them."""
    rng = np.random.default_rng(0)
    changed = {}
    for name in routers(model):
        mine = model.tensors[name]
        drawn = rng.normal(size=mine.shape)
        changed[name] = (0.05 * (drawn + own * mine / mine.std())).astype(np.float32)
    return model.with_tensors(changed)


def compared(models, depth):
    sources = [MemorySource(model.files(), name=name) for model, name in zip(models, "AB", strict=True)]
    return mk.compare(*sources, options=mk.CompareOptions(depth=depth))


@pytest.mark.parametrize(("own", "depth"), [(0.0, "standard"), (0.5, "standard"), (0.0, "deep")])
def test_public_routers_of_strangers_are_told_as_routers_and_nothing_else(own, depth):
    models = [with_public_routers(zoo_model(name), own=own) for name in ("moe16-1", "moe16-2")]
    assert routers(models[0])
    verdict = compared(models, depth).verdict
    assert verdict.conclusion is Conclusion.SHARED_PARTIAL
    assert verdict.reading == "routers-only"
    assert str(verdict.headline).startswith("Only the routers are shared (")
    assert "Neither model's experts need come from the other" in str(verdict.summary)


def test_routers_beside_experts_are_no_reading():
    verdict = compared([zoo_model("moe16-tuned"), zoo_model("moe16-1")], "standard").verdict
    assert verdict.reading is None
    assert verdict.related
