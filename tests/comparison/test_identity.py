"""Sameness of two models, found without a statistic."""

import numpy as np
import pytest
from tests.support import HubServer, LlamaShape, llama_files, llama_tensors

import modelkin as mk
from modelkin.comparison.identity import kind_of_copy, published_digests, same_bits, same_layout
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
