"""How layers of CodeLlama are fetched: a zip in pieces, read from front to back and checked."""

from __future__ import annotations

import io
import json
import random
import zipfile

import numpy as np
import pytest
from tests.formats.torch_writer import KINDS, Member, Stored, archive, mapping, storage, tensor, whole
from tests.real import fetch
from tests.scale import codellama
from tests.support import LlamaShape, llama_config, llama_tensors

import modelkin as mk
from modelkin.tensors import encode

SHAPE = LlamaShape(layers=12, hidden=32, mlp=64, heads=4, kv_heads=4, vocab=64)
MEMBER = "codellama/pytorch_model-00001-of-00003.bin"


def torch_bytes(tensors, *, spoiled: str | None = None) -> bytes:
    """Return what torch saved in 2023: storages in the order of their keys as text, no note of byte order."""
    stored = {name: Stored("BF16", array.shape, encode(array, "BF16")) for name, array in tensors.items()}
    items = {
        name: tensor(storage(str(number), len(item.data) // 2, kind=KINDS["BF16"]), item.shape)
        for number, (name, item) in enumerate(stored.items())
    }
    data = {str(number): item.data for number, item in enumerate(stored.values())}
    members = [Member("m/data.pkl", whole(mapping(items)))]
    members += [Member(f"m/data/{key}", data[key]) for key in sorted(data)]
    made = archive(members)
    if spoiled is not None:
        wanted = stored[spoiled].data
        made = made.replace(wanted, bytes([wanted[0] ^ 1]) + wanted[1:])
    return made


def pieces(folder, content: bytes, *, size: int = 5_000):
    """Zip a torch file as the package does, and cut the archive."""
    whole_zip = io.BytesIO()
    with zipfile.ZipFile(whole_zip, "w", zipfile.ZIP_DEFLATED) as made:
        made.mkdir("codellama")
        made.writestr("codellama/config.json", json.dumps(llama_config(SHAPE)))
        made.writestr(MEMBER, content)
        made.writestr("codellama/tokenizer.model", random.Random(1).randbytes(20_000))
    data = whole_zip.getvalue()
    paths = []
    for start in range(0, len(data), size):
        paths.append(folder / f"piece{start:09}")
        paths[-1].write_bytes(data[start : start + size])
    return paths


@pytest.fixture(scope="module")
def tensors():
    return llama_tensors(SHAPE, seed=1)


@pytest.mark.parametrize("block", [61, 1 << 20])
def test_the_wanted_layers_are_written_as_a_model(tensors, tmp_path, monkeypatch, block):
    paths = pieces(tmp_path, torch_bytes(tensors))
    monkeypatch.setattr(codellama, "_BLOCK", block)
    codellama.unpack(paths, tmp_path / "kept", layers=(10, 11))
    with mk.open_model(str(tmp_path / "kept")) as model:
        assert model.architecture.n_layers == 2
        assert set(model.index) == {"model.embed_tokens.weight"} | {
            name for name, _ in LlamaShape(layers=2).tensors() if ".layers." in name
        }
        for new, old in ((0, 10), (1, 11)):
            found = model.tensor(f"model.layers.{new}.mlp.down_proj.weight")
            expected = tensors[f"model.layers.{old}.mlp.down_proj.weight"]
            np.testing.assert_allclose(found, expected, rtol=2**-8)
        assert model.config is not None
        assert model.config["num_hidden_layers"] == 2
        assert "CodeLlama" in str(model.config["modelkin_note"])


def test_pieces_after_the_last_wanted_storage_are_not_needed(tensors, tmp_path):
    paths = pieces(tmp_path, torch_bytes(tensors))
    # Keys 1, 10 … 17 come first: layer 1 needs the keys 10 to 18 of 111.
    codellama.unpack(paths[: len(paths) // 2], tmp_path / "kept", layers=(1,))
    assert (tmp_path / "kept" / "model.safetensors").is_file()


def test_pieces_that_end_too_early_leave_no_model(tensors, tmp_path):
    paths = pieces(tmp_path, torch_bytes(tensors))
    with pytest.raises(SystemExit, match="end before all that is wanted"):
        codellama.unpack(paths[:3], tmp_path / "kept", layers=(10, 11))
    assert not (tmp_path / "kept" / "model.safetensors").exists()


def test_numbers_that_do_not_have_their_sum_are_refused(tensors, tmp_path):
    spoiled = torch_bytes(tensors, spoiled="model.layers.10.mlp.up_proj.weight")
    with pytest.raises(SystemExit, match="do not have the sum"):
        codellama.unpack(pieces(tmp_path, spoiled), tmp_path / "kept", layers=(10,))
    assert not (tmp_path / "kept" / "model.safetensors").exists()


def test_every_piece_is_pinned_and_named_once():
    found = codellama.pieces()
    assert len(found) == 24
    assert [item.spec for item in found[9:13]] == [f"codellama@1.0.{n}" for n in (9, 10, 12, 13)]
    assert len({item.sha256 for item in found}) == len(found)
    assert [next(iter(item.members))[-3:] for item in (found[0], found[-1])] == ["xaa", "xax"]


def test_without_the_weights_a_test_is_skipped_with_a_word(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "FOLDER", tmp_path)
    with pytest.raises(pytest.skip.Exception, match="make scale-weights"):
        codellama.codellama()
