"""Tests of the deep stage on models that share a geometry and no weight: z and p are what they claim."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.support import LlamaShape, llama_config, llama_tensors

import modelkin as mk
from modelkin.comparison.layer_pairs import by_depth
from modelkin.comparison.methods import Tested, load_method
from modelkin.comparison.methods import head_matching as head_matching_module
from modelkin.comparison.methods import unit_matching as unit_matching_module
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.reading import read_parts
from modelkin.comparison.tokens import UNREAD
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.source import MemorySource

SHAPE = LlamaShape(layers=2, hidden=64, mlp=96, heads=4, kv_heads=2, vocab=64)
N_PAIRS = 60


def stranger(seed):
    """Return a model whose matrices have few strong directions, in an order of dimensions of its own.

    The strengths of directions, the scales of dimensions and the shape of units are the same in all models.
    """
    rng = np.random.default_rng([seed, 3])
    order = rng.permutation(SHAPE.hidden)
    mixing = np.random.default_rng(0).standard_t(3, size=(8, SHAPE.hidden))[:, order]
    scales = np.geomspace(1, 4, SHAPE.hidden)[order]
    tensors = llama_tensors(SHAPE, seed=seed)
    for name, value in tensors.items():
        if value.ndim == 2 and "layers" in name:
            over = value.T if name.endswith(("o_proj.weight", "down_proj.weight")) else value
            strong = rng.normal(size=(len(over), 8)) @ mixing
            made = (over * 50 + 0.5 * strong) * scales
            tensors[name] = np.ascontiguousarray(made.T if over is not value else made, dtype=np.float32)
    files = {
        "config.json": json.dumps(llama_config(SHAPE)).encode(),
        "model.safetensors": safetensors_bytes(tensors),
    }
    return MemorySource(files, name=f"stranger-{seed}")


def surveyed(name, number):
    """Return the evidence of one method on one pair of strangers."""
    models = [mk.open_model(stranger(2 * number + side)) for side in (0, 1)]
    opened = ModelPair(candidate=models[0], base=models[1], options=mk.CompareOptions(depth="deep"))
    pair = opened.seen(UNREAD, opened.deep_bytes() + opened.sampled_bytes())
    facing = by_depth(pair.candidate.architecture, pair.base.architecture)
    plan = load_method(name).plan(replace(pair, layer_pairs=facing))
    return [
        item
        for probe in plan.probes
        for item in probe.evaluate(
            read_parts(models[0], probe.candidate), read_parts(models[1], probe.base)
        ).evidence
    ]


@pytest.fixture
def keep_all(monkeypatch):
    """Test layers whatever was found in them, as if nothing had been dropped."""
    monkeypatch.setattr(unit_matching_module, "FOUND_SHARE", -1.0)
    monkeypatch.setattr(head_matching_module, "HEADS_FOUND", -1.0)


@pytest.mark.parametrize("name", ["residual-writers", "mlp-matching", "head-matching"])
@pytest.mark.usefixtures("keep_all")
def test_the_order_of_residual_dimensions_is_a_null(name):
    # One test of each pair: those of a pair depend on each other.
    found = [surveyed(name, number)[0] for number in range(N_PAIRS)]
    assert all(isinstance(test, Tested) for test in found)
    z = np.array([test.z for test in found])
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(z.mean()) < 4 / math.sqrt(N_PAIRS)
    p = np.array([10**test.log10_p for test in found])
    assert np.count_nonzero(p <= 0.05) <= 3 + 4 * math.sqrt(3)


@pytest.mark.parametrize("name", ["mlp-map", "attention-map"])
def test_the_best_of_all_pairs_of_layers_is_corrected_for(name):
    found = [surveyed(name, number) for number in range(N_PAIRS)]
    p = np.array([min(10**test.log10_p for test in tests if isinstance(test, Tested)) for tests in found])
    assert np.count_nonzero(p <= 0.05) <= 3 + 4 * math.sqrt(3)
