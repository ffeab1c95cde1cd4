"""Strangers whose weights are made of public random numbers, with multipliers of their own."""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import pytest
from tests.comparison.disguises import zoo_model

import modelkin as mk
from modelkin.comparison.methods import Tested
from modelkin.comparison.verdict import Conclusion
from modelkin.source import MemorySource

MATRICES = 50


def own_numbers(model):
    return np.random.default_rng(zlib.crc32(model.tensors["model.embed_tokens.weight"].tobytes()))


def with_bases(model):
    """Add multiples of public matrices, others for every tensor (as in PRANC)."""
    rng, changed = own_numbers(model), {}
    for name, values in model.tensors.items():
        if ".mlp." in name:
            public = np.random.default_rng(zlib.crc32(name.encode()))
            drawn = public.normal(size=(MATRICES, *values.shape)) / np.sqrt(MATRICES)
            changed[name] = values + 1.5 * values.std() * np.tensordot(rng.normal(size=MATRICES), drawn, 1)
    return model.with_tensors({name: values.astype(np.float32) for name, values in changed.items()})


def hashed(model):
    """Make every weight one of 200 of the model's own, chosen and signed by public numbers (HashedNets)."""
    changed = {}
    for name, values in model.tensors.items():
        if ".mlp." in name:
            public = np.random.default_rng(zlib.crc32(name.encode()))
            chosen, signs = public.integers(0, 200, values.shape), public.choice([-1, 1], values.shape)
            changed[name] = (values.ravel()[:200][chosen] * signs).astype(np.float32)
    return model.with_tensors(changed)


@pytest.mark.parametrize(("recipe", "least"), [(with_bases, 3), (hashed, 1)])
def test_strangers_made_of_public_numbers_are_accused_only_if_no_gate_points_away(recipe, least):
    made = {name: recipe(zoo_model(name)).files() for name in ("base", "twin-1", "order-1", "corpus-1")}
    traps = 0
    for names in itertools.combinations(made, 2):
        found = mk.compare(*(MemorySource(made[name], name=name) for name in names))
        tests = [test for test in found.evidence if isinstance(test, Tested) and test.component == "mlp"]
        gates = [test.z or 0.0 for test in tests if test.role == "mlp_gate"]
        away = min(gates) < -4.5
        traps += away and min(test.log10_p for test in tests) < -10
        assert found.verdict.conclusion is Conclusion.NO_EVIDENCE or not away
    assert traps >= least


@pytest.mark.parametrize("names", [("finetune-heavy", "base"), ("half-of-layers", "base")], ids="~".join)
def test_no_gate_of_a_relative_points_away(names):
    found = mk.compare(*(MemorySource(zoo_model(name).files(), name=name) for name in names))
    gates = [test for test in found.evidence if isinstance(test, Tested) and test.role == "mlp_gate"]
    assert min(test.z or 0.0 for test in gates) > -4.5
    assert found.verdict.components["mlp"].conclusion.related
