"""Groups of units: KV groups and experts, tested whole."""

import json

import numpy as np
import pytest
from tests.support import LlamaShape, llama_config, llama_tensors

import modelkin as mk
from modelkin.comparison.methods import Skipped, load_method
from modelkin.comparison.pair import ModelPair
from modelkin.comparison.tokens import UNREAD
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.message import say
from modelkin.model import open_models, read_headers
from modelkin.options import CompareOptions
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


@pytest.mark.more
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


WIDTH, UNITS, LAYERS = 32, 16, 2


def mixture(n_experts, seed):
    """Return the tensors of a mixture of small experts."""
    rng = np.random.default_rng(seed)
    shapes = {"model.embed_tokens": (64, WIDTH), "model.norm": (WIDTH,), "lm_head": (64, WIDTH)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        shapes |= {f"{prefix}.self_attn.{part}_proj": (WIDTH, WIDTH) for part in "qkvo"}
        shapes |= {f"{prefix}.{name}_layernorm": (WIDTH,) for name in ("input", "post_attention")}
        shapes[f"{prefix}.block_sparse_moe.gate"] = (n_experts, WIDTH)
        for expert in range(n_experts):
            inside = f"{prefix}.block_sparse_moe.experts.{expert}"
            shapes |= {f"{inside}.w1": (UNITS, WIDTH), f"{inside}.w3": (UNITS, WIDTH)}
            shapes[f"{inside}.w2"] = (WIDTH, UNITS)
    return {f"{name}.weight": rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def mixture_source(tensors, n_experts):
    config = {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "hidden_size": WIDTH,
        "intermediate_size": UNITS,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "num_hidden_layers": LAYERS,
        "num_local_experts": n_experts,
        "vocab_size": 64,
    }
    files = {"config.json": json.dumps(config).encode(), "model.safetensors": safetensors_bytes(tensors)}
    return MemorySource(files)


def expert_sets(candidate, base, n_experts):
    result = mk.compare(candidate=mixture_source(candidate, n_experts), base=mixture_source(base, n_experts))
    return [test for test in result.evidence if test.method == "expert-sets"]


@pytest.mark.parametrize(
    ("n_experts", "n_read", "n_rows"), [(8, 8, 1), (32, 32, 1), (64, 32, 2), (128, 32, 4)]
)
def test_many_experts_cost_no_more_places_than_32_and_as_many_bytes_as_a_row_of_each(
    n_experts, n_read, n_rows
):
    tensors = mixture(n_experts, seed=1)
    options = CompareOptions()
    with open_models([mixture_source(tensors, n_experts)] * 2, options.fetch) as opened:
        read_headers(opened)
        pair = ModelPair(candidate=opened[0], base=opened[1], options=options)
        (probe,) = load_method("expert-sets").plan(pair.seen(UNREAD, pair.sampled_bytes())).probes
        slices = [item for part in probe.candidate for item in part.slices]
        assert len(slices) == LAYERS * n_read
        assert opened[0].plan(slices, max_waste=0.0).bytes_needed == LAYERS * n_read * n_rows * WIDTH * 4
        assert n_read * n_rows == n_experts


@pytest.mark.more
def test_some_of_many_experts_find_a_noisy_copy_and_no_stranger():
    base = mixture(128, seed=1)
    found = expert_sets(noisy(base), base, 128)
    assert [test.n for test in found] == [32, 32]
    assert all(test.details["rows_a_group"] == 4 and test.log10_p < -20 for test in found)
    assert all(abs(test.z) < 4 for test in expert_sets(mixture(128, seed=2), base, 128))


def test_mixtures_of_other_numbers_of_experts_are_not_compared_by_number():
    result = mk.compare(
        candidate=mixture_source(mixture(64, seed=1), 64), base=mixture_source(mixture(128, seed=2), 128)
    )
    tests = [test for test in result.evidence if test.method == "expert-sets"]
    assert all(isinstance(test, Skipped) for test in tests)
    told = {test.reason for test in tests if isinstance(test, Skipped)}
    assert told == {say("groups-differ", n=64, m=128)}
