"""CTranslate2: names, projections taken apart, codes, aliases, hostile files, and what is read of them."""

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.hostile_files import config_of, judged, read_as, spoilt
from tests.formats.small_files import ct2_file, ct2_int8, ct2_int16, ct2_llama, ct2_text
from tests.places import FORMATS
from tests.places import ZOO as ZOO_FOLDER
from tests.support import HubServer
from tests.support.amount import every

import modelkin as mk
from modelkin.casework.lab import load_zoo
from modelkin.casework.lab.checkpoint import read_safetensors
from modelkin.comparison.verdict import Conclusion
from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.formats.ctranslate2 import FORMAT
from modelkin.options import FetchOptions
from modelkin.source import MemorySource

ZOO = load_zoo(ZOO_FOLDER)
BASE = ZOO["base"].load()


def converted(name, kind="f32", **extra):
    model = ZOO[name].load()
    files = {"model.bin": ct2_llama(model.config, model.tensors, kind=kind), "vocabulary.json": b"[]"}
    if model.tokenizer is not None:
        files["tokenizer.json"] = model.tokenizer.encode()
    return MemorySource({**files, **extra}, name=f"{name}-{kind}")


def opened(data, name="model.bin"):
    return mk.open_model(MemorySource({name: data, "vocabulary.txt": b""}))


def golden(name):
    return mk.open_model(str(FORMATS / name))


class TestGolden:
    """Files that the library's own converter wrote."""

    @pytest.mark.parametrize("model", ["whisper", "llama"])
    def test_floats_are_the_original_bit_for_bit(self, model):
        original = read_safetensors(FORMATS / f"ctranslate2-{model}.safetensors")
        read = golden(f"ctranslate2-{model}-float32.bin")
        assert set(read.index) == set(original)
        for name, array in original.items():
            np.testing.assert_array_equal(read.tensor(name), array, strict=True)

    @pytest.mark.parametrize(("kind", "dtype"), [("float16", np.float16), ("bfloat16", None)])
    def test_half_precision_is_rounded_once(self, kind, dtype):
        original = read_safetensors(FORMATS / "ctranslate2-whisper.safetensors")
        read = golden(f"ctranslate2-whisper-{kind}.bin")
        for name, array in original.items():
            if dtype is None:
                assert np.abs(read.tensor(name) - array).max() <= np.abs(array).max() / 256
            else:
                np.testing.assert_array_equal(read.tensor(name), array.astype(dtype).astype(np.float32))

    @pytest.mark.parametrize("model", ["whisper", "llama"])
    def test_int8_is_what_its_codes_and_scales_say(self, model):
        original = read_safetensors(FORMATS / f"ctranslate2-{model}.safetensors")
        read = golden(f"ctranslate2-{model}-int8.bin")
        n_coded = 0
        for name, array in original.items():
            if read.index[name].dtype != "INT8":
                continue
            codes, scales = ct2_int8(array)
            back = (np.float32(1) / scales).reshape(-1, *[1] * (array.ndim - 1))
            np.testing.assert_array_equal(read.tensor(name), codes.astype(np.float32) * back)
            n_coded += 1
        assert n_coded >= 10

    def test_int16_is_what_its_codes_and_scale_say(self):
        original = read_safetensors(FORMATS / "ctranslate2-llama.safetensors")
        read = golden("ctranslate2-llama-int16.bin")
        name = "model.layers.1.mlp.down_proj.weight"
        assert read.index[name].dtype == "INT16"
        codes, scale = ct2_int16(original[name])
        np.testing.assert_array_equal(read.tensor(name), codes.astype(np.float32) * (np.float32(1) / scale))

    def test_whisper_is_understood(self):
        read = golden("ctranslate2-whisper-int8.bin")
        assert read.architecture.family == "whisper"
        assert read.architecture.unknown == ()
        assert config_of(read)["decoder_attention_heads"] == 2
        assert "no bias" in str(read.weights.notes[0])

    def test_gpt2_keeps_its_names(self):
        read = golden("ctranslate2-gpt2-float32.bin")
        assert read.architecture.family is None
        assert "is not known: names are as stored" in str(read.weights.notes[0])
        assert "decoder.layer_0.ffn.linear_0.weight" in read.index


def test_a_decoder_like_llama_is_taken_apart():
    model = mk.open_model(converted("base"))
    assert model.weights.format == "ctranslate2"
    assert model.architecture.family == "llama"
    assert model.architecture.unknown == ()
    assert config_of(model)["num_key_value_heads"] == 2
    for name, array in BASE.tensors.items():
        np.testing.assert_array_equal(model.tensor(name), array)


def test_the_config_of_ctranslate2_counts_less_than_what_the_weights_say():
    model = mk.open_model(converted("base", **{"config.json": b'{"unk_token": "<unk>"}'}))
    assert config_of(model)["model_type"] == "llama"
    assert config_of(model)["unk_token"] == "<unk>"


def test_rows_of_int8_cost_only_their_codes_and_scales():
    model = mk.open_model(converted("base", "int8"))
    name = "model.layers.1.mlp.up_proj.weight"
    whole = model.tensor(name)
    np.testing.assert_array_equal(model.tensor(name, rows=[7, 3, 150]), whole[[7, 3, 150]])
    plan = model.plan([mk.TensorSlice.rows(name, 2, 4)])
    assert plan.bytes_needed == 2 * (96 + 4)
    assert model.index[name].n_bytes == 160 * (96 + 4)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_all_versions_are_read(version):
    weight = np.arange(12, dtype="<f4").reshape(3, 4)
    aliases = {"b/weight": "a/weight"} if version >= 3 else {}
    read = opened(ct2_file({"a/weight": weight}, aliases, version=version, spec="Other"))
    assert set(read.index) == ({"a.weight", "b.weight"} if aliases else {"a.weight"})
    np.testing.assert_array_equal(read.tensor("a.weight"), weight)


def test_int16_without_a_scale_has_the_old_one():
    codes = np.array([[1000, -500]], "<i2")
    read = opened(ct2_file({"a/weight": codes}, version=3))
    np.testing.assert_allclose(read.tensor("a.weight"), [[1.0, -0.5]], rtol=1e-7)


def test_a_scale_of_zero_is_read_as_it_is():
    variables = {"a/weight": np.array([[1, -1], [2, 2]], "i1"), "a/weight_scale": np.array([0, 2], "<f4")}
    values = opened(ct2_file(variables)).tensor("a.weight")
    assert np.isinf(values[0]).all()
    np.testing.assert_array_equal(values[1], [1, 1])


# -- against the originals -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", every(2, ["f32", "f16", "int8", "int16"]))
def test_a_converted_copy_is_known(kind):
    result = mk.compare(candidate=converted("base", kind), base=MemorySource(BASE.files("BF16"), name="base"))
    assert result.verdict.conclusion is Conclusion.SHARED
    assert kind.startswith("int") or result.relation.kind == "precision-copy"


def test_a_converted_fine_tune_is_known():
    result = mk.compare(
        candidate=converted("finetune-light", "int8"), base=MemorySource(BASE.files("BF16"), name="base")
    )
    assert result.verdict.conclusion is Conclusion.SHARED


@pytest.mark.more
@pytest.mark.parametrize("kind", ["f16", "int8", "int16"])
def test_a_converted_stranger_stays_one(kind):
    result = mk.compare(
        candidate=converted("twin-1", kind), base=MemorySource(BASE.files("BF16"), name="base")
    )
    assert result.verdict.conclusion is Conclusion.NO_EVIDENCE


# -- over a network ------------------------------------------------------------------------------------


def wide_model(n_layers=8, width=256):
    rng = np.random.default_rng(0)
    tensors = {"model.norm.weight": rng.normal(size=width)}
    tensors["model.embed_tokens.weight"] = rng.normal(size=(2000, width))
    for layer in range(n_layers):
        here = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{here}{name}.weight"] = rng.normal(size=width)
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"):
            tensors[f"{here}{name}.weight"] = rng.normal(size=(width, width))
        for name in ("mlp.gate_proj", "mlp.up_proj"):
            tensors[f"{here}{name}.weight"] = rng.normal(size=(2 * width, width))
        tensors[f"{here}mlp.down_proj.weight"] = rng.normal(size=(width, 2 * width))
    config = {"num_hidden_layers": n_layers, "num_attention_heads": 4, "num_key_value_heads": 4}
    return ct2_llama(config, {name: array.astype("<f4") for name, array in tensors.items()})


def test_over_a_network_little_is_read_and_layers_are_foreseen():
    data = wide_model()
    with HubServer({"org/model": {"model.bin": data, "vocabulary.json": b"[]"}}) as hub:
        model = mk.open_model("org/model", FetchOptions(endpoint=hub.url))
        with model:
            assert model.architecture.n_layers == 8
            totals = model.totals()
            assert totals.bytes_fetched < 0.05 * len(data)
            # Without foresight there would be one request for each of the 8 * 5 large matrices.
            assert totals.requests < 50
            n_before = totals.bytes_fetched
            rows = model.tensor("model.layers.5.mlp.up_proj.weight", rows=slice(3, 5))
            assert rows.shape == (2, 256)
            assert model.totals().bytes_fetched - n_before == 2 * 256 * 4


# -- hostile -------------------------------------------------------------------------------------------

SMALL = ct2_file(
    {
        "encoder/a/weight": np.arange(6, dtype="i1").reshape(2, 3),
        "encoder/a/weight_scale": np.ones(2, "<f4"),
        "encoder/b/bias": np.ones(3, "<f2"),
        "encoder/num_heads": np.array(2, "<i2"),
    },
    {"encoder/c/bias": "encoder/b/bias"},
    spec="OddSpec",
)
LLAMA = ct2_llama(
    {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1},
    {
        "model.embed_tokens.weight": np.ones((5, 4), "<f4"),
        "model.norm.weight": np.ones(4, "<f4"),
        "model.layers.0.input_layernorm.weight": np.ones(4, "<f4"),
        "model.layers.0.post_attention_layernorm.weight": np.ones(4, "<f4"),
        "model.layers.0.self_attn.q_proj.weight": np.ones((4, 4), "<f4"),
        "model.layers.0.self_attn.k_proj.weight": np.ones((2, 4), "<f4"),
        "model.layers.0.self_attn.v_proj.weight": np.ones((2, 4), "<f4"),
        "model.layers.0.self_attn.o_proj.weight": np.ones((4, 4), "<f4"),
        "model.layers.0.mlp.gate_proj.weight": np.ones((6, 4), "<f4"),
        "model.layers.0.mlp.up_proj.weight": np.ones((6, 4), "<f4"),
        "model.layers.0.mlp.down_proj.weight": np.ones((4, 6), "<f4"),
    },
    kind="int8",
)


@pytest.mark.more
@given(seed=st.integers(0, 2**32))
@settings(max_examples=400, deadline=None)
@pytest.mark.parametrize("data", [SMALL, LLAMA], ids=["odd", "llama"])
def test_spoilt_files_are_judged(data, seed):
    judged(spoilt(data, random.Random(seed)))


def test_some_spoilt_files_can_still_be_read():
    results = [judged(spoilt(SMALL, random.Random(seed))) for seed in range(300)]
    assert 3 < sum(results) < 290


@pytest.mark.parametrize("n_bytes", range(0, len(SMALL), 7))
def test_every_cut_file_is_refused(n_bytes):
    assert not judged(SMALL[:n_bytes])


def u32(number):
    return number.to_bytes(4, "little")


BAD = {
    "a version that does not exist": (u32(9) + SMALL[4:], UnsupportedFormat, "of version 1 to 7, got 9"),
    "bytes behind the end": (SMALL + b"x", HeaderError, "expected the end after all variables"),
    "more variables than a file can have": (
        u32(6) + ct2_text("S") + u32(1) + u32(2**32 - 1),
        HeaderError,
        "at most 100,000 variables",
    ),
    "a shape that does not fit its bytes": (
        SMALL.replace(b"\x02\x02\0\0\0\x03\0\0\0\x01", b"\x02\x02\0\0\0\x04\0\0\0\x01"),
        HeaderError,
        r"expected 8 bytes for \(2, 4\), got 6",
    ),
    "a type that does not exist": (
        SMALL.replace(b"\x03\0\0\0\x01\x06\0\0\0", b"\x03\0\0\0\x09\x06\0\0\0"),
        UnsupportedFormat,
        "unknown type 9",
    ),
    "a name twice": (
        ct2_file({"a/weight": np.ones((1, 1), "<f4"), "b/weight": np.ones((1, 1), "<f4")}).replace(
            b"b/weight", b"a/weight"
        ),
        HeaderError,
        "'a/weight' occurs twice",
    ),
    "codes without scales": (
        ct2_file({"a/weight": np.ones((1, 1), "i1")}),
        HeaderError,
        "its scales are missing",
    ),
    "too few scales": (
        ct2_file({"a/weight": np.ones((2, 1), "i1"), "a/weight_scale": np.ones(1, "<f4")}),
        HeaderError,
        r"expected \(2,\) scales in F32, got \(1,\) in F32",
    ),
    "an invisible name": (
        ct2_file({"a\x1b/weight": np.ones((1, 1), "<f4")}),
        HeaderError,
        "invisible character",
    ),
    "an alias that hides a variable": (
        ct2_file({"a/weight": np.ones((1, 1), "<f4")}, {"a/weight": "a/weight"}),
        HeaderError,
        "alias 'a/weight' occurs twice",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said(case):
    data, error, message = BAD[case]
    with pytest.raises(error, match=message):
        read_as(FORMAT, data)


def test_a_folder_is_recognised_by_its_vocabulary():
    files = {"model.bin": SMALL, "config.json": json.dumps({}).encode()}
    assert mk.open_model(MemorySource({**files, "vocabulary.txt": b""})).weights.format == "ctranslate2"
