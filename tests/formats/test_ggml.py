"""Files of whisper.cpp: names, shapes, tokens, quantised blocks, hostile files, and what is read of them."""

import random

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize, quantize
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.hostile_files import config_of, judged, read_as, spoilt
from tests.formats.small_files import GGML_SIZES, ggml_file, ggml_whisper, whisper_shapes
from tests.support import HubServer

import modelkin as mk
from modelkin.errors import HeaderError, UnsupportedFormat
from modelkin.formats.ggml import FORMAT
from modelkin.formats.whisper_names import whisper_name
from modelkin.options import FetchOptions
from modelkin.source import MemorySource

SMALL, ARRAYS = ggml_whisper()
WIDE = (300, 100, 256, 4, 3, 50, 256, 4, 3, 80)


def opened(data, name="ggml-tiny.bin"):
    return mk.open_model(MemorySource({name: data}))


def test_every_tensor_has_its_name_and_numbers():
    model = opened(SMALL)
    assert model.weights.format == "ggml"
    assert model.architecture.family == "whisper"
    assert model.architecture.unknown == ()
    for name, array in ARRAYS.items():
        expected = array[:, 0] if name.endswith(("conv1.bias", "conv2.bias")) else array
        np.testing.assert_array_equal(model.tensor(whisper_name(name)), expected.astype(np.float32))


def test_sizes_are_those_of_the_header():
    config = config_of(opened(SMALL))
    assert (config["model_type"], config["d_model"], config["vocab_size"]) == ("whisper", 8, 40)
    assert (config["encoder_layers"], config["decoder_attention_heads"]) == (1, 2)


def test_tokens_are_had_as_a_tokenizer():
    model = opened(SMALL)
    assert "tokenizer.json" in model.file_names()
    assert model.tokenizer.vocab_size == 3


@pytest.mark.parametrize("kind", ["Q4_0", "Q5_1", "Q8_0", "Q4_K"])
def test_quantised_blocks_are_what_ggml_says(kind):
    known = gguf.GGMLQuantizationType[kind]
    stored, expected = {}, {}
    rng = np.random.default_rng(1)
    for name, shape in whisper_shapes(WIDE).items():
        array = rng.normal(size=shape).astype("<f4")
        coded = len(shape) == 2 and shape[1] == 256
        if not coded:
            stored[name] = (0, shape, array.tobytes())
            continue
        if kind == "Q4_K":  # its codes can be anything; gguf cannot write them
            packed = rng.integers(0, 255, (shape[0], 144), dtype=np.uint8)
            packed[:, :4] = np.array([0.5, 0.25], "<f2").view(np.uint8)
        else:
            packed = quantize(array, known)
        stored[name] = (known.value, shape, packed.tobytes())
        expected[whisper_name(name)] = dequantize(packed, known)
    model = opened(ggml_file(stored, sizes=WIDE, ftype=2007))
    assert len(expected) > 20
    for name, values in expected.items():
        assert model.index[name].dtype == kind
        np.testing.assert_array_equal(model.tensor(name), values)
        np.testing.assert_array_equal(model.tensor(name, rows=[5, 2]), values[[5, 2]])


def test_blocks_of_the_early_layout_are_refused():
    data = ggml_file({"a.weight": (2, (1, 32), bytes(18))}, ftype=1002)
    with pytest.raises(UnsupportedFormat, match="blocks in an early layout"):
        _ = opened(data).index


def test_over_a_network_little_is_read():
    data, _ = ggml_whisper(sizes=(3000, 100, 256, 4, 6, 50, 256, 4, 6, 80))
    with (
        HubServer({"org/model": {"ggml-big.bin": data}}) as hub,
        mk.open_model("org/model", FetchOptions(endpoint=hub.url)) as model,
    ):
        assert model.architecture.n_layers == 6
        assert model.totals().bytes_fetched < 0.08 * len(data)
        before = model.totals().bytes_fetched
        assert model.tensor("model.decoder.layers.4.fc1.weight", rows=slice(3, 5)).shape == (2, 256)
        assert model.totals().bytes_fetched - before == 2 * 256 * 2


def test_the_largest_of_several_files_is_taken_and_that_is_said():
    larger, _ = ggml_whisper(sizes=(60, *GGML_SIZES[1:]))
    model = mk.open_model(MemorySource({"ggml-a.bin": SMALL, "ggml-b.bin": larger}))
    assert config_of(model)["vocab_size"] == 60
    assert tuple(map(str, model.weights.notes)) == ("other whisper.cpp files next to it: 1",)


# -- hostile -------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_spoilt_files_are_judged(seed):
    judged(spoilt(SMALL, random.Random(seed)), name="ggml.bin")


def test_some_spoilt_files_can_still_be_read():
    results = [judged(spoilt(SMALL, random.Random(seed)), name="ggml.bin") for seed in range(100)]
    assert 3 < sum(results) < 97


@pytest.mark.parametrize("n_bytes", range(0, 400, 9))
def test_every_cut_header_is_refused(n_bytes):
    assert not judged(SMALL[:n_bytes], name="ggml.bin")


ONE = {"a.weight": (0, (2, 3), bytes(24))}
BAD = {
    "another magic": (b"fmgg" + SMALL[4:], "which begins with"),
    "sizes of no Whisper": (ggml_file(ONE, sizes=(0,) * 10), "not those of a Whisper"),
    "huge filters": (
        ggml_file(ONE, filters=(0, 0)).replace(bytes(8), b"\xff\xff\xff\x7f" * 2, 1),
        "mel filters",
    ),
    "a long token": (
        ggml_file(ONE).replace(b"\x04\0\0\0\x01\0\0\0a", b"\x04\0\0\0\xff\xff\xff\x7fa"),
        "a token of at most 4096 bytes",
    ),
    "no tensors": (ggml_file({}), "expected tensors after the tokens"),
    "no axes": (ggml_file({"a": (0, (), b"")}), "expected 1 to 4 axes, got 0"),
    "a size of zero": (ggml_file({"a": (0, (0, 2), b"")}), "expected sizes of at least 1"),
    "a type that is not read": (ggml_file({"a": (99, (1, 32), b"")}), "ggml type 99 cannot be read"),
    "a name twice": (ggml_file(ONE) + ggml_file(ONE)[-52:], "'a.weight' occurs twice"),
    "lines that fill no blocks": (
        ggml_file({"a": (8, (1, 33), bytes(40))}, ftype=2007),
        "lines of 33 numbers do not fill blocks of 32",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said(case):
    data, message = BAD[case]
    with pytest.raises((HeaderError, UnsupportedFormat), match=message):
        read_as(FORMAT, data)
