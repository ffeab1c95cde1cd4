"""Folders in which several files could be the model: what transformers and peft load is what is read here.

Where nothing is chosen here, the test shows what a loader does, and so why.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.formats.adapters_support import TARGETS, adapter_files
from tests.formats.torch_writer import call, group, integer, mapping, name, storage, tensor, text, zipped
from tests.support import LlamaShape, llama_files, llama_tensors

import modelkin as mk
from modelkin.errors import UnsupportedFormat
from modelkin.formats.safetensors import safetensors_bytes

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.lab,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

Files = dict[str, bytes]
Tensors = dict[str, NDArray[np.float32]]
SHAPE = LlamaShape()
ONE, OTHER = llama_files(SHAPE)["model.safetensors"], llama_files(SHAPE, seed=1)["model.safetensors"]
INDEX = "model.safetensors.index.json"


def one(**more: bytes) -> Files:
    """Return a model in one file, with others beside it."""
    return dict(llama_files(SHAPE)) | more


def torch_bytes(seed: int) -> bytes:
    """Return the weights of a model as torch writes them."""
    tensors = llama_tensors(SHAPE, seed=seed)
    items, stored = {}, {}
    for number, (key, values) in enumerate(tensors.items()):
        items[key] = tensor(storage(str(number), values.size), values.shape)
        stored[str(number)] = values.tobytes()
    return zipped(mapping(items), stored)


def configured(**changes: object) -> bytes:
    """Return the config with other fields."""
    return json.dumps(json.loads(llama_files(SHAPE)["config.json"]) | changes).encode()


def sharded(seed: int) -> Files:
    """Return shards and their index, without a config."""
    files = llama_files(SHAPE, n_shards=2, seed=seed)
    return {file: data for file, data in files.items() if file != "config.json"}


def with_odd_entry() -> Files:
    files = one() | sharded(0)
    del files["model.safetensors"]
    index = json.loads(files[INDEX])
    last = "model-00002-of-00002.safetensors"
    index["weight_map"] = {key: file for key, file in index["weight_map"].items() if file != last}
    return files | {
        INDEX: json.dumps(index | {"weight_map": index["weight_map"] | {"a\u200bb": last}}).encode()
    }


def with_untrue_entries() -> Files:
    files = one() | sharded(0)
    del files["model.safetensors"]
    index = json.loads(files[INDEX])
    first, last = sorted(set(index["weight_map"].values()))
    moved = next(key for key, file in index["weight_map"].items() if file == first)
    index["weight_map"] |= {moved: last, "x": first}
    return files | {INDEX: json.dumps(index).encode()}


def with_junk() -> Files:
    junk: dict[str, NDArray[Any]] = {
        "x.W_q": np.zeros((4, 4), np.uint8),
        "x_blocks": np.zeros((1, 2, 3, 16), np.uint8),
        "a\u200bb": np.ones(3),
    }
    tensors: dict[str, NDArray[Any]] = {**llama_tensors(SHAPE), **junk}
    return one() | {"model.safetensors": safetensors_bytes(tensors)}


FOLDERS: dict[str, Callable[[], Files]] = {
    "one file": one,
    "torch beside safetensors": lambda: one(**{"pytorch_model.bin": torch_bytes(1)}),
    "consolidated beside safetensors": lambda: one(**{"consolidated.safetensors": OTHER}),
    "another name that comes first": lambda: one(**{"a.safetensors": OTHER}),
    "an index beside one file": lambda: one() | sharded(1),
    "an index and a consolidated file": lambda: (
        {"config.json": configured()} | sharded(0) | {"consolidated.safetensors": OTHER}
    ),
    "a subfolder": lambda: one(**{"original/model.safetensors": OTHER}),
    "torch alone": lambda: {
        "config.json": configured(),
        "pytorch_model.bin": torch_bytes(0),
        "model.pt": b"x",
    },
    "a file that the config names": lambda: one(
        **{"config.json": configured(transformers_weights="other.safetensors"), "other.safetensors": OTHER}
    ),
    "a file in a subfolder that the config names": lambda: one(
        **{
            "config.json": configured(transformers_weights="./a/other.safetensors"),
            "a/other.safetensors": OTHER,
        }
    ),
    "an index that the config names": lambda: (
        one(**{"config.json": configured(transformers_weights=INDEX)}) | sharded(1)
    ),
    "a broken file and one that the config names": lambda: one(
        **{
            "config.json": configured(transformers_weights="other.safetensors"),
            "model.safetensors": b"broken",
            "other.safetensors": OTHER,
        }
    ),
    "a shard that is named for an odd tensor": with_odd_entry,
    "an index that is not true of some tensors": with_untrue_entries,
    "junk that looks like codes": with_junk,
    "torch beside safetensors that nobody looks for": lambda: {
        "config.json": configured(),
        "pytorch_model.bin": torch_bytes(0),
        "consolidated.safetensors": OTHER,
        "a.safetensors": OTHER,
    },
    "two indexes of torch and a file": lambda: {
        "config.json": configured(),
        "pytorch_model.bin": torch_bytes(0),
        "pytorch_model.bin.index.json": json.dumps(
            {"metadata": {}, "weight_map": dict.fromkeys(llama_tensors(SHAPE), "b.bin")}
        ).encode(),
        "b.bin": torch_bytes(1),
    },
}


def bare(tensors: Tensors) -> Tensors:
    """Return the names of a body without its head."""
    return {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}


STOLEN: Tensors = llama_tensors(SHAPE, seed=1)
TWICE: dict[str, Tensors] = {
    "the names of a bare body as well": bare(STOLEN),
    "the prefix twice": {f"model.{key}": value for key, value in STOLEN.items() if key.startswith("model.")},
    "another letter for the dot": {
        f"model_{key}": value for key, value in STOLEN.items() if key.startswith("model.")
    },
    "a prefix of another program": {f"module.{key}": value for key, value in STOLEN.items()},
}


def written(folder: Path, files: Files) -> Path:
    for file, data in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(data)
    return folder


def loaded(folder: Path) -> object:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def loaded_tensors(folder: Path) -> Tensors:
    model = loaded(folder)
    return {key: value.numpy() for key, value in model.state_dict().items()}  # type: ignore[attr-defined]


def read_tensors(folder: Path) -> Tensors:
    with mk.open_model(str(folder)) as model:
        return {key: np.asarray(model.tensor(key)) for key in model.index}


@pytest.mark.parametrize("kind", FOLDERS)
def test_the_weights_that_transformers_loads_are_read(tmp_path, kind):
    folder = written(tmp_path, FOLDERS[kind]())
    theirs, ours = loaded_tensors(folder), read_tensors(folder)
    assert theirs.keys() <= ours.keys()
    for key, values in theirs.items():
        np.testing.assert_array_equal(ours[key], values, err_msg=key)


def _loaded_name(name: str, loaded: Tensors) -> str:
    return max((key for key in loaded if name.endswith(key.removeprefix("model."))), key=len)


@pytest.mark.parametrize("kind", TWICE)
def test_of_two_tensors_for_one_parameter_the_one_that_transformers_loads_has_the_role(tmp_path, kind):
    tensors = {**llama_tensors(SHAPE), **TWICE[kind]}
    folder = written(tmp_path, one() | {"model.safetensors": safetensors_bytes(tensors)})
    theirs = loaded_tensors(folder)
    with mk.open_model(str(folder)) as model:
        roles = [entry.tensor for entry in model.architecture.tensors]
        ours = {_loaded_name(name, theirs): np.asarray(model.tensor(name)) for name in roles}
    assert ours.keys() == theirs.keys()
    for key, values in theirs.items():
        np.testing.assert_array_equal(ours[key], values, err_msg=key)


def test_behind_the_prefix_of_another_model_transformers_looks_for_nothing(tmp_path):
    config = transformers.RobertaConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48
    )
    transformers.RobertaForMaskedLM(config).save_pretrained(tmp_path)
    own = {key: value for key, value in read_tensors(tmp_path).items() if key.startswith("roberta.")}
    decoy = {key.replace("roberta.", "bert.", 1): value + 1 for key, value in own.items()}
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors_bytes(read_tensors(tmp_path) | decoy, metadata={"format": "pt"}))
    model = transformers.RobertaForMaskedLM.from_pretrained(tmp_path)
    theirs = {key: value.numpy() for key, value in model.state_dict().items() if key in own}
    for key, values in own.items():
        np.testing.assert_array_equal(theirs[key], values, err_msg=key)
    with mk.open_model(str(tmp_path)) as found:
        assert {entry.tensor for entry in found.architecture.tensors} >= own.keys()
        assert {item.name for item in found.architecture.unknown} >= decoy.keys()


def test_an_adapter_beside_a_model_is_applied_as_transformers_with_peft_does(tmp_path):
    pytest.importorskip("peft")
    folder = written(tmp_path, one() | adapter_files())
    model = loaded(folder)
    ours = read_tensors(folder)
    plain = llama_tensors(SHAPE)
    for module in TARGETS:
        layer = model.get_submodule(module)  # type: ignore[attr-defined]
        theirs = (layer.base_layer.weight + layer.get_delta_weight("default")).detach().numpy()
        np.testing.assert_allclose(ours[f"{module}.weight"], theirs, rtol=1e-5, atol=1e-6)
        assert np.abs(theirs - plain[f"{module}.weight"]).max() > 0.01


def test_attributes_of_a_tensor_replace_its_numbers_in_torch_and_are_refused_here(tmp_path):
    decoy, stolen = np.zeros(6, np.float32), np.arange(6, dtype=np.float32)
    hooks = call(name("collections", "OrderedDict"))
    inner = group(storage("0", 6), integer(0), group(integer(6)), group(integer(1)), b"\x89", hooks)
    state = mapping({"data": tensor(storage("1", 6), (6,))})
    by_class = call(
        name("torch._tensor", "_rebuild_from_type_v2"),
        *(name("torch._utils", "_rebuild_tensor_v2"), name("torch", "Tensor"), inner, state),
    )
    data = zipped(b"}(" + text("w") + by_class + b"u", {"0": decoy.tobytes(), "1": stolen.tobytes()})
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(data)
    np.testing.assert_array_equal(torch.load(path, weights_only=True)["w"].numpy(), stolen)
    with pytest.raises(UnsupportedFormat, match="attributes of their own"):
        _ = mk.open_model(str(path)).index


def test_slices_of_a_distributed_run_come_first_in_transformers_and_are_refused_here(tmp_path):
    checkpoint = pytest.importorskip("transformers.distributed.checkpoint")
    folder = written(tmp_path, one(**{"shard-00000-model-00001-of-00001.safetensors": OTHER}))
    assert checkpoint.get_distributed_checkpoint_dir(str(folder), "", None, None) is not None
    with pytest.raises(UnsupportedFormat, match="slices of every tensor"):
        _ = mk.open_model(str(folder)).index
