"""Models in the files of torch, end to end: over the Hub, and compared with originals and strangers."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.formats.quantised_writers import SCHEMES
from tests.formats.torch_writer import Stored, tensors_of, torch_file
from tests.places import ZOO
from tests.support import HubServer, LlamaShape, llama_config, llama_tensors

import modelkin as mk
from modelkin.comparison.verdict import Conclusion

SHAPE = LlamaShape(layers=4, hidden=256, mlp=688)


@pytest.fixture(scope="module")
def large() -> dict[str, bytes]:
    tensors = {key: Stored.of(value) for key, value in llama_tensors(SHAPE).items()}
    halves = list(tensors)[::2], list(tensors)[1::2]
    shards = {f"pytorch_model-0000{n}-of-00002.bin": names for n, names in enumerate(halves, start=1)}
    index = {"weight_map": {key: file for file, names in shards.items() for key in names}}
    return {
        "zip": torch_file(tensors),
        "older": torch_file(tensors, legacy=True),
        **{file: torch_file({key: tensors[key] for key in names}) for file, names in shards.items()},
        "pytorch_model.bin.index.json": json.dumps(index).encode(),
        "config.json": json.dumps(llama_config(SHAPE)).encode(),
    }


@pytest.mark.parametrize("layout", ["zip", "older"])
def test_a_remote_file_is_read_by_small_parts(large, layout, tmp_path):
    files = {"pytorch_model.bin": large[layout], "config.json": large["config.json"]}
    with HubServer({"org/a": files}) as hub:
        options = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path)
        with mk.open_model("org/a", options) as model:
            assert len(model.index) == len(llama_tensors(SHAPE))
            listed = model.totals().bytes_fetched
            got = model.tensor("model.layers.3.mlp.up_proj.weight", rows=slice(5, 9))
            read = model.totals().bytes_fetched
    np.testing.assert_array_equal(got, llama_tensors(SHAPE)["model.layers.3.mlp.up_proj.weight"][5:9])
    assert len(large[layout]) > 10_000_000
    assert listed < 400_000
    assert read - listed == 4 * 256 * 4


def test_remote_shards_are_opened_together(large, tmp_path):
    files = {file: data for file, data in large.items() if file not in ("zip", "older")}
    with HubServer({"org/a": files}) as hub:
        options = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path)
        with mk.open_model("org/a", options) as model:
            assert len(model.index) == len(llama_tensors(SHAPE))
            assert model.totals().bytes_fetched < 800_000


def test_codes_in_a_file_of_torch_are_put_together():
    parts, expected = SCHEMES["gptq-4"].write(np.random.default_rng(0).normal(size=(64, 64)).astype("f4"))
    stored = {f"model.layers.0.mlp.up_proj.{part}": Stored.of(values) for part, values in parts.items()}
    files = {
        "pytorch_model.bin": torch_file(stored),
        "config.json": json.dumps({"model_type": "llama", **SCHEMES["gptq-4"].config}).encode(),
    }
    with mk.open_model(mk.MemorySource(files)) as model:
        assert {name: info.dtype for name, info in model.index.items()} == {
            "model.layers.0.mlp.up_proj.weight": "GPTQ-4"
        }
        np.testing.assert_array_equal(model.tensor("model.layers.0.mlp.up_proj.weight"), expected)


def converted(tmp_path: Path, member: str, *, legacy: bool = False) -> str:
    """Write a model of the zoo as torch would, with its other files."""
    folder = tmp_path / member
    folder.mkdir()
    for file in (ZOO / member).iterdir():
        if file.suffix == ".json":
            (folder / file.name).write_bytes(file.read_bytes())
    (folder / "pytorch_model.bin").write_bytes(torch_file(tensors_of(ZOO / member), legacy=legacy))
    return str(folder)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_converted_copy_is_the_same_model(tmp_path, legacy):
    result = mk.compare(candidate=converted(tmp_path, "base", legacy=legacy), base=str(ZOO / "base"))
    assert result.verdict.conclusion is Conclusion.IDENTICAL


def test_a_converted_fine_tune_is_related(tmp_path):
    result = mk.compare(candidate=converted(tmp_path, "finetune-light"), base=str(ZOO / "base"))
    assert result.verdict.conclusion is Conclusion.SHARED


def test_a_converted_stranger_is_a_stranger(tmp_path):
    result = mk.compare(candidate=converted(tmp_path, "twin-1"), base=str(ZOO / "base"))
    assert result.verdict.conclusion is Conclusion.NO_EVIDENCE


def test_a_converted_copy_in_another_precision_is_a_precision_copy(tmp_path):
    folder = Path(converted(tmp_path, "base"))
    with mk.open_model(str(folder)) as model:
        narrow = {key: Stored.of(model.tensor(key).astype(np.float16)) for key in model.index}
    (folder / "pytorch_model.bin").write_bytes(torch_file(narrow))
    result = mk.compare(candidate=str(folder), base=str(ZOO / "base"))
    assert result.relation.kind == "precision-copy"
