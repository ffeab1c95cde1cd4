"""Transposed weights of ONNX files: some of their columns are stored rows, with their scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tests.formats.onnx_files import model_bytes, node, opened, tensor
from tests.formats.test_onnx_values import CODES, dequantised, random_codes
from tests.support.amount import every

from modelkin.formats.onnx.storage import StoredLines, arranged, some_lines
from modelkin.formats.onnx.stored import OnnxTensor
from modelkin.tensors import ColumnStorage, TensorSlice
from modelkin.tensors import _storage as tensors_storage
from modelkin.tensors.slices import plan_slice

RNG = np.random.default_rng(1)


def spread_window(rows, columns, width):
    """Return some columns of some rows of a matrix, as stretches of elements."""
    return TensorSlice.blocks(
        "m.weight", [(row * width + columns[0], row * width + columns[1]) for row in rows]
    )


SOME = st.tuples(st.integers(0, 7), st.integers(1, 8)).map(
    lambda ends: (min(ends), max(ends[1], ends[0] + 1))
)
WINDOW_LAYOUTS: dict[str, tuple[int, tuple[int, ...], int]] = {
    "one scale": (1, (), 0),
    "inputs": (0, (8,), 0),
    "outputs": (1, (6,), 0),
    "blocks of inputs": (0, (3, 6), 3),
    "blocks of outputs": (1, (8, 2), 4),
}
"""How scales lie against eight inputs and six outputs: axis, shape, codes in a block."""


@pytest.mark.parametrize("kind", every(2, CODES))
@pytest.mark.parametrize("layout", WINDOW_LAYOUTS)
@settings(deadline=None, max_examples=15)
@given(columns=SOME, rows=st.sets(st.integers(0, 5), min_size=1).map(sorted))
def test_columns_of_codes_have_their_own_scales(kind, layout, columns, rows):
    axis, shape, block = WINDOW_LAYOUTS[layout]
    codes, zero = random_codes(kind, (8, 6)), random_codes(kind, shape or (1,)).reshape(shape)
    scale = RNG.uniform(0.01, 0.1, shape).astype(np.float32)
    attributes: dict[str, Any] = {"axis": axis, **({"block_size": block} if block else {})}
    nodes = [
        node("DequantizeLinear", ["m.weight", "s", "z"], ["w"], **attributes),
        node("MatMul", ["x", "w"], ["y"]),
    ]
    model = opened(model_bytes(nodes, [tensor("m.weight", codes), tensor("s", scale), tensor("z", zero)]))
    assert model.index["m.weight"].columns_first
    whole = dequantised(codes, scale, zero, **attributes).T
    found = model.read([spread_window(rows, columns, 8)])[0]
    np.testing.assert_array_equal(found, whole[rows, columns[0] : columns[1]].reshape(-1))


@pytest.mark.parametrize("apart", [1, 64 << 10], ids=["row by row", "one stretch"])
@settings(deadline=None, max_examples=30)
@given(columns=SOME, rows=st.sets(st.integers(0, 6), min_size=1).map(sorted))
def test_columns_of_a_turned_weight_are_those_of_the_whole(apart, columns, rows):
    values = np.arange(56, dtype=np.float32).reshape(8, 7)
    model = opened(model_bytes([node("MatMul", ["x", "m.weight"], ["y"])], [tensor("m.weight", values)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors_storage, "APART", apart)
        found = model.read([spread_window(rows, columns, 8)])[0]
    np.testing.assert_array_equal(found, values.T[rows, columns[0] : columns[1]].reshape(-1))


def planned(model, wanted):
    """Return the bytes of the ranges that a slice takes."""
    info = model.index[wanted.name]
    return [item.length for ranges in plan_slice(wanted, info).ranges.values() for item in ranges]


def test_columns_of_a_turned_weight_cost_their_bytes():
    values = RNG.normal(size=(300, 200)).astype(np.float32)
    model = opened(model_bytes([node("MatMul", ["x", "m.weight"], ["y"])], [tensor("m.weight", values)]))
    assert planned(model, spread_window(range(200), (40, 50), 300)) == [10 * 200 * 4]
    assert planned(model, spread_window(range(20), (40, 50), 300)) == [(9 * 200 + 20) * 4]


def test_columns_of_blocked_codes_cost_their_codes_and_scales():
    codes, scale = random_codes("INT4", (320, 200)), RNG.uniform(0.01, 0.1, (10, 200)).astype(np.float32)
    nodes = [
        node("DequantizeLinear", ["m.weight", "s"], ["w"], axis=0, block_size=32),
        node("MatMul", ["x", "w"], ["y"]),
    ]
    model = opened(model_bytes(nodes, [tensor("m.weight", codes), tensor("s", scale)]))
    assert planned(model, spread_window(range(200), (60, 70), 320)) == [10 * 200 // 2, 2 * 200 * 4]


def test_columns_of_queries_keys_and_values_in_one_are_those_of_each():
    values = RNG.normal(size=(12, 36)).astype(np.float32)
    stored = OnnxTensor(name="qkv", dtype="F32", shape=(12, 36), file="f", start=0, stop=values.nbytes)
    for start in (0, 12, 24):
        part = some_lines(arranged(StoredLines(stored=stored, turned=True)), start, start + 12, 36)
        assert isinstance(part, ColumnStorage)
        plan = part.plan_window([(2, 5), (7, 8)], (3, 9))
        found = plan.build(lambda _, wanted: values.tobytes()[wanted.start : wanted.stop])
        np.testing.assert_array_equal(found, values.T[start:][[2, 3, 4, 7], 3:9])


def test_weights_that_are_not_turned_or_have_no_places_are_read_by_rows():
    values = RNG.normal(size=(6, 4)).astype(np.float16)
    typed = helper.make_tensor("m.weight", TensorProto.FLOAT16, values.shape, values.flatten())
    model = opened(model_bytes([node("MatMul", ["x", "m.weight"], ["y"])], [typed]))
    assert not model.index["m.weight"].columns_first
    codes, scale = random_codes("INT8", (6, 4)), np.float32(0.5)
    nodes = [node("DequantizeLinear", ["m.weight", "s"], ["w"]), node("Gather", ["w", "input_ids"], ["y"])]
    model = opened(model_bytes(nodes, [tensor("m.weight", codes), tensor("s", scale)]))
    assert not model.index["m.weight"].columns_first
