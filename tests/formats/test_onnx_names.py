"""Names of ONNX weights: those of the exported model, recovered from the graph where they are lost."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.formats.onnx_files import golden, model_bytes, node, opened, tensor

SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4)


def one_product(weight="onnx::MatMul_7", *, name="", bias=None):
    nodes = [node("MatMul", ["x", weight], ["y"], name=name)]
    tensors = [tensor(weight, SQUARE)]
    if bias is not None:
        nodes.append(node("Add", [bias, "y"], ["z"]))
        tensors.append(tensor(bias, np.ones(4, np.float32)))
    return opened(model_bytes(nodes, tensors))


def test_a_product_is_named_after_the_bias_that_follows_it():
    model = one_product(bias="encoder.layer.0.output.dense.bias")
    np.testing.assert_array_equal(model.tensor("encoder.layer.0.output.dense.weight"), SQUARE.T)
    (note,) = map(str, model.weights.notes)
    assert note == "1 weights had lost their names; these were recovered from the graph"


def test_a_product_without_bias_is_named_after_its_module():
    model = one_product(name="/model/layers.3/self_attn/k_proj/MatMul")
    assert list(model.index) == ["model.layers.3.self_attn.k_proj.weight"]


def test_a_list_of_modules_that_is_called_itself_counts_once():
    model = one_product(name="/model/model.0/auto_model/encoder/dense/MatMul")
    assert list(model.index) == ["model.0.auto_model.encoder.dense.weight"]


def test_the_newer_exporter_notes_modules_beside_the_operator():
    product = node("MatMul", ["x", "val_3"], ["y"], name="node_MatMul_1")
    entry = product.metadata_props.add()
    entry.key = "pkg.torch.onnx.name_scopes"
    entry.value = "['', 'model', 'model.layers.0', 'model.layers.0.mlp.up_proj', 'linear']"
    model = opened(model_bytes([product], [tensor("val_3", SQUARE)]))
    assert list(model.index) == ["model.layers.0.mlp.up_proj.weight"]


def test_a_product_that_nothing_tells_of_keeps_its_name_and_is_noted():
    model = one_product(name="MatMul_12")
    assert list(model.index) == ["onnx::MatMul_7"]
    (note,) = map(str, model.weights.notes)
    assert note == "1 weights have uninformative names, and the graph gave no others"


def test_two_products_of_one_module_are_not_given_one_name():
    nodes = [
        node("MatMul", ["x", f"val_{number}"], [f"y{number}"], name="/block/MatMul") for number in (1, 2)
    ]
    model = opened(model_bytes(nodes, [tensor("val_1", SQUARE), tensor("val_2", SQUARE)]))
    assert set(model.index) == {"val_1", "val_2"}


@pytest.mark.parametrize(("turned", "expected"), [(1, SQUARE), (0, SQUARE.T)])
def test_the_general_product_says_itself_whether_its_weight_is_turned(turned, expected):
    nodes = [node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"], transB=turned)]
    tensors = [tensor("fc.weight", SQUARE), tensor("fc.bias", np.ones(4, np.float32))]
    model = opened(model_bytes(nodes, tensors))
    np.testing.assert_array_equal(model.tensor("fc.weight"), expected)


def test_modules_of_gpt2_keep_their_own_orientation():
    """They store inputs by outputs, and so does the product."""
    nodes = [node("Gemm", ["x", "h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias"], ["y"])]
    tensors = [
        tensor("h.0.attn.c_attn.weight", SQUARE),
        tensor("h.0.attn.c_attn.bias", np.ones(4, np.float32)),
    ]
    model = opened(model_bytes(nodes, tensors))
    np.testing.assert_array_equal(model.tensor("h.0.attn.c_attn.weight"), SQUARE)


def test_a_table_that_is_also_the_head_is_one_tensor():
    nodes = [
        node("Gather", ["model.embed_tokens.weight", "input_ids"], ["e"]),
        node("Transpose", ["model.embed_tokens.weight"], ["t"], perm=[1, 0]),
        node("MatMul", ["e", "t"], ["y"], name="/lm_head/MatMul"),
    ]
    model = opened(model_bytes(nodes, [tensor("model.embed_tokens.weight", SQUARE)]))
    assert list(model.index) == ["model.embed_tokens.weight"]
    assert model.index["model.embed_tokens.weight"].storage is None
    np.testing.assert_array_equal(model.tensor("model.embed_tokens.weight"), SQUARE)


def test_equal_weights_that_are_stored_once_have_both_names():
    nodes = [
        node("Identity", ["layer.0.norm.bias"], ["layer.1.norm.bias"]),
        node("Add", ["x", "layer.0.norm.bias"], ["y"]),
        node("Add", ["y", "layer.1.norm.bias"], ["z"]),
    ]
    model = opened(model_bytes(nodes, [tensor("layer.0.norm.bias", np.arange(4, dtype=np.float32))]))
    assert set(model.index) == {"layer.0.norm.bias", "layer.1.norm.bias"}


def test_shapes_masks_and_scales_are_no_weights():
    nodes = [
        node("Constant", [], ["mask"], value=tensor("", np.ones((8, 8), np.float32))),
        node("Add", ["x", "mask"], ["y"]),
        node("Reshape", ["y", "shape"], ["z"]),
        node("Mul", ["z", "epsilon"], ["w"]),
        node("Add", ["w", "norm.bias"], ["v"]),
    ]
    tensors = [
        tensor("shape", np.array([1, -1])),
        tensor("epsilon", np.float32(1e-5)),
        tensor("norm.bias", np.ones(4, np.float32)),
    ]
    model = opened(model_bytes(nodes, tensors))
    assert list(model.index) == ["norm.bias"]
    assert tuple(map(str, model.weights.notes)) == (
        "1 unnamed tables that are not factors of a product were left out",
    )


def test_a_weight_that_stands_in_an_operator_is_found():
    nodes = [
        node("Constant", [], ["fc.weight"], value=tensor("", SQUARE)),
        node("MatMul", ["x", "fc.weight"], ["y"]),
    ]
    np.testing.assert_array_equal(opened(model_bytes(nodes, [])).tensor("fc.weight"), SQUARE.T)


def test_weights_of_branches_are_found_and_suffixes_of_mergers_taken_off():
    product = node("MatMul", ["x", "onnx::MatMul_9_merged_0"], ["y"], name="/model/decoder/fc1/MatMul")
    bias = node("Add", ["model.decoder.fc1.bias_merged_0", "y"], ["z"])
    output = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    branches = {
        f"{word}_branch": helper.make_graph([product, bias], word, [], [output]) for word in ("then", "else")
    }
    tensors = [
        tensor("onnx::MatMul_9_merged_0", SQUARE),
        tensor("model.decoder.fc1.bias_merged_0", np.ones(4, np.float32)),
    ]
    model = opened(model_bytes([node("If", ["input_ids"], ["out"], **branches)], tensors))
    assert set(model.index) == {"model.decoder.fc1.weight", "model.decoder.fc1.bias"}


def test_a_wrapper_that_all_names_begin_with_is_taken_off():
    names = ["inner.embeddings.word_embeddings.weight", "inner.encoder.layer.0.output.dense.bias"]
    nodes = [node("Add", ["x", name], [f"y{number}"]) for number, name in enumerate(names)]
    model = opened(model_bytes(nodes, [tensor(name, SQUARE) for name in names]))
    assert set(model.index) == {name.removeprefix("inner.") for name in names}
    assert "all names began with 'inner.', which was removed" in list(map(str, model.weights.notes))


def builder_model(config):
    """Return a layer as onnxruntime's model builder writes it: packed projections, names of its own."""
    width, rows = 8, 8 + 2 * 4
    packed = np.arange(width * rows, dtype=np.float32).reshape(width, rows)
    nodes = [
        node(
            "MatMul",
            ["x", "model.layers.0.attn.qkv_proj.MatMul.weight"],
            ["y"],
            name="/model/layers.0/attn/qkv_proj/MatMul",
        ),
        node("Add", ["y", "model.layers.0.attn.qkv_proj.Add.bias"], ["z"]),
        node("MatMul", ["z", "model.layers.0.attn.o_proj.MatMul.weight"], ["o"]),
        node("Mul", ["o", "model.layers.1.final_norm_layernorm.weight"], ["n"]),
    ]
    tensors = [
        tensor("model.layers.0.attn.qkv_proj.MatMul.weight", packed),
        tensor("model.layers.0.attn.qkv_proj.Add.bias", np.arange(rows, dtype=np.float32)),
        tensor("model.layers.0.attn.o_proj.MatMul.weight", packed[:, :8]),
        tensor("model.layers.1.final_norm_layernorm.weight", np.ones(8, np.float32)),
    ]
    return opened(model_bytes(nodes, tensors), **{"config.json": config}), packed


def test_packed_projections_of_the_model_builder_are_taken_apart():
    config = b'{"num_attention_heads": 4, "num_key_value_heads": 2, "model_type": "llama"}'
    model, packed = builder_model(config)
    prefix = "model.layers.0.self_attn."
    assert set(model.index) == {
        "model.norm.weight",
        f"{prefix}o_proj.weight",
        *(f"{prefix}{part}_proj.{kind}" for part in "qkv" for kind in ("weight", "bias")),
    }
    for part, rows in (("q", slice(0, 8)), ("k", slice(8, 12)), ("v", slice(12, 16))):
        np.testing.assert_array_equal(model.tensor(f"{prefix}{part}_proj.weight"), packed.T[rows])
        np.testing.assert_array_equal(
            model.tensor(f"{prefix}{part}_proj.bias"), np.arange(16, dtype=np.float32)[rows]
        )


def test_packed_projections_stay_packed_where_the_family_packs_them_or_heads_are_unknown():
    for config in (b'{"num_attention_heads": 4, "model_type": "phi3"}', b"{}"):
        model, _ = builder_model(config)
        assert "model.layers.0.self_attn.qkv_proj.weight" in model.index


@pytest.mark.parametrize("name", ["bert_dynamo", "bert_fused", "llama_dynamo"])
def test_models_of_real_exporters_give_the_weights_that_were_exported(name):
    data, values = golden(name)
    model = opened(data)
    assert set(values) <= set(model.index)
    assert set(model.index) - set(values) <= {"embeddings.position_ids", "model.rotary_emb.inv_freq"}
    for key, expected in values.items():
        np.testing.assert_array_equal(model.tensor(key), expected)
    assert model.architecture.family == name.split("_")[0]


def test_a_model_quantised_by_onnxruntime_gives_weights_within_half_a_step():
    data, values = golden("bert_dynamic_int8")
    model = opened(data)
    coded = [name for name in values if model.index[name].dtype in ("INT8", "UINT8")]
    assert len(coded) == 3 + 2 * 6
    for name in coded:
        step = 2 * np.abs(values[name]).max() / 254
        assert np.abs(model.tensor(name) - values[name]).max() < 0.51 * step


def test_the_number_of_heads_is_read_from_the_graph_where_no_config_says_it():
    assert opened(golden("llama_dynamo")[0]).config == {"num_attention_heads": 2, "num_key_value_heads": 1}
    with_config = opened(
        golden("llama_dynamo")[0], **{"config.json": b'{"model_type": "llama", "num_attention_heads": 99}'}
    )
    assert with_config.config == {"model_type": "llama", "num_attention_heads": 99}


def test_an_operator_of_another_vendor_is_not_taken_for_attention():
    nodes = [node("Attention", ["x", "w.weight", "w.bias"], ["y"], domain="somebody")]
    model = opened(model_bytes(nodes, [tensor("w.weight", SQUARE), tensor("w.bias", SQUARE[0])]))
    assert model.index["w.weight"].storage is None


def with_outputs(nodes, tensors, outputs):
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    made = helper.make_graph(list(nodes), "main", [ids], given, [tensor(*item) for item in tensors.items()])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString()


STOLEN, DECOY = np.arange(16, dtype=np.float32).reshape(4, 4), np.ones((4, 4), np.float32)
TABLE = np.arange(32, dtype=np.float32).reshape(8, 4)
UP = "model.layers.0.mlp.up_proj"
REAL = [
    node("Gather", ["embed.weight", "input_ids"], ["x"]),
    node("MatMul", ["x", "onnx::MatMul_1"], ["y"], name="/model/layers.0/mlp/up_proj/MatMul"),
]


def dead_branch():
    """Return an operator whose branch uses the decoy, and whose result nobody uses."""
    given = [helper.make_tensor_value_info("v", TensorProto.FLOAT, None)]
    body = helper.make_graph([node("Neg", [f"{UP}.weight"], ["v"])], "branch", [], given)
    return [node("If", ["x"], ["unused"], then_branch=body, else_branch=body)]


@pytest.mark.parametrize(
    "more",
    [[], [node("MatMul", ["x", f"{UP}.weight"], ["z"])], dead_branch()],
    ids=["none", "dead", "branch"],
)
def test_a_weight_that_the_graph_makes_nothing_of_takes_no_name_from_one_that_is_used(more):
    tensors = {"embed.weight": TABLE, f"{UP}.weight": DECOY, "onnx::MatMul_1": STOLEN}
    model = opened(with_outputs([*REAL, *more], tensors, ["y"]))
    assert set(model.index) == {"embed.weight", f"{UP}.weight"}
    np.testing.assert_array_equal(model.tensor(f"{UP}.weight"), STOLEN.T)
    assert model.weights.left_out == (f"'{UP}.weight'",)
    assert "format.unused-weights" in {note.code for note in model.weights.notes}


def test_a_weight_that_only_a_branch_uses_is_used():
    given = [helper.make_tensor_value_info("v", TensorProto.FLOAT, None)]
    body = helper.make_graph([node("MatMul", ["x", f"{UP}.weight"], ["v"])], "branch", [], given)
    nodes = [REAL[0], node("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    model = opened(with_outputs(nodes, {"embed.weight": TABLE, f"{UP}.weight": DECOY}, ["y"]))
    assert set(model.index) == {"embed.weight", f"{UP}.weight"}
    assert not model.weights.left_out


def test_an_operator_of_which_nothing_comes_names_nothing():
    dead = node("MatMul", ["x", "onnx::MatMul_1"], ["z"], name="/model/layers.9/mlp/down_proj/MatMul")
    model = opened(
        with_outputs([REAL[0], dead, REAL[1]], {"embed.weight": TABLE, "onnx::MatMul_1": STOLEN}, ["y"])
    )
    assert set(model.index) == {"embed.weight", f"{UP}.weight"}


@pytest.mark.parametrize("odd", ["a\u200bb", "", "x" * 2000, "\x1b[31m"])
def test_a_weight_with_an_odd_name_costs_nothing(odd):
    named = node("MatMul", ["x", odd or "unused"], ["y"], name="/model/layers.0/mlp/up_proj/MatMul")
    unnamed = node("MatMul", ["y", f"{odd}-2"], ["z"])
    tensors = {"embed.weight": TABLE, odd: STOLEN, f"{odd}-2": DECOY}
    model = opened(model_bytes([REAL[0], named, unnamed], [tensor(*item) for item in tensors.items()]))
    values = {name: np.asarray(model.tensor(name)) for name in model.index}
    assert "embed.weight" in values
    if odd:
        np.testing.assert_array_equal(values[f"{UP}.weight"], STOLEN.T)
    assert any(np.array_equal(value, DECOY) for value in values.values())


def test_a_number_for_a_name_is_not_one_that_is_taken():
    nodes = [node("MatMul", ["x", name], [f"y{n}"]) for n, name in enumerate(("unnamed-0", "\u200b"))]
    model = opened(model_bytes(nodes, [tensor("unnamed-0", STOLEN), tensor("\u200b", DECOY)]))
    assert set(model.index) == {"unnamed-0", "unnamed-1"}
