"""Groups of units: KV groups and experts, tested whole."""

import json

import numpy as np
import pytest
from tests.support import LlamaShape, llama_config, llama_tensors

import modelkin as mk
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.message import say
from modelkin.source import MemorySource

SHAPE = LlamaShape(layers=3, hidden=64, mlp=64, heads=8, kv_heads=8, vocab=64)


def source(tensors, shape=SHAPE):
    files = {
        "config.json": json.dumps(llama_config(shape)).encode(),
        "model.safetensors": safetensors_bytes(tensors),
    }
    return MemorySource(files)


def groups(candidate, base, shape=SHAPE):
    result = mk.compare(candidate=source(candidate, shape), base=source(base, shape))
    return [test for test in result.evidence if test.method == "kv-groups"]


def noisy(tensors, seed=9):
    rng = np.random.default_rng(seed)
    return {
        name: value + 0.3 * value.std() * rng.normal(size=value.shape).astype(np.float32)
        for name, value in tensors.items()
    }


def test_groups_of_a_noisy_copy_are_found_at_the_floor_of_what_eight_can_say():
    base = llama_tensors(SHAPE, seed=1)
    found = groups(noisy(base), base)
    assert [test.n for test in found] == [8, 8, 8]
    assert all(test.log10_p < -4 for test in found)


def test_groups_of_strangers_are_not():
    z = [
        test.z
        for seed in range(5)
        for test in groups(llama_tensors(SHAPE, seed=10 + seed), llama_tensors(SHAPE, seed=20 + seed))
    ]
    assert max(map(abs, z)) < 4


def test_groups_that_changed_places_are_not_found():
    base = llama_tensors(SHAPE, seed=1)
    width = SHAPE.hidden // SHAPE.heads
    moved = {
        name: value.reshape(SHAPE.kv_heads, width, -1)[::-1].reshape(value.shape)
        if "v_proj" in name
        else value
        for name, value in base.items()
    }
    assert all(test.log10_p > -3 for test in groups(moved, base))


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_too_few_groups_are_skipped_with_the_reason(kv_heads):
    shape = LlamaShape(layers=2, hidden=64, mlp=64, heads=8, kv_heads=kv_heads, vocab=64)
    found = groups(llama_tensors(shape, seed=1), llama_tensors(shape, seed=2), shape)
    assert {test.reason for test in found} == {say("few-groups", n=kv_heads)}
