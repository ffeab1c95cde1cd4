"""Sameness of two models, found without a statistic."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.formats.adapters_support import adapter_files, base_files
from tests.formats.onnx_files import model_bytes
from tests.formats.onnx_files import node as onnx_node
from tests.formats.onnx_files import tensor as onnx_tensor
from tests.formats.quantised_writers import gptq
from tests.formats.test_onnx_models import with_external_data
from tests.support import HubServer, LlamaShape, llama_files, llama_tensors

import modelkin as mk
from modelkin.comparison import price_comparison
from modelkin.comparison.identity import (
    kind_of_copy,
    published_digests,
    published_identity,
    same_bits,
    same_layout,
)
from modelkin.comparison.tokens import same_tokenizer
from modelkin.comparison.verdict import Conclusion
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.source import MemorySource


def opened(files):
    return mk.open_model(MemorySource(files))


def test_equal_digests_of_the_hub_prove_identity_before_a_tensor_is_read(tmp_path):
    files = llama_files(LlamaShape(layers=4), n_shards=2)
    with HubServer({"org/a": files, "org/b": files}) as hub:
        fetch = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path)
        result = mk.compare(candidate="org/b", base="org/a", options=mk.CompareOptions(fetch=fetch))
        with mk.open_model("org/a", fetch) as model:
            assert published_digests(model) is not None
        read = {(record.path.split("?")[0], record.range) for record in hub.log if record.origin == "cdn"}
    assert result.verdict.conclusion is Conclusion.IDENTICAL
    assert "published digest" in str(result.verdict.summary)
    assert len(read) == 2  # the headers of two shards, which both repositories share


@pytest.mark.more
def test_a_walk_over_a_hub_verifies_every_file_and_the_report_says_so(tmp_path):
    shape = LlamaShape(layers=2, hidden=1024, mlp=512, vocab=256)
    marked = safetensors_bytes(llama_tensors(shape), metadata={"note": "other bytes"})
    repos = {"org/a": llama_files(shape), "org/b": {**llama_files(shape), "model.safetensors": marked}}
    with HubServer(repos) as hub:
        fetch = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=tmp_path / "store")
        found = {}
        for depth in ("quick", "full"):
            options = mk.CompareOptions(depth=depth, fetch=fetch)
            found[depth] = mk.compare(candidate="org/b", base="org/a", options=options)
    for side in ("candidate", "base"):
        states = {
            depth: {item.file: item.state for item in result.ledger.files if item.model == side}
            for depth, result in found.items()
        }
        weights = [name for name in states["full"] if name.endswith(".safetensors")]
        assert {states["quick"][name] for name in weights} == {"sampled"}
        assert states["quick"]["config.json"] == "verified"
        assert set(states["full"].values()) == {"verified"}
    assert found["full"].verdict.conclusion is Conclusion.IDENTICAL
    assert mk.Comparison.from_json(found["full"].to_json()) == found["full"]
    found["quick"].write(str(tmp_path / "report"))
    text = (tmp_path / "report" / "REPORT.md").read_text()
    assert "files read in parts, digest not checked" in text
    assert "files read in full that match the published digest" in text


def test_resharded_models_hold_the_same_bits():
    one, other = opened(llama_files(n_shards=1)), opened(llama_files(n_shards=2))
    assert same_layout(one, other)
    assert same_bits(one, other)
    assert published_digests(one) is None


def test_one_changed_bit_is_seen():
    tensors = llama_tensors()
    changed = {name: value.copy() for name, value in tensors.items()}
    changed["model.norm.weight"][3] = np.nextafter(changed["model.norm.weight"][3], np.float32(9))
    one, other = (opened({"model.safetensors": safetensors_bytes(t)}) for t in (tensors, changed))
    assert same_layout(one, other)
    assert not same_bits(one, other)
    assert kind_of_copy(one, other) is None
    assert kind_of_copy(one, one) == "copy"


@pytest.mark.parametrize("dtype", ["BF16", "F16"])
def test_a_cast_is_the_same_after_rounding(dtype):
    one, other = opened(llama_files()), opened(llama_files(dtype=dtype))
    assert not same_layout(one, other)
    assert kind_of_copy(one, other) == "precision-copy"


def products_of_codes(dtype):
    """Return two products with one scale each, whose codes have a sign or not: the numbers are the same."""
    rng, width = np.random.default_rng(0), 16
    nodes, tensors, value = [], [], "x"
    for number in range(2):
        codes = rng.integers(-127, 128, (width, width))
        shift = 0 if dtype == np.int8 else 128
        tensors += [
            onnx_tensor(f"m.{number}.weight_quantized", (codes + shift).astype(dtype)),
            onnx_tensor(f"m.{number}.weight_scale", np.float32(0.01)),
            onnx_tensor(f"m.{number}.weight_zero_point", dtype(shift)),
        ]
        parts = [item.name for item in tensors[-3:]]
        nodes += [
            onnx_node("DequantizeLinear", parts, [f"w{number}"]),
            onnx_node("MatMul", [value, f"w{number}"], [f"y{number}"]),
        ]
        value = f"y{number}"
    return opened({"model.onnx": model_bytes(nodes, tensors)})


def test_codes_with_a_sign_and_without_are_one_precision():
    signed, unsigned = products_of_codes(np.int8), products_of_codes(np.uint8)
    assert {info.dtype for info in signed.index.values()} == {"INT8"}
    assert {info.dtype for info in unsigned.index.values()} == {"UINT8"}
    assert kind_of_copy(signed, unsigned) == "copy"


def with_odd(tensors, share):
    """Return tensors in half precision, some of them rounded the other way."""
    changed = {}
    for name, value in tensors.items():
        near = value.astype(np.float16)
        at = np.random.default_rng(0).random(value.shape) < share
        away = np.where(near > value, np.float16(-np.inf), np.float16(np.inf))
        changed[name] = np.where(at, np.nextafter(near, away), near)
    return changed


@pytest.mark.parametrize(("share", "kind"), [(2e-4, "precision-copy"), (0.05, None)])
def test_a_few_values_that_were_rounded_the_other_way_are_no_change(share, kind):
    tensors = llama_tensors()
    one, other = (
        opened({"model.safetensors": safetensors_bytes(t)}) for t in (tensors, with_odd(tensors, share))
    )
    assert kind_of_copy(one, other) == kind


def test_a_copy_may_lack_a_small_part_and_no_large_one():
    tensors = llama_tensors()
    whole = opened({"model.safetensors": safetensors_bytes(tensors)})
    for left_out, kind in (["model.norm.weight"], "copy"), (["model.embed_tokens.weight"], None):
        rest = {name: value for name, value in tensors.items() if name not in left_out}
        assert kind_of_copy(opened({"model.safetensors": safetensors_bytes(rest)}), whole) == kind


def test_tokenizers_are_compared_by_their_bytes_where_they_are_near():
    files = llama_files()
    one, other = opened({**files, "tokenizer.json": b"abc"}), opened({**files, "tokenizer.json": b"abd"})
    assert same_tokenizer(one, one) is True
    assert same_tokenizer(one, other) is False
    assert same_tokenizer(one, opened(files)) is None


@pytest.fixture
def published(monkeypatch):
    """Let files in memory have published digests, and return how two models compare by these."""
    plain = MemorySource.files

    def files(source):
        return {name: replace(info, sha256=info.etag) for name, info in plain(source).items()}

    monkeypatch.setattr(MemorySource, "files", files)

    def identity(one, other):
        pair: Any = SimpleNamespace(models=(opened(one), opened(other)))
        return published_identity(pair)

    return identity


def test_equal_digests_of_plain_weights_are_enough_whatever_the_config_says(published):
    files = llama_files(n_shards=2)
    renamed = files | {"config.json": files["config.json"].replace(b"{", b'{"_name_or_path": "x", ', 1)}
    assert published(files, renamed) is not None


def test_two_graphs_over_one_data_file_are_two_models(published):
    def exported(offset: int) -> dict[str, bytes]:
        data, beside, _ = with_external_data(offset=str(offset))
        return {"model.onnx": data, "model.onnx_data": beside + bytes(16)}

    assert published(exported(8), exported(8)) is not None
    assert exported(8)["model.onnx_data"] == exported(16)["model.onnx_data"]
    assert published(exported(8), exported(16)) is None


def test_a_graph_that_does_something_else_with_the_same_numbers_is_another_model(published):
    data, beside, _ = with_external_data()
    other = data.replace(b"Gather", b"MatMul")
    assert (
        published(
            {"model.onnx": data, "model.onnx_data": beside}, {"model.onnx": other, "model.onnx_data": beside}
        )
        is None
    )


@pytest.mark.parametrize("with_base", [True, False])
def test_the_same_matrices_with_another_scale_are_another_adapter(published, with_base):
    base = base_files() if with_base else {}
    names = {"base_model_name_or_path": None} if not with_base else {}
    one = base | adapter_files(lora_alpha=8, **names)
    assert published(one, base | adapter_files(lora_alpha=8, task_type="CAUSAL_LM", **names)) is not None
    assert published(one, base | adapter_files(lora_alpha=16, **names)) is None
    assert published(one, base | adapter_files(lora_alpha=8, use_rslora=True, **names)) is None


def test_the_same_codes_with_another_quantisation_config_are_another_model(published):
    tensors, _ = gptq(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))
    weights = {f"model.layers.0.mlp.up_proj.{name}": value for name, value in tensors.items()}

    def quantised(**more: object) -> dict[str, bytes]:
        how = {"quant_method": "gptq", "bits": 4, "group_size": 32, **more}
        config = json.dumps({"quantization_config": how}).encode()
        return {"model.safetensors": safetensors_bytes(weights), "config.json": config}

    assert published(quantised(), quantised(dataset="c4")) is not None
    assert published(quantised(), quantised(checkpoint_format="gptq_v2")) is None


def full(hub, folder, candidate="org/b"):
    fetch = mk.FetchOptions(endpoint=hub.url, token=False, store_dir=folder)
    options = mk.CompareOptions(depth="full", fetch=fetch)
    plans = price_comparison(candidate=candidate, base="org/a", options=options).plans
    hub.reset()
    return plans, mk.compare(candidate=candidate, base="org/a", options=options)


@pytest.mark.more
def test_full_depth_plans_and_reads_every_value_of_a_pair_that_differs(tmp_path):
    shape = LlamaShape(layers=2, hidden=64, mlp=1024, vocab=4096)
    repos = {name: llama_files(shape, seed=seed, dtype="BF16") for name, seed in (("org/a", 1), ("org/b", 2))}
    n_bytes = sum(tensor.nbytes for tensor in llama_tensors(shape, dtype="BF16").values())
    with HubServer(repos) as hub:
        plans, result = full(hub, tmp_path)
        sent = hub.bytes_sent("cdn")
    assert [plan.bytes_needed for plan in plans] == [n_bytes, n_bytes]
    assert sent >= 2 * n_bytes - 2 * 2**17  # headers were read with the first tensors before
    assert result.relation.details["values_compared"] == n_bytes // 2
    assert result.verdict.related is False
    assert any("every value of the 21 tensors" in str(flag) for flag in result.flags)


def test_full_depth_counts_what_a_child_has_changed(tmp_path):
    shape = LlamaShape(layers=2, hidden=64, mlp=128, vocab=256)
    tensors = llama_tensors(shape)
    changed = {**tensors, "model.norm.weight": tensors["model.norm.weight"] + np.float32(0.5)}
    repos = {
        "org/a": llama_files(shape),
        "org/b": {**llama_files(shape), "model.safetensors": safetensors_bytes(changed)},
    }
    with HubServer(repos) as hub:
        _, result = full(hub, tmp_path)
    details = result.relation.details
    assert details["values_compared"] - details["values_equal"] == 64
    assert details["values_compared"] == sum(tensor.size for tensor in tensors.values())
    assert result.verdict.related is True


def test_full_depth_has_nothing_to_walk_over_where_no_tensor_has_a_counterpart(tmp_path):
    repos = {
        "org/a": llama_files(LlamaShape(hidden=64, mlp=128, vocab=256)),
        "org/b": llama_files(LlamaShape(hidden=32, mlp=96, vocab=300)),
    }
    with HubServer(repos) as hub:
        _, result = full(hub, tmp_path)
    assert any("nothing to compare value by value" in str(flag) for flag in result.flags)


def test_a_walk_takes_formats_that_differ_by_their_numbers(tmp_path):
    shape = LlamaShape(layers=1, hidden=64, mlp=128, vocab=256)
    repos = {"org/a": llama_files(shape, dtype="BF16"), "org/b": llama_files(shape, dtype="F32")}
    with HubServer(repos) as hub:
        _, result = full(hub, tmp_path)
    details = result.relation.details
    assert details["values_equal_after_rounding"] == details["values_compared"] > details["values_equal"]
    assert result.relation.kind == "precision-copy"


@pytest.mark.parametrize("depth", ["standard", "deep", "full"])
def test_two_models_are_never_called_identical_where_something_was_left_out(depth):
    def with_odd(value: float) -> dict[str, bytes]:
        tensors = {**llama_tensors(LlamaShape()), "a\u200bb": np.full(300, value, np.float32)}
        return {**llama_files(LlamaShape()), "model.safetensors": safetensors_bytes(tensors)}

    result = mk.compare(
        candidate=MemorySource(with_odd(0.0)),
        base=MemorySource(with_odd(1.0)),
        options=mk.CompareOptions(depth=depth),
    )
    assert result.verdict.conclusion is Conclusion.SHARED
    assert result.relation.kind == "copy"


def test_a_shard_of_which_everything_is_left_out_is_no_part_of_what_digests_prove(published):
    def with_shard(value: float) -> dict[str, bytes]:
        files = dict(llama_files(n_shards=2))
        index = json.loads(files["model.safetensors.index.json"])
        index["weight_map"]["a\u200bb"] = "odd.safetensors"
        odd = safetensors_bytes({"a\u200bb": np.full(3, value, np.float32)})
        return files | {"model.safetensors.index.json": json.dumps(index).encode(), "odd.safetensors": odd}

    assert published(with_shard(0.0), with_shard(1.0)) is None
