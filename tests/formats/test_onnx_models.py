"""Whole models in ONNX: which file is taken, what is read of it; relatives are found, strangers are not."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.formats.onnx_files import (
    N_HEADS,
    BertGraph,
    folder_files,
    golden,
    model_bytes,
    node,
    opened,
    tensor,
    tensors_of,
)
from tests.places import ZOO
from tests.support import HubServer

import modelkin as mk

STYLES = ("plain", "int8", "qdq", "fused", "anonymous", "static", "static anonymous")


@pytest.fixture(scope="module")
def zoo_bert():
    return {name: tensors_of(ZOO / name) for name in ("bert-base", "bert-twin")}


def converted(weights, style, folder="bert-base"):
    data = BertGraph(weights, style).to_bytes()
    return mk.MemorySource(folder_files(ZOO / folder, data), name=f"{folder} as {style} ONNX")


@pytest.mark.parametrize("style", STYLES)
def test_every_weight_of_an_encoder_is_found_in_every_style(zoo_bert, style):
    weights = zoo_bert["bert-base"]
    with mk.open_model(converted(weights, style)) as model:
        prefix = "" if style.endswith("anonymous") else "bert."
        expected = {name.removeprefix("bert.") for name in weights if name.startswith("bert.")}
        assert {name.removeprefix(prefix) for name in model.index} == expected
        for name in model.index:
            original = weights[f"bert.{name.removeprefix('bert.')}"]
            found = model.tensor(name)
            if model.index[name].dtype == "F32":
                np.testing.assert_array_equal(found, original)
            else:
                assert np.abs(found - original).max() <= 0.51 * np.abs(original).max() / 127
        assert mk.inspect_model(model).unknown == ()


@pytest.mark.parametrize("style", STYLES)
def test_heads_are_counted_in_every_style_where_no_config_says_how_many(zoo_bert, style):
    with opened(BertGraph(zoo_bert["bert-base"], style).to_bytes()) as model:
        assert model.config == {"num_attention_heads": N_HEADS}
        assert model.architecture.sizes["v_dim"] == model.architecture.sizes["residual"] // N_HEADS


def test_guessed_names_are_said_to_be_guessed(zoo_bert):
    with mk.open_model(converted(zoo_bert["bert-base"], "anonymous")) as model:
        assert any("guessed from the order of the graph" in note for note in map(str, model.weights.notes))


def test_nothing_is_guessed_of_a_graph_that_is_no_encoder():
    nodes = [
        node("Gather", ["t0", "input_ids"], ["e"]),
        *(node("MatMul", [f"e{n or ''}", f"t{n + 1}"], [f"e{n + 1}"]) for n in range(6)),
    ]
    square = np.ones((4, 4), np.float32)
    model = opened(model_bytes(nodes, [tensor(f"t{n}", square) for n in range(7)]))
    assert set(model.index) == {f"t{n}" for n in range(7)}
    assert not any("guessed" in note for note in map(str, model.weights.notes))


@pytest.mark.more
@pytest.mark.parametrize("style", ["plain", "int8", "fused", "anonymous"])
def test_a_converted_copy_is_found(zoo_bert, style):
    result = mk.compare(candidate=converted(zoo_bert["bert-base"], style), base=str(ZOO / "bert-base"))
    assert result.verdict.related is True
    if style in ("plain", "fused", "anonymous"):
        details = result.relation.details
        assert details["values_equal"] == details["values_compared"]


@pytest.mark.parametrize("style", ["plain", "qdq", "anonymous"])
def test_a_converted_stranger_is_not_accused(zoo_bert, style):
    stranger = converted(zoo_bert["bert-twin"], style, "bert-twin")
    result = mk.compare(candidate=stranger, base=str(ZOO / "bert-base"))
    assert result.verdict.conclusion.value == "no-evidence"
    assert result.verdict.related is False


def test_a_converted_fine_tune_is_found():
    data = BertGraph(tensors_of(ZOO / "bert-tuned"), "int8").to_bytes()
    candidate = mk.MemorySource(folder_files(ZOO / "bert-tuned", data))
    assert mk.compare(candidate=candidate, base=str(ZOO / "bert-base")).verdict.related is True


# -- which file ----------------------------------------------------------------------------------------------


def file_taken(*names):
    data, _ = golden("lookup_blocks")
    with mk.open_model(mk.MemorySource(dict.fromkeys(names, data))) as model:
        return model.index.files[0], [*map(str, model.weights.notes)]


def test_the_most_precise_variant_is_taken_and_the_others_are_named():
    names = ("onnx/model_q4.onnx", "onnx/model_quantized.onnx", "onnx/model.onnx", "onnx/model_fp16.onnx")
    taken, notes = file_taken(*names)
    assert taken == "onnx/model.onnx"
    assert any("onnx/model.onnx was taken; there are also onnx/model_fp16.onnx" in note for note in notes)
    assert file_taken(*names[:2], names[3])[0] == "onnx/model_fp16.onnx"
    assert file_taken(*names[:2])[0] == "onnx/model_quantized.onnx"


def test_a_whole_model_is_taken_before_a_part():
    assert file_taken("decoder_model_merged.onnx", "model_int8.onnx")[0] == "model_int8.onnx"
    assert file_taken("vision.onnx", "decoder_model.onnx")[0] == "decoder_model.onnx"


def test_safetensors_are_preferred_where_both_are_there(zoo_bert):
    files = folder_files(ZOO / "bert-base", b"not even ONNX")
    files["model.safetensors"] = (ZOO / "bert-base" / "model.safetensors").read_bytes()
    with mk.open_model(mk.MemorySource(files)) as model:
        assert model.weights.format == "safetensors"


def part(prefix, layers=("0",)):
    square = np.ones((4, 4), np.float32)
    names = [f"{prefix}layers.{layer}.fc1" for layer in layers]
    nodes = [
        node("Gemm", ["x", f"{name}.weight", f"{name}.bias"], [f"y{n}"], transB=1)
        for n, name in enumerate(names)
    ]
    tensors = [
        made
        for name in names
        for made in (tensor(f"{name}.weight", square), tensor(f"{name}.bias", square[0]))
    ]
    return model_bytes(nodes, tensors)


def test_an_encoder_is_read_with_the_decoder_of_its_variant():
    files = {
        "onnx/encoder_model.onnx": part(""),
        "onnx/decoder_model_merged.onnx": part("model.decoder."),
        "onnx/encoder_model_fp16.onnx": b"",
        "onnx/decoder_model_merged_fp16.onnx": b"",
    }
    with mk.open_model(mk.MemorySource(files)) as model:
        assert set(model.index) == {
            f"model.{stack}.layers.0.fc1.{kind}"
            for stack in ("encoder", "decoder")
            for kind in ("weight", "bias")
        }
        assert str(model.weights.notes[0]) == (
            "encoder and decoder were read from onnx/encoder_model.onnx and onnx/decoder_model_merged.onnx"
        )


# -- other files with data -----------------------------------------------------------------------------------


def with_external_data(location="model.onnx_data", **stated):
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    made = helper.make_tensor("fc.weight", TensorProto.FLOAT, values.shape, values.tobytes(), raw=True)
    made.ClearField("raw_data")
    made.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "8", "length": str(values.nbytes), **stated}.items():
        entry = made.external_data.add()
        entry.key, entry.value = key, value
    data = model_bytes([node("Gather", ["fc.weight", "input_ids"], ["y"])], [made])
    return data, b"12345678" + values.tobytes(), values


def test_data_in_a_file_of_its_own_is_read_where_it_lies():
    data, beside, values = with_external_data()
    model = mk.open_model(mk.MemorySource({"onnx/model.onnx": data, "onnx/model.onnx_data": beside}))
    info = model.index["fc.weight"]
    assert (info.file, info.start, info.storage) == ("onnx/model.onnx_data", 8, None)
    np.testing.assert_array_equal(model.tensor("fc.weight"), values)


def test_a_local_file_finds_its_data_beside_it(tmp_path):
    data, beside, values = with_external_data("weights.bin")
    (tmp_path / "model.onnx").write_bytes(data)
    (tmp_path / "weights.bin").write_bytes(beside)
    with mk.open_model(str(tmp_path / "model.onnx")) as model:
        np.testing.assert_array_equal(model.tensor("fc.weight"), values)


def test_a_file_in_the_folder_of_exports_finds_its_config_one_folder_above(tmp_path):
    (tmp_path / "onnx").mkdir()
    (tmp_path / "config.json").write_text('{"num_attention_heads": 77}')
    (tmp_path / "other.bin").write_bytes(b"x")
    data, beside, values = with_external_data("model.onnx_data")
    (tmp_path / "onnx" / "model.onnx").write_bytes(data)
    (tmp_path / "onnx" / "model.onnx_data").write_bytes(beside)
    with mk.open_model(str(tmp_path / "onnx" / "model.onnx")) as model:
        assert model.config == {"num_attention_heads": 77}
        assert model.file_names() == ("config.json", "onnx/model.onnx", "onnx/model.onnx_data")
        np.testing.assert_array_equal(model.tensor("fc.weight"), values)


def test_a_config_in_the_folder_of_exports_itself_counts_first(tmp_path):
    (tmp_path / "onnx").mkdir()
    (tmp_path / "config.json").write_text('{"num_attention_heads": 77}')
    (tmp_path / "onnx" / "config.json").write_text('{"num_attention_heads": 3}')
    (tmp_path / "onnx" / "model.onnx").write_bytes(golden("lookup_blocks")[0])
    with mk.open_model(str(tmp_path / "onnx" / "model.onnx")) as model:
        assert model.config == {"num_attention_heads": 3}


# -- over a network ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    """A file of 24 MB: eight layers of three matrices, each named after its bias."""
    rng = np.random.default_rng(0)
    nodes: list[object] = []
    tensors: list[object] = []
    for layer in range(8):
        for module in ("up", "gate", "down"):
            name = f"model.layers.{layer}.mlp.{module}_proj"
            weight = rng.normal(size=(512, 512)).astype(np.float32)
            nodes += [
                node("MatMul", ["x", f"onnx::MatMul_{len(tensors)}"], [f"{name}.y"]),
                node("Add", [f"{name}.bias", f"{name}.y"], [f"{name}.z"]),
            ]
            tensors += [tensor(f"onnx::MatMul_{len(tensors)}", weight), tensor(f"{name}.bias", weight[0])]
    return model_bytes(nodes, tensors)


def test_a_remote_file_is_hopped_over_in_few_round_trips(large, monkeypatch):
    from modelkin.formats.onnx import wire as wire_module

    trips = []
    read = wire_module.Window._read

    def counted(self, *where):
        trips.append(where)
        return read(self, *where)

    monkeypatch.setattr(wire_module.Window, "_read", counted)
    with HubServer({"org/model": {"onnx/model.onnx": large}}) as hub:
        options = mk.FetchOptions(endpoint=hub.url, token=False, use_store=False)
        with mk.open_model("org/model", options) as model:
            assert len(model.index) == 48
            assert model.totals().bytes_fetched < len(large) / 40
            assert len(trips) < 12  # there are 24 matrices to hop over
            with opened(large) as whole:
                for name in ("model.layers.7.mlp.down_proj.weight", "model.layers.0.mlp.up_proj.bias"):
                    np.testing.assert_array_equal(model.tensor(name), whole.tensor(name))
            assert model.totals().bytes_fetched < len(large) / 15


def test_a_small_remote_file_is_read_at_once():
    data, _ = golden("bert_dynamo")
    with HubServer({"org/model": {"model.onnx": data}}) as hub:
        options = mk.FetchOptions(endpoint=hub.url, token=False, use_store=False, head_bytes=len(data) // 4)
        with mk.open_model("org/model", options) as model:
            assert model.architecture.family == "bert"
            ranges = [entry for entry in model.fetcher.ledger.entries if entry.file == "model.onnx"]
            assert len(ranges) == 1
