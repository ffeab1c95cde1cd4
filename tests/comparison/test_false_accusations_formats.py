"""Ways in which quantised models, adapters and guessed roles could accuse strangers: each stays fixed."""

import json

import numpy as np
import pytest
from tests.formats.adapters_support import config_bytes
from tests.formats.quantised_writers import SCHEMES
from tests.formats.test_quantised_compare import plain
from tests.places import ZOO
from tests.support import LlamaShape, llama_config, llama_tensors

import modelkin as mk
from modelkin.comparison.methods import Skipped, Tested
from modelkin.comparison.methods.axis import stands_alone
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.message import say
from modelkin.source import MemorySource

SHAPE = LlamaShape(layers=2, hidden=256, mlp=512, heads=8, kv_heads=4, vocab=64)
PLACES = np.random.default_rng(99).permutation(SHAPE.mlp)


def filled_up(seed, n_fillers, make):
    """Return a model of random numbers in which some units are fillers, in places that all models share."""
    tensors = llama_tensors(SHAPE, seed=seed)
    for name, values in tensors.items():
        if "gate_proj" in name or "up_proj" in name:
            values[PLACES[:n_fillers]] = make(np.random.default_rng([seed, 3]))
    return MemorySource(
        {
            "config.json": json.dumps(llama_config(SHAPE)).encode(),
            "model.safetensors": safetensors_bytes(tensors),
        }
    )


def constant(rng):
    return np.full(SHAPE.hidden, 1e-4, np.float32)


def own_direction(rng):
    return rng.standard_normal(SHAPE.hidden).astype(np.float32)


@pytest.mark.parametrize("make", [constant, own_direction])
def test_fillers_in_the_same_places_are_no_kinship(make):
    """With 128 constant units p was 10^-113; units of one direction that differs by model, far less."""
    result = mk.compare(candidate=filled_up(0, 128, make), base=filled_up(1, 128, make))
    assert result.verdict.conclusion.value == "no-evidence"
    tests = [
        test for test in result.evidence if isinstance(test, Tested) and test.role in ("mlp_gate", "mlp_up")
    ]
    assert tests
    assert all(test.z is not None and abs(test.z) < 4.5 for test in tests)


def test_a_copy_is_still_found_beside_its_fillers():
    noisy = filled_up(0, 128, constant)
    assert mk.compare(candidate=filled_up(0, 64, constant), base=noisy).verdict.related


def test_only_repeated_directions_are_left_out():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 8))
    rows[[3, 17, 30]] = rows[3] * np.array([[1.0], [0.01], [300.0]])
    rows[5] = 0.0
    rows[6] = -rows[7]
    assert np.flatnonzero(~stands_alone(rows)).tolist() == [3, 17, 30]


def untied(seed, *, start, own):
    """Return an adapter whose matrices both began with random numbers (`init_lora_weights=False`)."""
    begin, rng = np.random.default_rng(start), np.random.default_rng(seed)
    made = {}
    for layer in range(SHAPE.layers):
        for part in ("gate_proj", "up_proj"):
            name = f"base_model.model.model.layers.{layer}.mlp.{part}"
            for letter, shape in (("A", (8, SHAPE.hidden)), ("B", (SHAPE.mlp, 8))):
                values = begin.standard_normal(shape) + own * rng.standard_normal(shape)
                made[f"{name}.lora_{letter}.weight"] = values.astype(np.float32)
    config = config_bytes(base_model_name_or_path="./x", r=8, init_lora_weights=False)
    return MemorySource({"adapter_config.json": config, "adapter_model.safetensors": safetensors_bytes(made)})


@pytest.mark.parametrize("own", [0.3, 1.0])
def test_adapters_that_began_alike_in_both_matrices_are_not_tested(own):
    """Trained on unrelated models from one seed, their updates agreed at p = 10^-283."""
    result = mk.compare(candidate=untied(1, start=42, own=own), base=untied(2, start=42, own=own))
    assert result.verdict.conclusion.value == "not-testable"
    reasons = {
        test.reason
        for test in result.evidence
        if isinstance(test, Skipped) and test.method == "adapter-units"
    }
    assert reasons == {say("adapter-same-factors")}


def test_adapters_that_began_with_other_numbers_are_tested():
    result = mk.compare(candidate=untied(1, start=42, own=0.3), base=untied(2, start=43, own=0.3))
    assert result.verdict.conclusion.value == "no-evidence"


def padded(model, scheme, n_added=96):
    """Return a model of the zoo with zero units between its first units, all projections quantised."""
    tensors = {}
    for name, values in plain(model).items():
        if not name.endswith("_proj.weight"):
            tensors[name] = values
            continue
        axis = 1 if "down_proj" in name else 0
        if "mlp" in name:
            values = np.insert(values, np.arange(1, n_added + 1), 0.0, axis=axis)
        parts, _ = SCHEMES[scheme].write(np.ascontiguousarray(values, np.float32))
        tensors |= {name.removesuffix("weight") + part: one for part, one in parts.items()}
    config = json.loads((ZOO / model / "config.json").read_text())
    config |= {**SCHEMES[scheme].config, "intermediate_size": config["intermediate_size"] + n_added}
    return MemorySource(
        {"config.json": json.dumps(config).encode(), "model.safetensors": safetensors_bytes(tensors)}
    )


@pytest.mark.more
@pytest.mark.parametrize("scheme", ["gptq-2", "hqq-2-1", "mlx-2"])
def test_twins_that_were_padded_and_quantised_alike_stay_strangers(scheme):
    """Zeros come back as zeros from the first two, and as one small vector from the third."""
    result = mk.compare(candidate=padded("twin-1", scheme), base=padded("base", scheme))
    assert result.verdict.conclusion.value == "no-evidence"
