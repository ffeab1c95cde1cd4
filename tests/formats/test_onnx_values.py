"""Numbers of ONNX files: bit for bit what the reference implementation makes of them."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tests.formats.onnx_files import MICROSOFT, golden, model_bytes, node, opened, tensor

from modelkin.tensors import TensorSlice

RNG = np.random.default_rng(0)
FLOATS = {
    "F32": (TensorProto.FLOAT, np.float32),
    "F16": (TensorProto.FLOAT16, np.float16),
    "BF16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "F64": (TensorProto.DOUBLE, np.float64),
    "F8_E4M3": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "F8_E4M3FNUZ": (TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2": (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
    "F8_E5M2FNUZ": (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
}
LAYOUTS: dict[str, tuple[int, tuple[int, ...], int]] = {
    "one scale": (1, (), 0),
    "first axis": (0, (6,), 0),
    "second axis": (1, (8,), 0),
    "blocks": (1, (6, 2), 4),
}
"""How scales lie against six rows of eight: axis, shape, codes in a block."""
CODES = {
    "INT8": (np.int8, -128, 127),
    "UINT8": (np.uint8, 0, 255),
    "INT16": (np.int16, -999, 999),
    "INT4": (ml_dtypes.int4, -8, 7),
    "UINT4": (ml_dtypes.uint4, 0, 15),
}


def random_codes(kind, shape):
    dtype, low, high = CODES[kind]
    return RNG.integers(low, high + 1, shape).astype(dtype)


def dequantised(codes, scale, zero, **attributes):
    """Return what the reference implementation of ONNX makes of codes."""
    names = ["x", "scale"] + (["zero"] if zero is not None else [])
    arrays = dict(zip(names, (codes, scale, zero), strict=False))
    nodes = [node("DequantizeLinear", names, ["y"], **attributes)]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    tensors = [tensor(name, array) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", [], [output], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    (found,) = cast(list[Any], ReferenceEvaluator(made).run(None, {}))
    return found.astype(np.float32)


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_plain_numbers_of_every_type_are_read(dtype, raw):
    code, kind = FLOATS[dtype]
    values = RNG.normal(size=(3, 5)).astype(kind)
    if raw:
        made = numpy_helper.from_array(values, "layer.weight")
    else:
        made = helper.make_tensor("layer.weight", code, values.shape, values.astype(np.float64).flatten())
        assert not made.raw_data
    model = opened(model_bytes([node("Mul", ["layer.weight", "x"], ["y"])], [made]))
    assert model.index["layer.weight"].dtype == dtype
    expected = values.astype(np.float64 if dtype == "F64" else np.float32)
    np.testing.assert_array_equal(model.tensor("layer.weight"), expected)
    np.testing.assert_array_equal(model.tensor("layer.weight", rows=slice(1, 3)), expected[1:3])


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_dequantised_weights_are_those_of_the_reference(kind, layout):
    codes = random_codes(kind, (6, 8))
    axis, shape, block = LAYOUTS[layout]
    scale = RNG.uniform(0.01, 0.1, shape).astype(np.float32)
    zero = random_codes(kind, shape) if shape else random_codes(kind, (1,)).reshape(())
    attributes: dict[str, Any] = {"axis": axis, **({"block_size": block} if block else {})}
    nodes = [
        node("DequantizeLinear", ["layer.weight_quantized", "s", "z"], ["w"], **attributes),
        node("MatMul", ["x", "w"], ["y"], name="/layer/MatMul"),
    ]
    tensors = [tensor("layer.weight_quantized", codes), tensor("s", scale), tensor("z", zero)]
    model = opened(model_bytes(nodes, tensors))
    assert list(model.index) == ["layer.weight"]
    assert model.index["layer.weight"].dtype == kind
    expected = dequantised(codes, scale, zero, **attributes).T
    np.testing.assert_array_equal(model.tensor("layer.weight"), expected)
    np.testing.assert_array_equal(model.tensor("layer.weight", rows=[5, 0, 3]), expected[[5, 0, 3]])


def test_half_precision_scales_give_numbers_in_half_precision():
    codes, scale = random_codes("INT8", (4, 6)), RNG.uniform(0.01, 0.1, 4).astype(np.float16)
    nodes = [
        node("DequantizeLinear", ["table.weight", "s"], ["w"], axis=0),
        node("Gather", ["w", "input_ids"], ["y"]),
    ]
    model = opened(model_bytes(nodes, [tensor("table.weight", codes), tensor("s", scale)]))
    np.testing.assert_array_equal(model.tensor("table.weight"), dequantised(codes, scale, None, axis=0))


def test_float8_weights_are_scaled():
    codes = RNG.normal(size=(4, 6)).astype(ml_dtypes.float8_e4m3fn)
    scale = np.float32(0.25)
    nodes = [node("DequantizeLinear", ["a.weight", "s"], ["w"]), node("Gather", ["w", "input_ids"], ["y"])]
    model = opened(model_bytes(nodes, [tensor("a.weight", codes), tensor("s", scale)]))
    assert model.index["a.weight"].dtype == "F8_E4M3-SCALED"
    np.testing.assert_array_equal(model.tensor("a.weight"), codes.astype(np.float32) * scale)


def product_graph(op, codes, scale, zero):
    """Return a product of codes in one of the ways in which runtimes have it."""
    tensors = [tensor("fc.weight_quantized", codes), tensor("s", scale), tensor("z", zero)]
    match op:
        case "MatMulInteger":
            nodes = [
                node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
                node("MatMulInteger", ["xq", "fc.weight_quantized", "xz", "z"], ["i"]),
                node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
                node("Mul", ["xs", "s"], ["ss"]),
                node("Mul", ["f", "ss"], ["y"]),
            ]
        case "DynamicQuantizeMatMul":
            nodes = [node(op, ["x", "fc.weight_quantized", "s", "z"], ["y"], domain=MICROSOFT)]
        case "MatMulIntegerToFloat":
            names = ["x", "fc.weight_quantized", "xs", "s", "xz", "z"]
            nodes = [node(op, names, ["y"], domain=MICROSOFT)]
        case "QLinearMatMul":
            nodes = [node(op, ["x", "xs", "xz", "fc.weight_quantized", "s", "z", "ys", "yz"], ["y"])]
        case "Cast and Mul":
            tensors = [*tensors[:1], tensor("s", scale[None, :]), tensor("z", zero[None, :])]
            nodes = [
                node("Cast", ["fc.weight_quantized"], ["c"], to=TensorProto.FLOAT),
                node("Cast", ["z"], ["zf"], to=TensorProto.FLOAT),
                node("Sub", ["c", "zf"], ["d"]),
                node("Mul", ["d", "s"], ["w"]),
                node("MatMul", ["x", "w"], ["y"]),
            ]
    return model_bytes(nodes, tensors)


@pytest.mark.parametrize(
    "op",
    ["MatMulInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "QLinearMatMul", "Cast and Mul"],
)
def test_weights_of_products_of_codes_are_found_with_their_scales(op):
    codes = random_codes("UINT8", (5, 7))
    scale, zero = RNG.uniform(0.01, 0.1, 7).astype(np.float32), random_codes("UINT8", 7)
    model = opened(product_graph(op, codes, scale, zero))
    assert list(model.index) == ["fc.weight"]
    expected = dequantised(codes, scale, zero, axis=1).T
    np.testing.assert_array_equal(model.tensor("fc.weight"), expected)


def test_a_quantised_convolution_has_its_scales_along_the_outputs():
    codes = random_codes("INT8", (4, 3, 2))
    scale, zero = RNG.uniform(0.01, 0.1, 4).astype(np.float32), np.zeros(4, np.int8)
    nodes = [
        node("ConvInteger", ["x", "conv1.weight_quantized", "xz", "conv1.weight_zero_point"], ["i"]),
        node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["xs", "conv1.weight_scale"], ["ss"]),
        node("Mul", ["f", "ss"], ["y"]),
    ]
    tensors = [
        tensor("conv1.weight_quantized", codes),
        tensor("conv1.weight_scale", scale),
        tensor("conv1.weight_zero_point", zero),
    ]
    model = opened(model_bytes(nodes, tensors))
    expected = codes.astype(np.float32) * scale[:, None, None]
    np.testing.assert_array_equal(model.tensor("conv1.weight"), expected)
    np.testing.assert_array_equal(model.tensor("conv1.weight", rows=slice(2, 4)), expected[2:])


@pytest.mark.parametrize("name", ["nbits_4_32_symmetric", "nbits_4_16_zeros", "nbits_8_32_zeros"])
def test_blocks_of_a_few_bits_are_what_onnxruntime_multiplies_with(name):
    data, values = golden(name)
    model = opened(data)
    assert set(model.index) == set(values)
    for key, expected in values.items():
        np.testing.assert_array_equal(model.tensor(key), expected)
        np.testing.assert_array_equal(model.tensor(key, rows=[4, 1]), expected[[4, 1]])
        assert model.index[key].dtype == f"INT{name.split('_')[1]}-G{name.split('_')[2]}"


def test_a_table_in_blocks_is_what_onnxruntime_looks_up():
    data, values = golden("lookup_blocks")
    model = opened(data)
    np.testing.assert_array_equal(
        model.tensor("model.embed_tokens.weight"), values["model.embed_tokens.weight"]
    )


@settings(deadline=None)
@given(data=st.data())
def test_any_selection_of_a_turned_weight_agrees_with_the_whole(data):
    rows, width = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    values = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
    typed = data.draw(st.booleans())
    half = values.astype(np.float16)
    made = (
        helper.make_tensor("m.weight", TensorProto.FLOAT16, half.shape, half.flatten())
        if typed
        else tensor("m.weight", values)
    )
    model = opened(model_bytes([node("MatMul", ["x", "m.weight"], ["y"])], [made]))
    whole = values.T
    wanted = data.draw(st.lists(st.integers(0, width - 1), max_size=6))
    np.testing.assert_array_equal(model.tensor("m.weight", rows=wanted), whole[wanted])
    ends = st.tuples(st.integers(0, whole.size), st.integers(0, whole.size)).map(sorted)
    blocks = data.draw(st.lists(ends, max_size=4))
    found = model.read([TensorSlice.blocks("m.weight", [(int(a), int(b)) for a, b in blocks])])[0]
    np.testing.assert_array_equal(found, np.concatenate([[], *(whole.reshape(-1)[a:b] for a, b in blocks)]))


def test_long_rows_of_a_turned_weight_are_read_in_pieces():
    """A head over a large vocabulary is stored with one row for each input: most of it is not wanted."""
    values = RNG.normal(size=(4, 40_000)).astype(np.float32)
    model = opened(
        model_bytes([node("MatMul", ["x", "lm_head.weight"], ["y"])], [tensor("lm_head.weight", values)])
    )
    before = model.totals().bytes_fetched
    np.testing.assert_array_equal(model.tensor("lm_head.weight", rows=slice(7, 2_000)), values.T[7:2_000])
    assert model.totals().bytes_fetched - before < values.nbytes / 10
