"""Adapters without their base: the null holds for strangers, even those that began with the same numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.formats.adapters_support import config_bytes
from tests.support import LlamaShape, llama_config, llama_tensors

import modelkin as mk
from modelkin.comparison.methods import Tested, load_method
from modelkin.comparison.methods.adapter_units import began_alike
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.message import say
from modelkin.source import MemorySource

SHAPE = LlamaShape(layers=2, hidden=24, mlp=200, heads=2, kv_heads=2, vocab=32)
GATE, UP, DOWN = (f"model.layers.{{}}.mlp.{name}_proj" for name in ("gate", "up", "down"))


def base_tensors(seed):
    return llama_tensors(SHAPE, seed=seed)


def base_model(tensors):
    config = json.dumps(llama_config(SHAPE)).encode()
    return mk.open_model(
        MemorySource({"config.json": config, "model.safetensors": safetensors_bytes(tensors)})
    )


def adapter(base, *, seed, strength=1.0, rank=6, start=None, order=None, modules=(GATE, UP, DOWN)):
    """Return an adapter whose updates follow a gradient: each matrix sees the input through the other one."""
    rng = np.random.default_rng(seed)
    begin = np.random.default_rng(seed if start is None else start)
    made = {}
    for layer in range(SHAPE.layers):
        for module in modules:
            name = module.format(layer)
            outputs, inputs = base[f"{name}.weight"].shape
            a = begin.standard_normal((rank, inputs)) / np.sqrt(inputs)
            b = 0.002 * rng.standard_normal((outputs, rank))
            if module is not DOWN:
                other = base[f"{(UP if module == GATE else GATE).format(layer)}.weight"]
                b += strength * rng.standard_normal((outputs, 1)) * (other @ a.T)
            if order is not None and module is not DOWN:
                b = b[order]
            made[f"base_model.model.{name}.lora_A.weight"] = a.astype(np.float32)
            made[f"base_model.model.{name}.lora_B.weight"] = b.astype(np.float32)
    files = {
        "adapter_config.json": config_bytes(r=rank, base_model_name_or_path="./somewhere"),
        "adapter_model.safetensors": safetensors_bytes(made),
    }
    return mk.open_model(MemorySource(files))


def found_in(candidate, base, *, seed=0):
    result = mk.compare(candidate=candidate, base=base, options=mk.CompareOptions(seed=seed))
    return result, [test for test in result.evidence if test.method == "adapter-units"]


def test_an_adapter_is_told_to_belong_to_its_base():
    tensors = base_tensors(0)
    result, tests = found_in(adapter(tensors, seed=1), base_model(tensors))
    assert result.verdict.conclusion.value == "shared"
    assert {test.role for test in tests} == {"mlp_gate", "mlp_up"}
    assert all(test.sign_free for test in tests)
    turned, _ = found_in(base_model(tensors), adapter(tensors, seed=1))
    assert turned.verdict.conclusion.value == "shared"


def test_the_same_updates_in_another_order_are_nothing():
    tensors = base_tensors(0)
    order = np.random.default_rng(5).permutation(SHAPE.mlp)
    result, _ = found_in(adapter(tensors, seed=1, order=order), base_model(tensors))
    assert result.verdict.conclusion.value == "no-evidence"


@pytest.mark.more
def test_p_values_of_strangers_are_uniform():
    values = []
    for seed in range(30):
        _, tests = found_in(
            adapter(base_tensors(seed), seed=seed), base_model(base_tensors(1000 + seed)), seed=seed
        )
        values += [test.z for test in tests]
    z = np.array(values)
    assert len(z) == 120
    assert abs(z.mean()) < 4 / np.sqrt(len(z))
    assert 0.8 < z.std() < 1.25
    assert np.abs(z).max() < 4.5


def test_two_adapters_of_one_base_are_told_from_those_of_two():
    tensors = base_tensors(0)
    first = adapter(tensors, seed=1, strength=3.0)
    rng = np.random.default_rng(3)
    shared = adapter(tensors, seed=1, strength=3.0)  # the same course of training from other numbers
    arrays = {name: shared.tensor(name) for name in shared.index}
    turned = {}
    for name in arrays:
        if name.endswith("lora_A.weight"):
            rotation = np.roll(np.diag(rng.choice([-1.0, 1.0], 6)), 1, axis=0)
            b = name.replace("lora_A", "lora_B")
            turned[name] = (rotation @ arrays[name]).astype(np.float32)
            turned[b] = (arrays[b] @ rotation.T).astype(np.float32)
    files = {
        "adapter_config.json": config_bytes(r=6, base_model_name_or_path="./x"),
        "adapter_model.safetensors": safetensors_bytes(turned),
    }
    result, tests = found_in(first, mk.open_model(MemorySource(files)))
    assert result.verdict.conclusion.value == "shared"
    assert all(
        test.effect.value > 0.99 for test in tests if isinstance(test, Tested)
    )  # the product is what counts
    other, _ = found_in(first, adapter(base_tensors(9), seed=2, strength=3.0))
    assert other.verdict.conclusion.value == "no-evidence"


def test_without_a_down_projection_the_beginning_does_not_matter():
    first = adapter(base_tensors(0), seed=1, start=77, modules=(GATE, UP))
    for base, conclusion in ((9, "no-evidence"), (0, "shared")):
        second = adapter(base_tensors(base), seed=1, start=77, modules=(GATE, UP))
        result, _ = found_in(first, second, seed=3)
        assert result.verdict.conclusion.value == (conclusion if base else "identical")


def test_adapters_that_began_with_the_same_numbers_are_not_tested():
    first = adapter(base_tensors(0), seed=1, start=77)
    second = adapter(base_tensors(9), seed=2, start=77)
    result, tests = found_in(first, second)
    assert result.verdict.conclusion.value == "not-testable"
    assert {test.reason for test in tests} == {say("adapter-same-start")}


@pytest.mark.parametrize(("share", "alike"), [(0.0, False), (0.5, True), (1.0, True)])
def test_a_common_beginning_is_seen_through_training(share, alike):
    rng = np.random.default_rng(0)
    start, moved, other = (rng.standard_normal((8, 64)) for _ in range(3))
    assert began_alike(start, share * start[:5] + 0.8 * moved[:5] + (share == 0.0) * other[:5]) is alike


def test_matrices_that_say_nothing_are_not_alike():
    assert not began_alike(np.zeros((2, 4)), np.zeros((2, 4)))
    assert not began_alike(np.ones((2, 4)), np.ones((2, 5)))
    assert not began_alike(np.zeros((0, 4)), np.zeros((0, 4)))


def test_attention_alone_cannot_be_tested():
    tensors = base_tensors(0)
    result, tests = found_in(
        adapter_of_attention(tensors, "model.layers.{}.self_attn.q_proj"), base_model(tensors)
    )
    assert result.verdict.conclusion.value == "not-testable"
    assert [test.reason for test in tests] == [say("adapter-no-update")]
    assert any(flag.code == "adapter-fits" for flag in result.flags)


def adapter_of_attention(tensors, module):
    rng = np.random.default_rng(0)
    made = {}
    for layer in range(SHAPE.layers):
        outputs, inputs = tensors[f"{module.format(layer)}.weight"].shape
        made[f"base_model.model.{module.format(layer)}.lora_A.weight"] = _normal(rng, 4, inputs)
        made[f"base_model.model.{module.format(layer)}.lora_B.weight"] = _normal(rng, outputs, 4)
    return mk.open_model(
        MemorySource(
            {
                "adapter_config.json": config_bytes(base_model_name_or_path="./x"),
                "adapter_model.safetensors": safetensors_bytes(made),
            }
        )
    )


def _normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def test_ordinary_models_have_no_such_test():
    pair = [base_model(base_tensors(seed)) for seed in (0, 1)]
    _, tests = found_in(*pair)
    assert tests == []
    assert load_method("adapter-units").card.exact
