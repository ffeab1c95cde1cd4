"""Quantised safetensors: what comes out is what the writers meant, whichever rows are asked for."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.architecture.handwritten_cases import gpt_oss_packed
from tests.formats.quantised_writers import SCHEMES, Matrix, Scheme, mxfp4
from tests.support.amount import every

import modelkin as mk
from modelkin.architecture import Role
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.model import Model
from modelkin.source import MemorySource
from modelkin.tensors import TensorSlice

NAME = "model.layers.0.mlp.up_proj.weight"
PREFIX = NAME.removesuffix("weight")


def matrix(n_rows: int = 64, n_columns: int = 96, *, seed: int = 0) -> Matrix:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n_rows, n_columns)) * rng.uniform(0.5, 2, (n_rows, 1))).astype(np.float32)


def opened(tensors: Mapping[str, npt.NDArray[Any]], config: Mapping[str, Any] | None = None) -> Model:
    files = {"model.safetensors": safetensors_bytes(dict(tensors))}
    if config is not None:
        files["config.json"] = json.dumps({"model_type": "llama", **config}).encode()
    return mk.open_model(MemorySource(files))


def written(scheme: Scheme, weights: Matrix, *, prefix: str = PREFIX) -> tuple[Model, Matrix]:
    tensors, expected = scheme.write(weights)
    return opened({prefix + name: one for name, one in tensors.items()}, scheme.config), expected


@lru_cache
def usual(name: str) -> tuple[Model, Matrix]:
    return written(SCHEMES[name], matrix())


@pytest.mark.parametrize("name", SCHEMES)
def test_numbers_are_exactly_those_of_the_published_formula(name):
    scheme = SCHEMES[name]
    model, expected = written(scheme, matrix())
    assert list(model.index) == [NAME]
    info = model.index[NAME]
    assert (info.dtype, info.shape) == (scheme.label, (64, 96))
    np.testing.assert_array_equal(model.tensor(NAME), expected, strict=True)
    assert model.index.n_parameters == 64 * 96
    assert any(f"1 {scheme.label}" in note for note in map(str, model.weights.notes))


@pytest.mark.parametrize("name", SCHEMES)
def test_what_was_quantised_is_near_what_went_in(name):
    weights = matrix()
    _, expected = SCHEMES[name].write(weights)
    tolerance = 0.5 if name.endswith("2") or "-2-" in name else 0.35
    assert np.linalg.norm(expected - weights) < tolerance * np.linalg.norm(weights)


@pytest.mark.parametrize("name", every(2, SCHEMES))
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_selection_agrees_with_the_whole(name, data):
    model, whole = usual(name)
    rows = data.draw(st.lists(st.integers(0, 63), max_size=6))
    first = data.draw(st.integers(0, 64))
    last = data.draw(st.integers(first, 64))
    columns = sorted(data.draw(st.tuples(st.integers(0, 96), st.integers(0, 96))))
    window = [(96 * row + columns[0], 96 * row + columns[1]) for row in sorted(set(rows))]
    anywhere = sorted(data.draw(st.tuples(st.integers(0, whole.size), st.integers(0, whole.size))))
    got = model.read(
        [
            TensorSlice.rows(NAME, first, last),
            TensorSlice.scattered(NAME, rows),
            TensorSlice.blocks(NAME, window),
            TensorSlice.blocks(NAME, [tuple(anywhere)]),
        ]
    )
    np.testing.assert_array_equal(got[0], whole[first:last])
    np.testing.assert_array_equal(got[1], whole[rows])
    picked = whole[sorted(set(rows)), columns[0] : columns[1]]
    np.testing.assert_array_equal(got[2], picked.reshape(-1))
    np.testing.assert_array_equal(got[3], whole.reshape(-1)[anywhere[0] : anywhere[1]])


@pytest.mark.parametrize("name", ["nf4", "nf4-plain", "fp8-block", "int4-zeros", "int3", "hqq-8-1", "mlx-3"])
def test_rows_cost_about_their_share(name):
    model, _ = written(SCHEMES[name], matrix(512, 256))
    whole = model.plan([TensorSlice.whole(NAME)]).bytes_needed
    some = model.plan([TensorSlice.rows(NAME, 100, 132)]).bytes_needed
    assert model.index[NAME].n_bytes >= whole
    assert some < whole / 16 * 1.1 + 2600  # tables of bitsandbytes are read each time


@pytest.mark.parametrize("name", ["gptq-4", "gptq-3", "awq"])
def test_columns_of_weights_stored_input_first_cost_their_share(name):
    model, _ = written(SCHEMES[name], matrix(512, 256))
    assert model.index[NAME].columns_first
    whole = model.plan([TensorSlice.whole(NAME)]).bytes_needed
    window = TensorSlice.blocks(NAME, [(256 * row + 64, 256 * row + 96) for row in range(512)])
    plan = model.plan([window])
    assert plan.bytes_needed < whole / 8 * 1.1
    assert plan.n_requests <= 4


def test_rows_that_do_not_begin_at_a_block_are_cut_right():
    model, expected = written(SCHEMES["nf4"], matrix(7, 33))
    np.testing.assert_array_equal(model.tensor(NAME), expected)
    np.testing.assert_array_equal(model.tensor(NAME, rows=slice(3, 5)), expected[3:5])


def test_blocks_of_fp8_may_stick_out_over_the_edge():
    scheme = SCHEMES["fp8-block"]
    model, expected = written(scheme, matrix(50, 70))
    np.testing.assert_array_equal(model.tensor(NAME), expected)
    np.testing.assert_array_equal(model.tensor(NAME, rows=slice(31, 34)), expected[31:34])


def test_stacked_experts_of_gpt_oss_come_input_first():
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(3, 24, 64)).astype(np.float32)  # experts, outputs, inputs
    tensors, expected = mxfp4(weights)
    prefix = "model.layers.0.mlp.experts.gate_up_proj"
    model = opened(
        {
            f"{prefix}_blocks": tensors["weight_packed"].reshape(3, 24, 2, 16),
            f"{prefix}_scales": tensors["weight_scale"],
        },
        {"quantization_config": {"quant_method": "mxfp4"}},
    )
    info = model.index[prefix]
    assert (info.dtype, info.shape) == ("MXFP4", (3, 64, 24))
    known = np.ascontiguousarray(expected.transpose(0, 2, 1))
    np.testing.assert_array_equal(model.tensor(prefix), known)
    np.testing.assert_array_equal(model.tensor(prefix, rows=[2, 0]), known[[2, 0]])
    # Some outputs of one expert are rows of the file.
    window = TensorSlice.blocks(prefix, [((64 + row) * 24 + 4, (64 + row) * 24 + 8) for row in range(64)])
    np.testing.assert_array_equal(model.read([window])[0].reshape(64, 4), known[1, :, 4:8])
    assert model.plan([window]).bytes_needed == 4 * (32 + 2)


def test_stacked_matrices_keep_their_scales():
    rng = np.random.default_rng(2)
    stack = rng.normal(size=(3, 8, 64)).astype(np.float32)
    parts = [SCHEMES["mlx-4"].write(one) for one in stack]
    tensors = {key: np.stack([one[key] for one, _ in parts]) for key in parts[0][0]}
    model = opened({PREFIX + name: one for name, one in tensors.items()}, SCHEMES["mlx-4"].config)
    np.testing.assert_array_equal(model.tensor(NAME), np.stack([expected for _, expected in parts]))
    np.testing.assert_array_equal(model.tensor(NAME, rows=[2]), parts[2][1][None])


def test_scales_of_activations_are_left_out_and_said():
    tensors, _ = SCHEMES["fp8-tensor"].write(matrix())
    side = {"input_scale": np.float32(0.1), "k_scale": np.float32(0.2)}
    model = opened(
        {PREFIX + name: np.asarray(one) for name, one in {**tensors, **side}.items()},
        SCHEMES["fp8-tensor"].config,
    )
    assert list(model.index) == [NAME]
    assert "2 tensors with activation scales were left out" in list(map(str, model.weights.notes))


def test_plain_tensors_stay_as_they_are():
    tensors, _ = SCHEMES["gptq-4"].write(matrix())
    norm = np.linspace(0, 1, 8, dtype=np.float32)
    model = opened(
        {"model.norm.weight": norm, **{PREFIX + name: one for name, one in tensors.items()}},
        SCHEMES["gptq-4"].config,
    )
    assert list(model.index) == [NAME, "model.norm.weight"]
    assert model.index["model.norm.weight"].storage is None


def test_a_model_that_is_not_quantised_is_not_touched():
    model = opened({"model.norm.weight": np.ones(8, np.float32)}, {})
    assert model.weights.notes == ()
    assert model.index["model.norm.weight"].storage is None


def test_the_config_is_not_read_for_weights_without_codes():
    files = {"model.safetensors": safetensors_bytes({"model.norm.weight": np.ones(8, np.float32)})}
    model = mk.open_model(MemorySource({**files, "config.json": b"not json"}))
    assert list(model.index) == ["model.norm.weight"]


def test_groups_of_a_size_of_their_own_are_taken_where_the_config_allows_them():
    tensors, expected = SCHEMES["gptq-8"].write(matrix())
    config = {
        "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"x": {}}}
    }
    model = opened({PREFIX + name: one for name, one in tensors.items()}, config)
    assert model.index[NAME].dtype == "GPTQ-8"
    np.testing.assert_array_equal(model.tensor(NAME), expected)


def test_modules_of_an_mlx_model_may_have_bits_of_their_own():
    tensors, expected = SCHEMES["mlx-6"].write(matrix())
    config = {"quantization": {"bits": 4, "group_size": 64, PREFIX[:-1]: {"bits": 6, "group_size": 32}}}
    model = opened({PREFIX + name: one for name, one in tensors.items()}, config)
    np.testing.assert_array_equal(model.tensor(NAME), expected)


def test_a_few_small_reads_open_a_model_of_many_layers():
    files: dict[str, npt.NDArray[Any]] = {}
    for layer in range(20):
        tensors, _ = SCHEMES["nf4"].write(matrix(seed=layer))
        files |= {f"model.layers.{layer}.mlp.up_proj.{name}": one for name, one in tensors.items()}
    model = opened(files)
    assert len(model.index) == 20
    assert len(model.fetcher.ledger) <= 4  # length and text of the header, and one state for all layers


def test_gpt_oss_is_understood_as_if_it_were_not_quantised():
    config, shapes = gpt_oss_packed()
    config = {**(config or {}), "intermediate_size": 64}  # the recorded 48 do not fill blocks of 32
    for layer in range(2):
        stem = f"model.layers.{layer}.mlp.experts.gate_up_proj"
        shapes |= {f"{stem}_blocks": (4, 128, 1, 16), f"{stem}_scales": (4, 128, 1), f"{stem}_bias": (4, 128)}
    tensors = {
        name: np.zeros(shape, np.uint8 if name.endswith(("_blocks", "_scales")) else np.float32)
        for name, shape in shapes.items()
    }
    model = opened(tensors, {**config, "quantization_config": {"quant_method": "mxfp4"}})
    architecture = model.architecture
    assert (architecture.family, architecture.unknown) == ("gpt_oss", ())
    entry = architecture.find(Role.EXPERT_GATE, layer=0)
    assert entry is not None
    assert entry.tensor == "model.layers.0.mlp.experts.gate_up_proj"
    assert (entry.part, entry.transposed) == ("weight", True)
    assert model.index[entry.tensor].dtype == "MXFP4"
    assert not any(name.endswith(("_blocks", "_scales")) for name in model.index)
