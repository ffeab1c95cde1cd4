from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import load, save
from tests.support import (
    BIG_LLAMA,
    LlamaShape,
    VirtualFile,
    llama_config,
    llama_files,
    llama_tensors,
    sharded,
    virtual_llama,
)

from modelkin.formats.safetensors import RawTensor, safetensors_bytes


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F16"])
def test_the_safetensors_library_writes_the_same_bytes(dtype):
    tensors = llama_tensors(dtype=dtype)
    ours, theirs = safetensors_bytes(tensors), save(tensors, metadata={"format": "pt"})
    length = int.from_bytes(theirs[:8], "little")
    assert json.loads(ours[8 : 8 + int.from_bytes(ours[:8], "little")]) == json.loads(theirs[8 : 8 + length])
    assert ours.endswith(theirs[8 + length :])


def test_mixed_widths_are_ordered_as_the_library_does():
    tensors: dict[str, NDArray[Any]] = {
        "b": np.zeros(3, np.int8),
        "a": np.zeros(3, np.float16),
        "c": np.zeros(2, np.int64),
        "d": np.ones(()),
    }
    loaded = load(safetensors_bytes(tensors))
    assert loaded["d"] == 1
    assert {name: values.dtype for name, values in loaded.items()} == {n: v.dtype for n, v in tensors.items()}


def test_raw_tensors_reach_the_file(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors_bytes({"w": RawTensor("F8_E4M3", (2, 2), b"abcd")}))
    with safetensors.safe_open(path, "numpy") as file:
        assert file.get_slice("w").get_shape() == [2, 2]
        assert file.get_slice("w").get_dtype() == "F8_E4M3"


def test_unknown_dtypes_are_refused():
    with pytest.raises(ValueError, match="got complex128"):
        safetensors_bytes({"x": np.zeros(1, np.complex128)})


def test_equal_seeds_give_equal_models():
    assert llama_files(seed=3) == llama_files(seed=3) != llama_files(seed=4)


def test_bfloat16_models_are_rounded_float32_models():
    exact, rounded = llama_tensors(), llama_tensors(dtype="BF16")
    for name, values in exact.items():
        np.testing.assert_array_equal(rounded[name], values.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("n_shards", [2, 3, 7])
def test_shards_hold_every_tensor_once(n_shards):
    files = sharded(llama_tensors(), n_shards)
    index = json.loads(files.pop("model.safetensors.index.json"))
    assert 2 <= len(files) <= n_shards
    merged = {}
    for shard, data in files.items():
        for name, values in load(data).items():
            assert index["weight_map"][name] == shard
            assert name not in merged
            merged[name] = values
    for name, values in llama_tensors().items():
        np.testing.assert_array_equal(merged[name], values)
    assert index["metadata"]["total_size"] == sum(values.nbytes for values in merged.values())


def test_the_configuration_tells_the_shapes():
    config, tensors = llama_config(LlamaShape(tied=True)), llama_tensors(LlamaShape(tied=True))
    assert "lm_head.weight" not in tensors
    assert tensors["model.layers.1.self_attn.k_proj.weight"].shape == (
        config["num_key_value_heads"] * config["head_dim"],
        config["hidden_size"],
    )


def test_virtual_headers_fit_their_files():
    files = virtual_llama()
    shards = [file for file in files.values() if isinstance(file, VirtualFile)]
    assert len(shards) == 4
    assert sum(shard.size for shard in shards) > 19e9
    names = set()
    for shard in shards:
        header = json.loads(shard.head[8:])
        header.pop("__metadata__")
        assert max(entry["data_offsets"][1] for entry in header.values()) == shard.size - len(shard.head)
        assert list(header) == sorted(header)
        names |= header.keys()
    assert names == {name for name, _ in BIG_LLAMA.tensors()}


def test_a_small_virtual_model_opens_in_the_safetensors_library():
    file = virtual_llama(LlamaShape(), dtype="F32", n_shards=1)["model.safetensors"]
    assert isinstance(file, VirtualFile)
    loaded = load(file.read(0, file.size))
    assert {name: values.shape for name, values in loaded.items()} == dict(LlamaShape().tensors())
