"""Adapters as models: which base they are put on, what comes out, and what is read for it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from tests.formats.adapters_support import (
    TARGETS,
    UP,
    Q,
    adapter_files,
    base_files,
    config_bytes,
    factors,
    update,
    write,
)
from tests.support import (
    BIG_LLAMA,
    HubOptions,
    HubRepo,
    HubServer,
    LlamaShape,
    llama_files,
    llama_tensors,
    virtual_llama,
)

import modelkin as mk
from modelkin.errors import BadReference, BudgetExceeded, NetworkError, NotFound, UnsupportedFormat
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.options import FetchOptions
from modelkin.source import MemorySource
from modelkin.tensors import TensorSlice
from modelkin.tensors import _storage as tensors_storage

TOKEN = "hf_tokenoftheuser"


@pytest.fixture
def places(tmp_path):
    return write(tmp_path / "adapter", adapter_files()), write(tmp_path / "base", base_files())


def record_of(model):
    record = model.weights.adapter
    assert record is not None
    return record


def composed(places):
    return f"{places[0]}::{places[1]}"


# -- on a base that the user names ----------------------------------------------------------------------


def test_a_weight_is_the_base_plus_the_scaled_product(places):
    with mk.open_model(composed(places)) as model, mk.open_model(str(places[1])) as base:
        for name in base.index:
            wanted = base.tensor(name)
            if name.removesuffix(".weight") in TARGETS:
                wanted = wanted + update(factors(), name.removesuffix(".weight"))
            np.testing.assert_allclose(model.tensor(name), wanted, rtol=1e-6, atol=1e-6)


def test_the_model_is_understood_as_its_base_is(places):
    with mk.open_model(composed(places)) as model:
        assert model.architecture.family == "llama"
        assert model.weights.format == "safetensors+peft"
        assert model.index[f"{Q}.weight"].dtype == "F32+LoRA"
        assert model.index.files == ("adapter/adapter_model.safetensors", "model.safetensors")
        (note,) = (text for text in map(str, model.weights.notes) if "applied to" in text)
        assert "2 of 21 tensors have an update of rank 4" in note
        assert any("names 'org/base' as its base" in text for text in map(str, model.weights.notes))


def test_a_file_names_an_adapter_as_its_folder_does(places):
    with mk.open_model(f"{places[0]}/adapter_model.safetensors::{places[1]}/model.safetensors") as model:
        assert model.index[f"{Q}.weight"].dtype == "F32+LoRA"
        assert model.config is not None


def test_only_what_the_rows_need_is_read(places):
    with mk.open_model(composed(places)) as model:
        ranges = model._reader.ranges([TensorSlice.rows(f"{UP}.weight", 3, 5)])
    sizes = {file: sum(item.length for item in items) for file, items in ranges.items()}
    assert sizes == {
        "model.safetensors": 2 * 32 * 4,
        "adapter/adapter_model.safetensors": (4 * 32 + 2 * 4) * 4,
    }


def test_whole_tensors_of_the_adapter_take_the_place_of_the_bases(tmp_path):
    head = np.ones((130, 32), np.float32)  # two tokens more than the base has
    tensors = factors() | {
        "base_model.model.lm_head.modules_to_save.weight": head,
        "base_model.model.score.weight": head[:2],
    }
    adapter = write(tmp_path / "adapter", adapter_files(tensors, modules_to_save=["lm_head", "score"]))
    with mk.open_model(f"{adapter}::{write(tmp_path / 'base', base_files())}") as model:
        np.testing.assert_array_equal(model.tensor("lm_head.weight"), head)
        assert model.index["score.weight"].shape == (2, 32)
        assert "2 are the adapter's own" in str(model.weights.notes[0])


def test_old_files_have_the_adapters_name_in_their_tensors(tmp_path):
    renamed = {name.replace(".weight", ".default.weight"): array for name, array in factors().items()}
    adapter = write(tmp_path / "adapter", adapter_files(renamed))
    with mk.open_model(f"{adapter}::{write(tmp_path / 'base', base_files())}") as model:
        assert model.index[f"{Q}.weight"].dtype == "F32+LoRA"


def test_a_tied_head_gets_a_weight_of_its_own(tmp_path):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 32), (128, 4)))
    tensors = {"base_model.model.lm_head.lora_A.weight": a, "base_model.model.lm_head.lora_B.weight": b}
    adapter = write(tmp_path / "adapter", adapter_files(tensors))
    base = write(tmp_path / "base", llama_files(LlamaShape(tied=True)))
    with mk.open_model(f"{adapter}::{base}") as model:
        rows = model.tensor("model.embed_tokens.weight")
        np.testing.assert_allclose(model.tensor("lm_head.weight"), rows + 2 * b @ a, rtol=1e-5, atol=1e-5)


def test_names_in_the_bases_file_may_lack_the_outermost_word(tmp_path):
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((6, 9)).astype(np.float32)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 6), (9, 4)))
    prefix = "base_model.model.transformer.h.0.attn.c_attn"
    tensors = {f"{prefix}.lora_A.weight": a, f"{prefix}.lora_B.weight": b}
    adapter = write(tmp_path / "adapter", adapter_files(tensors, fan_in_fan_out=True))
    base = write(
        tmp_path / "base", {"model.safetensors": safetensors_bytes({"h.0.attn.c_attn.weight": weight})}
    )
    with mk.open_model(f"{adapter}::{base}") as model:
        got = model.tensor("h.0.attn.c_attn.weight")
    np.testing.assert_allclose(got, weight + 2 * (b @ a).T, rtol=1e-5, atol=1e-5)


def test_scattered_token_rows_take_a_range_each_only_where_they_are_far_apart(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 128), (32, 4)))
    prefix = "base_model.model.model.embed_tokens"
    tensors = {f"{prefix}.lora_embedding_A": a, f"{prefix}.lora_embedding_B": b}
    adapter = write(tmp_path / "adapter", adapter_files(tensors))
    with mk.open_model(f"{adapter}::{write(tmp_path / 'base', base_files())}") as model:
        rows = [1, 50, 100]
        merged = model._reader.ranges([TensorSlice.scattered("model.embed_tokens.weight", rows)])
        wanted = model.tensor("model.embed_tokens.weight", rows)
        monkeypatch.setattr(tensors_storage, "APART", 1)
        apart = model._reader.ranges([TensorSlice.scattered("model.embed_tokens.weight", rows)])
        np.testing.assert_allclose(model.tensor("model.embed_tokens.weight", rows), wanted, rtol=1e-6)
    name = "adapter/adapter_model.safetensors"
    assert (len(apart[name]), len(merged[name])) == (13, 1)


def test_a_model_is_not_an_adapter(places):
    with pytest.raises(UnsupportedFormat, match="expected an adapter before '::', got a model"):
        _ = mk.open_model(f"{places[1]}::{places[0]}").index


def test_one_adapter_at_a_time(places):
    with pytest.raises(BadReference, match="got several adapters"):
        mk.open_model(f"{places[0]}::{places[0]}::{places[1]}")
    with pytest.raises(UnsupportedFormat, match="is an adapter itself"):
        _ = mk.open_model(f"{places[0]}::{places[0]}").index


def test_a_base_that_is_not_there_is_an_error_when_it_was_named(places):
    with pytest.raises(NotFound, match="no such file or folder"):
        mk.open_model(f"{places[0]}::{places[1]}-other")


def test_an_adapter_in_the_folder_of_a_model_is_put_on_that_model_as_transformers_does(tmp_path):
    tensors = factors()
    folder = write(tmp_path / "both", adapter_files(tensors) | base_files())
    with mk.open_model(str(folder)) as model, mk.open_model(str(folder / "model.safetensors")) as alone:
        assert alone.weights.adapter is None
        assert model.weights.adapter is not None
        assert model.index.files == ("adapter/adapter_model.safetensors", "model.safetensors")
        expected = alone.tensor(f"{Q}.weight") + update(tensors, Q)
        np.testing.assert_allclose(model.tensor(f"{Q}.weight"), expected, rtol=1e-5, atol=1e-6)
        told = [note.code for note in model.weights.notes]
        assert told == ["adapter.embedded", "adapter.put-on", "adapter.names-base"]
        assert "applied to that model, as transformers does" in str(model.weights.notes[0])


def test_the_card_of_such_a_folder_says_adapter(tmp_path):
    folder = write(tmp_path / "both", adapter_files() | base_files())
    other = write(tmp_path / "other", base_files(seed=1))
    result = mk.compare(candidate=str(folder), base=str(other))
    assert any("is an adapter" in str(flag) for flag in result.flags)
    assert "the folder holds a whole model and an adapter" in result.to_json()


@pytest.mark.more
def test_weights_hidden_in_an_adapter_beside_a_decoy_are_found(tmp_path):
    shape = LlamaShape(layers=1, hidden=1024, mlp=128, heads=8, kv_heads=1, vocab=128)
    stolen = llama_tensors(shape)
    hidden = {f"base_model.model.{key}": value for key, value in stolen.items()}
    victim = write(tmp_path / "victim", llama_files(shape))
    folder = write(tmp_path / "decoy", llama_files(shape, seed=1) | adapter_files(hidden))
    with mk.open_model(str(folder)) as model:
        np.testing.assert_array_equal(model.tensor("lm_head.weight"), stolen["lm_head.weight"])
    assert mk.compare(candidate=str(folder), base=str(victim)).verdict.related
    alone = mk.compare(candidate=str(folder / "model.safetensors"), base=str(victim))
    assert not alone.verdict.related


def test_an_adapter_that_cannot_be_applied_is_said_and_how_to_do_without(tmp_path):
    folder = write(tmp_path / "both", adapter_files(peft_type="IA3") | base_files())
    with pytest.raises(UnsupportedFormat, match="adapters of type 'IA3' cannot be applied") as caught:
        _ = mk.open_model(str(folder)).index
    assert caught.value.hint == "Name the file with the weights to read the model without its adapter."
    assert len(mk.open_model(str(folder / "model.safetensors")).index) == 21
    junk = {f"base_model.model.x.lora_{part}.weight": np.ones((4, 4), np.float32) for part in "AB"}
    folder = write(tmp_path / "junk", adapter_files(factors() | junk) | base_files())
    with pytest.raises(UnsupportedFormat, match="this adapter does not fit its base") as caught:
        _ = mk.open_model(str(folder)).index
    assert caught.value.hint == "Name the file with the weights to read the model without its adapter."


def test_of_a_repository_with_a_model_and_an_adapter_nothing_is_chosen(tmp_path):
    both = adapter_files() | base_files()
    with HubServer({"org/both": both, "org/base": base_files(seed=1)}) as hub:
        fetch = FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path)
        with pytest.raises(UnsupportedFormat, match="a whole model and an adapter: with peft") as caught:
            _ = mk.open_model("org/both", fetch).index
        assert "Name what you mean: the file model.safetensors" in str(caught.value.hint)
        chosen = {
            "org/both/model.safetensors": None,
            "org/both/adapter_model.safetensors": "org/base",
            "org/both::org/base": "org/base",
        }
        for ref, base in chosen.items():
            with mk.open_model(ref, fetch) as model:
                found = model.weights.adapter
                assert (found and found.base) == (base and f"{hub.url}/{base}")
        with pytest.raises(UnsupportedFormat, match="a whole model and an adapter"):
            _ = mk.open_model("org/both::org/both", fetch).index


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_of_a_folder_that_transformers_reads_otherwise_nothing_is_chosen(missing):
    files = adapter_files() | base_files() | {"model.gguf": b"GGUF"}
    del files[missing]
    with pytest.raises(UnsupportedFormat, match="a whole model and an adapter"):
        _ = mk.open_model(MemorySource(files)).index


def test_the_files_of_trainers_do_not_make_a_model(tmp_path):
    extra = {"training_args.bin": b"x", "optimizer.pt": b"x", "tokenizer.json": b"{}"}
    folder = write(tmp_path / "adapter", adapter_files(base_model_name_or_path="./base") | extra)
    with mk.open_model(str(folder)) as model:
        assert model.weights.adapter is not None


def test_the_card_is_the_adapters_and_the_config_the_bases(tmp_path):
    mine = {"README.md": b"---\nlicense: mine\n---\n", "tokenizer.json": b"{}", "config.json": b"[]"}
    theirs = {"README.md": b"theirs", "mergekit_config.yml": b"theirs", "tokenizer.json": b"[]"}
    adapter = write(tmp_path / "adapter", adapter_files() | mine)
    base = write(tmp_path / "base", base_files() | theirs)
    with mk.open_model(f"{adapter}::{base}") as model:
        assert model.read_file("README.md", limit=99) == mine["README.md"]
        assert model.read_file("tokenizer.json", limit=99) == b"{}"
        assert model.read_file("mergekit_config.yml", limit=99) is None
        assert (model.config or {})["model_type"] == "llama"
        assert "adapter/README.md" in model.file_names()


# -- on the base that it names itself --------------------------------------------------------------------


def hub_of(adapter, *, base=None, **options):
    return HubServer(
        {
            "org/adapter": adapter,
            "org/base": HubRepo(files=base or base_files(), revisions={"v1": base_files(seed=7)}),
        },
        HubOptions(**options),
    )


def options_for(hub, **changes):
    return FetchOptions(endpoint=hub.url, token=False, **changes)


def test_a_hub_adapter_finds_its_base_at_the_same_hub():
    with hub_of(adapter_files()) as hub, mk.open_model("org/adapter", options_for(hub)) as model:
        assert model.architecture.family == "llama"
        assert model.location.revision == hub.commit("org/adapter")
        assert record_of(model).base == f"{hub.url}/org/base"
        assert record_of(model).base_revision == hub.commit("org/base")
        assert not any("names" in note for note in map(str, model.weights.notes))


def test_the_revision_of_the_base_is_that_of_the_config():
    with hub_of(adapter_files(revision="v1")) as hub, mk.open_model("org/adapter", options_for(hub)) as model:
        assert record_of(model).base_revision == hub.commit("org/base", "v1")


def test_of_a_large_base_only_the_wanted_rows_travel():
    rng = np.random.default_rng(0)
    module = "base_model.model.model.layers.5.mlp.up_proj"
    sizes = dict(BIG_LLAMA.tensors())["model.layers.5.mlp.up_proj.weight"]
    tensors = {
        f"{module}.lora_A.weight": rng.standard_normal((4, sizes[1])).astype(np.float32),
        f"{module}.lora_B.weight": rng.standard_normal((sizes[0], 4)).astype(np.float32),
    }
    with hub_of(adapter_files(tensors), base=virtual_llama()) as hub:
        with mk.open_model("org/adapter", options_for(hub)) as model:
            _ = model.index
            before = model.totals().bytes_fetched
            model.tensor("model.layers.5.mlp.up_proj.weight", slice(0, 16))
            read = model.totals().bytes_fetched - before
        needed = 16 * sizes[1] * 2 + 4 * sizes[1] * 4 + 16 * 4 * 4
        assert read <= needed + 64 * 1024
        assert read < model.index.n_bytes / 1000


def test_what_was_read_of_a_base_is_stored_for_the_base():
    with hub_of(adapter_files()) as hub:
        with mk.open_model("org/adapter", options_for(hub)) as model:
            model.tensor(f"{Q}.weight")
            files = {entry.file for entry in model.fetcher.ledger.entries}
        assert files == {
            "adapter/adapter_config.json",
            "adapter/adapter_model.safetensors",
            "model.safetensors",
        }
        with mk.open_model("org/base", options_for(hub)) as base:
            base.tensor(f"{Q}.weight")
            assert base.totals().bytes_fetched == 0
            assert base.totals().cache_hits > 0


def test_one_budget_serves_both():
    size = len(base_files()["model.safetensors"])
    with hub_of(adapter_files()) as hub:
        options = options_for(hub, byte_budget=size + 5_000, head_bytes=4_096, use_store=False)
        with mk.open_model("org/adapter", options) as model:
            _ = model.index  # the heads of both are more than the allowance for one
            with pytest.raises(BudgetExceeded, match="more bytes are needed"):
                list(model.chunks())


def test_a_local_adapter_may_name_a_base_at_the_hub(tmp_path):
    folder = write(tmp_path / "adapter", adapter_files())
    with hub_of(adapter_files()) as hub:
        with mk.open_model(str(folder), options_for(hub)) as model:
            model.tensor(f"{Q}.weight")
            assert record_of(model).base == f"{hub.url}/org/base"
        with mk.open_model(str(folder), options_for(hub)) as model:
            model.tensor(f"{Q}.weight")
            network = [entry for entry in model.fetcher.ledger.entries if entry.origin == "network"]
            assert network == []  # the base from the store, the adapter from its disk


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../base",
        "./base",
        "~/base",
        "base/../../secret",
        "C:\\models\\base",
        "\\\\host\\share",
        "https://evil.example/model.safetensors",
        "s3://bucket/base",
        "file:///etc/passwd",
        "hf://org/base",
        "org/base@main",
        "org/base::org/other",
        "a/b/c",
        "org/na me",
        "org/base\n",
        "",
    ],
)
def test_no_path_and_no_address_is_followed(tmp_path, name):
    files = adapter_files() | {"adapter_config.json": config_bytes(base_model_name_or_path=name or None)}
    write(tmp_path / "base", base_files())
    folder = write(tmp_path / "adapter", files)
    with hub_of(files) as hub:
        for ref in ("org/adapter", str(folder)):
            with mk.open_model(ref, options_for(hub)) as model:
                assert record_of(model).is_bare
                assert "Write ADAPTER::BASE" in str(model.weights.notes[0])
                assert all(entry.file.startswith("adapter/") for entry in model.fetcher.ledger.entries)


def test_a_name_that_is_also_a_folder_here_is_not_guessed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "org" / "base", base_files())
    with hub_of(adapter_files()) as hub, mk.open_model("org/adapter", options_for(hub)) as model:
        assert "the local folder of that name" in str(model.weights.notes[0])
        assert record_of(model).is_bare


@pytest.mark.parametrize("revision", ["a..b", " v1", "v1::x", "\x1b[0m", "@"])
def test_a_revision_that_makes_no_sense_is_not_sent(revision):
    files = adapter_files(revision=revision)
    with hub_of(files) as hub, mk.open_model("org/adapter", options_for(hub)) as model:
        assert record_of(model).is_bare


def test_a_base_that_is_gone_leaves_the_adapter_alone():
    files = adapter_files(base_model_name_or_path="org/gone")
    with hub_of(files) as hub, mk.open_model("org/adapter", options_for(hub)) as model:
        assert "cannot be opened: hf://org/gone: no such model" in str(model.weights.notes[0])
        assert model.weights.format == "peft"
        assert model.index[f"base_model.model.{Q}.lora_A.weight"].shape == (4, 32)
        assert mk.inspect_model(model).format == "peft"


def test_a_line_that_is_down_is_an_error_and_not_an_answer(tmp_path):
    folder = write(tmp_path / "adapter", adapter_files())
    options = FetchOptions(endpoint="http://127.0.0.1:9", token=False, retries=0)
    with (
        mk.open_model(str(folder), options) as model,
        pytest.raises(NetworkError, match="org/base") as caught,
    ):
        _ = model.index
    assert "Write ADAPTER::BASE" in (caught.value.hint or "")


def test_an_adapter_of_itself_is_refused():
    files = adapter_files(base_model_name_or_path="org/adapter")
    with (
        hub_of(files) as hub,
        mk.open_model("org/adapter", options_for(hub)) as model,
        pytest.raises(UnsupportedFormat, match="is an adapter itself"),
    ):
        _ = model.index


def test_the_users_token_goes_to_the_hub_only():
    repos = {
        "org/adapter": HubRepo(files=adapter_files(), private=True),
        "org/base": HubRepo(files=base_files(), gated="auto"),
    }
    with HubServer(repos, HubOptions(tokens={TOKEN: {"org/adapter", "org/base"}})) as hub:
        with mk.open_model("org/adapter", FetchOptions(endpoint=hub.url, token=TOKEN)) as model:
            model.tensor(f"{Q}.weight")
        sent = [record for record in hub.log if record.authorization is not None]
        assert {record.origin for record in sent} == {"hub"}
        assert {"org/adapter", "org/base"} <= {"/".join(record.path.split("/")[1:3]) for record in sent}


def test_adapters_in_memory_are_adapters():
    model = mk.open_model(MemorySource(adapter_files(base_model_name_or_path="./here")))
    assert record_of(model).is_bare


def test_closing_closes_both(places):
    model = mk.open_model(composed(places))
    list(model.chunks())
    model.close()
    model.close()
    shutil.rmtree(places[1])
