"""Whole models: copies in GGUF are told from strangers, and little of a remote file is read."""

import json

import gguf
import numpy as np
import pytest
from tests.places import ZOO
from tests.support import HubServer

import modelkin as mk
from modelkin.source import MemorySource

from .gguf_models import arrays_of, converted_zoo

FAMILIES = [
    ("base", "twin-1"),
    ("qwen2-base", "qwen2-twin"),
    ("gemma-base", "gemma-twin"),
    ("moe-base", "moe-twin"),
    ("gpt2-base", "gpt2-twin"),
    ("bert-base", "bert-twin"),
]
STRONG = ("mlp", "experts", "attention", "norms")


def compared(candidate, base):
    return mk.compare(candidate=str(candidate), base=str(base))


@pytest.mark.parametrize(
    ("name", "quant"), [("base", "F16"), ("base", "Q8_0"), *((name, "Q4_0") for name, _ in FAMILIES)]
)
def test_a_copy_shares_every_component(tmp_path, name, quant):
    result = compared(converted_zoo(tmp_path, name, quant), ZOO / name)
    assert result.verdict.related
    conclusions = {key: item.conclusion.value for key, item in result.verdict.components.items()}
    assert set(conclusions.values()) <= {"shared", "not-testable"}
    assert sum(conclusions[part] == "shared" for part in STRONG) >= 3


@pytest.mark.parametrize(("name", "stranger"), FAMILIES)
def test_a_stranger_shows_nothing(tmp_path, name, stranger):
    result = compared(converted_zoo(tmp_path, stranger, "Q8_0"), ZOO / name)
    assert result.verdict.conclusion.value == "no-evidence"


@pytest.mark.parametrize("quant", ["F32", "BF16"])
def test_another_number_format_is_a_precision_copy(tmp_path, quant):
    result = compared(converted_zoo(tmp_path, "base", quant), ZOO / "base")
    assert result.relation.kind == "precision-copy"


@pytest.mark.parametrize("name", ["base", "gpt2-base", "moe-base"])
def test_a_quantised_model_is_a_quantised_copy_of_its_original(tmp_path, name):
    result = compared(converted_zoo(tmp_path, name, "Q4_0"), ZOO / name)
    assert result.relation.kind == "quantised-copy"


def test_a_quantised_relative_is_no_copy(tmp_path):
    result = compared(converted_zoo(tmp_path, "finetune-heavy", "Q8_0"), ZOO / "base")
    assert result.verdict.related
    assert result.relation.kind != "quantised-copy"


def test_the_same_file_is_a_copy(tmp_path):
    path = converted_zoo(tmp_path, "base", "Q4_0")
    result = compared(path, path)
    assert result.verdict.conclusion.value == "identical"
    assert result.relation.kind == "copy"


def test_two_quantisations_of_one_model_share_everything(tmp_path):
    result = compared(converted_zoo(tmp_path, "base", "Q8_0"), converted_zoo(tmp_path, "base", "Q4_0"))
    assert result.verdict.related
    assert result.verdict.components["embedding"].conclusion.value == "shared"


def test_queries_and_keys_are_in_the_order_of_the_original(tmp_path):
    model = mk.open_model(str(converted_zoo(tmp_path, "base", "Q8_0")))
    original = arrays_of(ZOO / "base")
    for part in ("q_proj", "k_proj"):
        name = f"model.layers.1.self_attn.{part}.weight"
        mine, theirs = model.tensor(name), original[name]
        cosines = (mine * theirs).sum(1) / np.linalg.norm(mine, axis=1) / np.linalg.norm(theirs, axis=1)
        assert cosines.min() > 0.999
    assert any("put back" in note for note in map(str, model.weights.notes))


def test_the_config_says_what_the_original_says(tmp_path):
    model = mk.open_model(str(converted_zoo(tmp_path, "base", "Q8_0")))
    original = json.loads((ZOO / "base" / "config.json").read_text())
    assert model.config is not None
    for field in ("model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
        assert model.config[field] == original[field]
    for field in ("num_key_value_heads", "intermediate_size", "tie_word_embeddings", "rms_norm_eps"):
        assert model.config[field] == original[field]


# -- over a network --------------------------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path):
    files = {
        f"m.{quant}.gguf": converted_zoo(tmp_path, "base", quant).read_bytes() for quant in ("Q8_0", "Q4_0")
    }
    with HubServer({"org/gguf": files}) as server:
        yield server


def remote(hub, text, tmp_path):
    return mk.open_model(text, mk.FetchOptions(endpoint=hub.url, store_dir=tmp_path / "store", token=False))


def test_a_repository_is_read_by_its_best_file(hub, tmp_path):
    with remote(hub, "org/gguf", tmp_path) as model:
        assert model.index.files == ("m.Q8_0.gguf",)
        assert any("there are also m.Q4_0.gguf" in note for note in map(str, model.weights.notes))
        assert model.architecture.family == "llama"


@pytest.mark.parametrize("text", ["org/gguf/m.Q4_0.gguf", "hf://org/gguf@main/m.Q4_0.gguf"])
def test_a_file_of_a_repository_can_be_named(hub, tmp_path, text):
    with remote(hub, text, tmp_path) as model:
        assert model.index.files == ("m.Q4_0.gguf",)


def test_only_the_rows_that_are_asked_for_are_fetched(hub, tmp_path, monkeypatch):
    from modelkin.formats.gguf import reading as reading_module

    monkeypatch.setattr(reading_module, "STEPS", (16 << 10, 64 << 10))
    with remote(hub, "org/gguf", tmp_path) as model:
        _ = model.index
        headers = model.totals().bytes_fetched
        values = model.tensor("model.layers.0.mlp.up_proj.weight", rows=slice(3, 5))
        assert model.totals().bytes_fetched - headers == 2 * 96 // 32 * 34
        assert headers <= 64 << 10
        local = mk.open_model(str(tmp_path / "base.Q8_0.gguf"))
        np.testing.assert_array_equal(values, local.tensor("model.layers.0.mlp.up_proj.weight")[3:5])


def test_a_stub_of_a_config_beside_the_file_does_not_count(tmp_path):
    data = converted_zoo(tmp_path, "base", "Q8_0").read_bytes()
    files = {"m.gguf": data, "config.json": b'{"model_type": "llama"}'}
    model = mk.open_model(MemorySource(files))
    assert model.architecture.sizes["heads"] == 6
    assert model.architecture.sizes["kv_heads"] == 2


def test_numbers_that_overflow_are_none_and_nobody_is_warned(tmp_path):
    values = np.full((64, 64), 1e300)
    values[0, 0] = np.nan
    keys = {"llama.attention.head_count": 4, "llama.attention.head_count_kv": 4, "llama.block_count": 1}
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    for key, value in keys.items():
        writer.add_uint32(key, value)
    for name in ("blk.0.attn_q.weight", "blk.0.ffn_up.weight", "token_embd.weight"):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with mk.open_model(str(tmp_path / "model.gguf")) as model:
        found = model.tensor("model.layers.0.self_attn.q_proj.weight")  # its rows are put in order
    assert not np.isfinite(found).any()
