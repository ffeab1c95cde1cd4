"""Checkpoints of llama2.c: all versions, the order of rotary pairs, hostile files, what is read of them."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.hostile_files import config_of, judged, read_as, spoilt
from tests.formats.small_files import llama2c_file, meta_rows, q80
from tests.places import ZOO as ZOO_FOLDER
from tests.support import HubServer

import modelkin as mk
from modelkin.casework.lab import load_zoo
from modelkin.comparison.verdict import Conclusion
from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.formats.llama2c import FORMAT
from modelkin.options import FetchOptions
from modelkin.source import MemorySource

ZOO = load_zoo(ZOO_FOLDER)
BASE = ZOO["base"].load()
QUERY, VALUE = (f"model.layers.2.self_attn.{part}_proj.weight" for part in "qv")


def file_of(name, version=0, **options):
    model = ZOO[name].load()
    return llama2c_file(model.config, model.tensors, version=version, **options)


def exported(name, version=0, **options):
    model = ZOO[name].load()
    files = {"model.bin": file_of(name, version, **options)}
    if model.tokenizer is not None:
        files["tokenizer.json"] = model.tokenizer.encode()
    return MemorySource(files, name=f"{name}-{version}")


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("name", ["base", "tied-1"])
def test_all_tensors_are_the_original_bit_for_bit(version, name):
    original = ZOO[name].load()
    model = mk.open_model(exported(name, version))
    assert model.weights.format == "llama2.c"
    assert model.architecture.family == "llama"
    assert model.architecture.unknown == ()
    assert set(model.index) == set(original.tensors)
    for tensor, array in original.tensors.items():
        np.testing.assert_array_equal(model.tensor(tensor), array, strict=True)


def test_sizes_are_those_of_the_header():
    config = config_of(mk.open_model(exported("base")))
    wanted = ("hidden_size", "num_attention_heads", "num_key_value_heads", "tie_word_embeddings")
    assert [config[key] for key in wanted] == [96, 6, 2, False]


@pytest.mark.parametrize("group", [32, 48, 96])
def test_codes_are_what_their_groups_say(group):
    """A line of 160 is not a whole number of groups: they span its end."""
    model = mk.open_model(exported("base", 2, group=group))
    down = "model.layers.1.mlp.down_proj.weight"
    codes, scales = q80(BASE.tensors[down], group)
    expected = (codes.astype(np.float32) * scales[:, None]).reshape(96, 160)
    np.testing.assert_array_equal(model.tensor(down), expected)
    np.testing.assert_array_equal(model.tensor(down, rows=[9, 4, 5]), expected[[9, 4, 5]])
    codes, scales = q80(meta_rows(BASE.tensors[QUERY], 16), group)
    stored = (codes.astype(np.float32) * scales[:, None]).reshape(96, 96)
    np.testing.assert_array_equal(meta_rows(model.tensor(QUERY), 16), stored)
    np.testing.assert_array_equal(model.tensor("model.norm.weight"), BASE.tensors["model.norm.weight"])


def test_rows_of_queries_cost_only_their_bytes():
    model = mk.open_model(exported("base"))
    np.testing.assert_array_equal(model.tensor(QUERY, rows=[40, 3]), BASE.tensors[QUERY][[40, 3]])
    plan = model.plan([mk.TensorSlice.scattered(QUERY, [3, 40])])
    assert plan.bytes_needed == 2 * 96 * 4
    assert model.plan([mk.TensorSlice.whole(QUERY)]).n_requests == 1
    assert model.index[VALUE].storage is None


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_exported_copy_is_known(version):
    result = mk.compare(candidate=exported("base", version), base=MemorySource(BASE.files(), name="base"))
    assert result.verdict.conclusion is Conclusion.SHARED
    assert version == 2 or result.relation.kind == "precision-copy"


@pytest.mark.parametrize("version", [0, 2])
def test_an_exported_stranger_stays_one(version):
    result = mk.compare(candidate=exported("twin-1", version), base=MemorySource(BASE.files(), name="base"))
    assert result.verdict.conclusion is Conclusion.NO_EVIDENCE


def test_over_a_network_the_header_costs_some_bytes():
    files = {"stories.bin": file_of("base")}
    with (
        HubServer({"org/model": files}) as hub,
        mk.open_model("org/model", FetchOptions(endpoint=hub.url)) as model,
    ):
        assert model.architecture.n_layers == 4
        assert model.totals().bytes_fetched < 300
        model.tensor(VALUE, rows=slice(1, 3))
        assert model.totals().bytes_fetched < 300 + 2 * 96 * 4


# -- hostile -------------------------------------------------------------------------------------------

TINY = {
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 6,
    "max_position_embeddings": 4,
}


def tiny_file(version):
    rng = np.random.default_rng(0)
    layer = "model.layers.0."
    shapes = {
        "model.embed_tokens": (6, 8),
        "model.norm": (8,),
        f"{layer}input_layernorm": (8,),
        f"{layer}post_attention_layernorm": (8,),
        f"{layer}self_attn.q_proj": (8, 8),
        f"{layer}self_attn.k_proj": (4, 8),
        f"{layer}self_attn.v_proj": (4, 8),
        f"{layer}self_attn.o_proj": (8, 8),
        f"{layer}mlp.gate_proj": (12, 8),
        f"{layer}mlp.up_proj": (12, 8),
        f"{layer}mlp.down_proj": (8, 12),
    }
    tensors = {f"{name}.weight": rng.normal(size=shape).astype("<f4") for name, shape in shapes.items()}
    return llama2c_file(TINY, tensors, version=version, group=8)


FILES = {version: tiny_file(version) for version in (0, 1, 2)}


@pytest.mark.more
@given(seed=st.integers(0, 2**32), version=st.sampled_from([0, 1, 2]))
@settings(max_examples=400, deadline=None)
def test_spoilt_files_are_judged(seed, version):
    judged(spoilt(FILES[version], random.Random(seed)))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_unspoilt_file_is_a_model_and_any_cut_is_none(version):
    assert judged(FILES[version])
    assert not any(judged(FILES[version][:n]) for n in range(0, len(FILES[version]), 41))
    assert not judged(FILES[version] + b"\0")


def test_all_scales_at_the_end_are_refused():
    """Files of the first days of version 2 have the same length."""
    data = bytearray(FILES[2])
    start = 256 + 4 * 3 * 8 + 48
    data[start : start + 24] = np.full(6, -1.0, "<f4").tobytes()
    with pytest.raises(UnsupportedFormat, match="expected the scales of the embedding after it"):
        _ = mk.open_model(MemorySource({"model.bin": bytes(data)})).index


def with_sizes(*sizes):
    return np.array(sizes, "<i4").tobytes() + FILES[0][28:]


BAD = {
    "negative sizes": (with_sizes(-8, 12, 1, 2, 1, 6, 4), UnsupportedFormat, "sizes that no model has"),
    "billions of layers": (with_sizes(8, 12, 2**30, 2, 1, 6, 4), UnsupportedFormat, "sizes that no model"),
    "heads that do not divide": (with_sizes(8, 12, 1, 3, 1, 6, 4), UnsupportedFormat, "3 heads"),
    "another length": (FILES[0] + b"1234", UnsupportedFormat, "expected .* bytes for the sizes"),
    "a version to come": (
        FILES[1][:4] + b"\x07\0\0\0" + FILES[1][8:],
        UnsupportedFormat,
        "version 1 or 2 of llama2.c, got 7",
    ),
    "groups of nothing": (FILES[2][:37] + bytes(4) + FILES[2][41:], HeaderError, "groups of 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said(case):
    data, error, message = BAD[case]
    with pytest.raises(error, match=message):
        read_as(FORMAT, data)
