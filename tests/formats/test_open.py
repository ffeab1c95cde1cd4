"""Which file is taken for a model's weights, and what is said when there is none."""

import json

import numpy as np
import pytest
from tests.formats.torch_writer import mapping, storage, tensor, text, zipped
from tests.support import HubServer, llama_files, llama_tensors

import modelkin as mk
from modelkin.errors import FormatError, NotFound, UnsupportedFormat
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.source import MemorySource


def test_safetensors_are_read_with_their_format_named():
    model = mk.open_model(MemorySource(llama_files()))
    assert model.weights.format == "safetensors"
    assert model.weights.notes == ()
    assert model.index is model.weights.index


def test_a_folder_without_weights_says_so():
    with pytest.raises(NotFound, match="no weights there"):
        _ = mk.open_model(MemorySource({"README.md": b"x"})).index


def test_weights_that_cannot_be_read_are_named():
    with pytest.raises(NotFound, match=r"there are Keras and TensorFlow: .*tf_model\.h5"):
        _ = mk.open_model(MemorySource({"tf_model.h5": b"x", "config.json": b"{}"})).index


def test_a_file_of_no_known_format_is_refused_by_name(tmp_path):
    (tmp_path / "model.xyz").write_bytes(b"x")
    with pytest.raises(UnsupportedFormat, match=r"model\.xyz: not a weight file"):
        _ = mk.open_model(str(tmp_path / "model.xyz")).index


def named(value: object, **more: bytes) -> mk.Model:
    """Open a model of two whole files, of which the config names one, or something else."""
    files = dict(llama_files())
    config = json.loads(files["config.json"]) | {"transformers_weights": value}
    other = {"weights/other.safetensors": llama_files(seed=1)["model.safetensors"]}
    return mk.open_model(MemorySource(files | other | {"config.json": json.dumps(config).encode()} | more))


def test_the_weights_that_the_config_names_are_read_as_transformers_does():
    model = named("weights/other.safetensors")
    assert model.index.files == ("weights/other.safetensors",)
    expected = mk.open_model(MemorySource(llama_files(seed=1))).tensor("model.norm.weight")
    assert (model.tensor("model.norm.weight") == expected).all()
    assert [str(note) for note in model.weights.notes] == [
        "config.json names weights/other.safetensors (transformers_weights), which transformers loads; "
        "it was read instead of model.safetensors",
        "weights/other.safetensors was taken; there are also model.safetensors",
    ]
    assert named("./weights/../weights/other.safetensors").index.files == ("weights/other.safetensors",)


def test_an_index_that_the_config_names_is_read():
    shards = llama_files(n_shards=2, seed=1)
    files = {name.replace("model", "real", 1): data for name, data in shards.items() if name != "config.json"}
    index = files["real.safetensors.index.json"].replace(b"model-0", b"real-0")
    model = named("real.safetensors.index.json", **files | {"real.safetensors.index.json": index})
    assert model.index.files == ("real-00001-of-00002.safetensors", "real-00002-of-00002.safetensors")


def test_a_broken_file_that_no_loader_looks_at_does_not_matter():
    model = named("weights/other.safetensors", **{"model.safetensors": b"broken"})
    assert model.index.files == ("weights/other.safetensors",)
    with pytest.raises(FormatError):
        _ = named(None, **{"model.safetensors": b"broken"}).index


@pytest.mark.parametrize(
    "value",
    ["missing.safetensors", "../model.safetensors", "/etc/passwd", "model.gguf", "", 3, ["x"], {"a": 1}],
)
def test_what_transformers_cannot_load_is_said_and_not_followed(value):
    model = named(value, **{"model.gguf": b"GGUF"})
    assert model.index.files == ("model.safetensors",)
    assert model.weights.notes[0].code == "format.config-names-none"


def test_the_file_that_is_read_anyway_needs_no_word():
    model = named("model.safetensors")
    assert [note.code for note in model.weights.notes] == ["format.taken"]
    assert named(None).weights.notes == model.weights.notes


def test_a_file_that_the_user_names_counts_more_than_the_config(tmp_path):
    files = llama_files() | {"other.safetensors": llama_files(seed=1)["model.safetensors"]}
    files["config.json"] = b'{"transformers_weights": "other.safetensors"}'
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert mk.open_model(str(tmp_path / "model.safetensors")).index.files == ("model.safetensors",)
    assert mk.open_model(str(tmp_path)).index.files == ("other.safetensors",)


def test_other_weights_beside_safetensors_are_named():
    others = {
        "consolidated.safetensors": b"x",
        "pytorch_model.bin": b"x",
        "original/consolidated.00.pth": b"x",
    }
    harmless = {"training_args.bin": b"x", "optimizer.pt": b"x", "onnx/model.onnx": b"x"}
    model = mk.open_model(MemorySource(llama_files() | others | harmless))
    assert [str(note) for note in model.weights.notes] == [
        "model.safetensors was taken; there are also consolidated.safetensors, original/consolidated.00.pth, "
        "pytorch_model.bin"
    ]


def test_slices_of_tensors_that_transformers_takes_first_are_refused():
    part = {"shard-00001-model-00001-of-00002.safetensors": b"x"}
    with pytest.raises(UnsupportedFormat, match="it holds slices of every tensor"):
        _ = mk.open_model(MemorySource(llama_files() | part)).index


def test_the_config_is_not_read_where_there_is_one_file():
    model = mk.open_model(MemorySource(llama_files()))
    _ = model.index
    assert {entry.file for entry in model.fetcher.ledger.entries} == {"model.safetensors"}


ODD_FILES = ("Screenshot 12:30.png", "\U0001f469\u200d\U0001f4bb.md", "~notes")


def test_a_file_with_an_odd_name_costs_nothing_but_a_note(tmp_path):
    for name, data in (llama_files() | dict.fromkeys(ODD_FILES, b"x")).items():
        (tmp_path / name).write_bytes(data)
    model = mk.open_model(str(tmp_path))
    assert len(model.index) == 21
    (note,) = model.weights.notes
    assert str(note).startswith("3 files were ignored because of their names: 'Screenshot 12:30.png'")
    assert str(note).isprintable()


def test_a_repository_with_an_odd_name_is_read(tmp_path):
    files = llama_files() | dict.fromkeys(ODD_FILES, b"x")
    with HubServer({"org/a": files}) as hub:
        fetch = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path)
        with mk.open_model("org/a", fetch) as model:
            assert [note.code for note in model.weights.notes] == ["format.odd-files"]


def test_weights_under_an_odd_name_that_transformers_would_load_are_no_secret(tmp_path):
    odd = "mod\u200del.safetensors"
    files = llama_files() | {odd: llama_files(seed=1)["model.safetensors"]}
    files["config.json"] = json.dumps({"transformers_weights": odd}).encode()
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UnsupportedFormat, match="as the weights, which contains the invisible character"):
        _ = mk.open_model(str(tmp_path)).index


def test_a_tensor_with_an_odd_name_costs_nothing_but_a_note():
    junk = {"a\u200bb": np.ones((2, 2), np.float32), "": np.ones(3, np.float32)}
    model = mk.open_model(MemorySource({"model.safetensors": safetensors_bytes({**llama_tensors(), **junk})}))
    assert model.index.keys() == llama_tensors().keys()
    assert model.weights.left_out == ("''", r"'a\u200bb'")
    assert [note.code for note in model.weights.notes] == ["format.odd-tensors"]


def test_a_shard_that_is_named_only_for_an_odd_tensor_is_read_as_loaders_do():
    files = dict(llama_files(n_shards=2))
    index = json.loads(files["model.safetensors.index.json"])
    last = "model-00002-of-00002.safetensors"
    index["weight_map"] = {name: file for name, file in index["weight_map"].items() if file != last}
    index["weight_map"]["a\u200bb"] = last
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    model = mk.open_model(MemorySource(files))
    assert model.index.keys() == llama_tensors().keys()


def test_a_shard_that_holds_nothing_but_an_odd_tensor_costs_nothing_but_a_note():
    files = dict(llama_files(n_shards=2))
    index = json.loads(files["model.safetensors.index.json"])
    index["weight_map"]["a\u200bb"] = "odd.safetensors"
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    files["odd.safetensors"] = safetensors_bytes({"a\u200bb": np.ones(3, np.float32)})
    model = mk.open_model(MemorySource(files))
    assert model.index.keys() == llama_tensors().keys()
    assert model.weights.left_out == (r"'a\u200bb'",)


@pytest.mark.parametrize("items", [b"}", b"}(" + text("a\u200bb") + tensor(storage("0", 3), (3,)) + b"u"])
def test_a_shard_of_torch_without_a_tensor_to_read_costs_nothing(items):
    tensors = llama_tensors()
    parts = {
        name: tensor(storage(str(n), value.size), value.shape)
        for n, (name, value) in enumerate(tensors.items())
    }
    stored = {str(n): value.tobytes() for n, value in enumerate(tensors.values())}
    files = {
        "a.bin": zipped(mapping(parts), stored),
        "b.bin": zipped(items, {"0": bytes(12)} if b"storage" in items else {}),
        "pytorch_model.bin.index.json": json.dumps(
            {"weight_map": {**dict.fromkeys(tensors, "a.bin"), "x": "b.bin"}}
        ).encode(),
    }
    model = mk.open_model(MemorySource(files))
    assert model.index.keys() == tensors.keys()
    assert "format.index-untrue" in {note.code for note in model.weights.notes}


@pytest.mark.parametrize("name", ["consolidated.safetensors", "a.safetensors", "model.fp16.safetensors"])
def test_a_torch_file_that_transformers_takes_comes_before_safetensors_of_other_names(name):
    tensors = llama_tensors(seed=1)
    parts = {key: tensor(storage(key, value.size), value.shape) for key, value in tensors.items()}
    torch_file = zipped(mapping(parts), {key: value.tobytes() for key, value in tensors.items()})
    files = dict(llama_files())
    files[name] = files.pop("model.safetensors")
    files["pytorch_model.bin"] = torch_file
    model = mk.open_model(MemorySource(files))
    assert model.weights.format == "pytorch"
    np.testing.assert_array_equal(model.tensor("model.norm.weight"), tensors["model.norm.weight"])
    assert name in str(model.weights.notes[0])
    del files["config.json"]
    assert mk.open_model(MemorySource(files)).weights.format == "safetensors"  # transformers loads none of it


def test_of_shards_of_which_the_config_names_one_no_more_is_read_than_transformers_loads():
    shards = {file: data for file, data in llama_files(n_shards=2, seed=1).items() if file != "config.json"}
    first = "model-00001-of-00002.safetensors"
    model = named(first, **shards)
    assert model.index.files == (first,)
