"""The header of a GGUF file: what is read, in how many steps, and what is refused."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import modelkin as mk
from modelkin.errors import FormatError, HeaderError, UnsupportedFormat
from modelkin.formats.gguf import header as header_module
from modelkin.formats.gguf import reading as reading_module
from modelkin.formats.gguf import tensors as tensors_module
from modelkin.formats.gguf.header import parse_header
from modelkin.source import MemorySource

from .gguf_bytes import ARRAY, STRING, GgufBytes, array, bare_array, scalar, small, string, tensor

MODEL = small().build()


def parsed(data, **options):
    return parse_header(data, file="m.gguf", file_size=options.get("file_size", len(data)))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (0, 200),
        (1, -5),
        (2, 60000),
        (3, -3),
        (4, 1 << 31),
        (5, -9),
        (6, 0.5),
        (7, True),
        (10, 1 << 63),
        (11, -1),
    ],
)
def test_numbers_of_every_type_are_read(kind, value):
    header = parsed(GgufBytes(keys={"k": scalar(kind, value)}).build())
    assert header.metadata["k"] == value
    assert type(header.metadata["k"]) is type(value)


def test_floats_are_as_short_as_they_were_written():
    header = parsed(GgufBytes(keys={"k": scalar(6, 1e-6), "d": scalar(12, 0.1)}).build())
    assert (header.metadata["k"], header.metadata["d"]) == (1e-6, 0.1)


def test_strings_and_arrays_are_read():
    metadata = parsed(MODEL).metadata
    assert metadata.architecture == "llama"
    assert list(metadata.array("general.tags").strings()) == ["a", "b"]
    assert list(metadata.array("tokenizer.ggml.tokens").strings())[1] == "▁a"
    np.testing.assert_array_equal(metadata.array("tokenizer.ggml.scores").numbers(), [0, -1, -2, 0])
    assert metadata.of_layer("llama.attention.head_count", 1) == 2


def test_long_arrays_of_no_use_are_not_kept(monkeypatch):
    monkeypatch.setattr(header_module, "KEPT_BYTES", 8)
    metadata = parsed(
        GgufBytes(keys={"long": array(4, range(10)), "tokenizer.x": array(4, range(10))}).build()
    ).metadata
    assert metadata.array("long").numbers() is None
    assert metadata.array("long").count == 10
    np.testing.assert_array_equal(metadata.array("tokenizer.x").numbers(), range(10))


def test_shapes_are_turned_round_and_offsets_count_from_the_beginning():
    header = parsed(MODEL)
    embedding = header.tensors[0]
    assert (embedding.name, embedding.type.name, embedding.shape) == ("token_embd.weight", "Q8_0", (4, 32))
    start = -(-len(small().header()) // 32) * 32
    assert (embedding.start, embedding.stop) == (start, start + 4 * 34)


def test_a_stated_alignment_is_honoured():
    made = small()
    made.keys["general.alignment"] = scalar(4, 256)
    made.tensors = [tensor("a", (4,), 0, 256)]
    made.alignment = 256
    header = parsed(made.build())
    assert header.tensors[0].start % 256 == 0
    assert header.tensors[0].start == len(made.build()) - len(made.data) + 256


@pytest.mark.parametrize("version", [2, 3])
def test_versions_two_and_three_are_read(version):
    made = small()
    made.version = version
    assert len(parsed(made.build()).tensors) == 3


@given(length=st.integers(0, len(small().header()) - 1))
def test_a_beginning_asks_for_more(length):
    assert parsed(MODEL[:length], file_size=len(MODEL)) is None


@given(length=st.integers(0, len(MODEL) - 1))
def test_a_file_that_ends_too_soon_is_refused(length):
    with pytest.raises(HeaderError, match=r"the end|at most|ends at byte|behind the end"):
        parsed(MODEL[:length])


def refused(data, match, error=HeaderError):
    with pytest.raises(error, match=match):
        parsed(data)


def changed(**parts):
    made = small()
    for name, value in parts.items():
        setattr(made, name, value)
    return made.build()


def with_key(value):
    return GgufBytes(keys={"k": value}, data=b"\0" * 4096).build()


def test_another_format_is_refused():
    refused(b"GGML" + MODEL[4:], "begins with b'GGML'")


@pytest.mark.parametrize("version", [0, 1, 4])
def test_other_versions_are_refused(version):
    match = "big-endian" if version == 0 else f"version 2 or 3, got {version}"
    refused(changed(version=version), match, UnsupportedFormat)


def test_big_endian_files_are_refused_by_name():
    data = b"GGUF" + struct.pack(">IQQ", 3, 0, 0) + b"\0" * 64
    refused(data, "big-endian", UnsupportedFormat)


@pytest.mark.parametrize("count", [1 << 63, 1 << 40, 1 << 20])
def test_absurd_counts_are_refused_before_anything_is_read(count):
    refused(changed(n_tensors=count), "at most .* tensors")
    refused(changed(n_keys=count), "at most .* keys")
    refused(with_key(struct.pack("<IIQ", ARRAY, 4, count)), "at most .* values of 'k'")
    refused(with_key(struct.pack("<IIQ", ARRAY, STRING, count)), "at most .* values of 'k'")
    refused(with_key(struct.pack("<IIQ", ARRAY, ARRAY, count)), "at most .* values of 'k'")


@pytest.mark.parametrize("length", [(1 << 64) - 1, 1 << 63, 1 << 40, 5000])
def test_strings_behind_the_end_are_refused(length):
    refused(with_key(struct.pack("<IQ", STRING, length)), "at most|up to the end")
    refused(with_key(struct.pack("<IIQQ", ARRAY, STRING, 2, length)), "beyond the end of the file")


def test_unknown_types_of_values_are_refused():
    refused(with_key(struct.pack("<I", 13)), "type of 'k' to be 0 to 12, got 13")
    refused(with_key(struct.pack("<IIQ", ARRAY, 99, 1)), "type of the array 'k' to be 0 to 12, got 99")


def test_deep_nesting_is_refused():
    inner = bare_array(4, [1])
    for _ in range(6):
        inner = bare_array(ARRAY, [inner])
    refused(with_key(struct.pack("<I", ARRAY) + inner), "nested more than 4 deep")


def test_many_nested_arrays_are_refused(monkeypatch):
    monkeypatch.setattr(header_module, "MAX_NESTED", 3)
    refused(with_key(array(ARRAY, [bare_array(4, [])] * 4)), "at most 3 arrays inside arrays")


def test_a_key_or_a_name_that_is_there_twice_is_refused():
    made = small()
    made.tensors = [made.tensors[0], made.tensors[0]]
    refused(made.build(), "two tensors have the same name")
    twice = GgufBytes(keys={"k": scalar(4, 1)}).header()
    doubled = twice[:16] + struct.pack("<Q", 2) + twice[24:] + twice[24:]
    refused(doubled + b"\0" * 64, "the key 'k' occurs twice")


@pytest.mark.parametrize("name", ["", "a\x1b[31m", "a\u202eb", "x" * 2000])
def test_names_nobody_could_read_are_refused(name):
    made = small()
    made.tensors = [tensor(name, (4,), 0, 0)]
    refused(made.build(), "tensor name")


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        (("t", (4,) * 9, 0, 0), "at most 8 dimensions"),
        (("t", (0, 4), 0, 0), "has the shape 4 x 0"),
        (("t", (1 << 40, 1 << 40), 0, 0), "has the shape"),
        (("t", (33, 1), 8, 0), "whole blocks of 32"),
        (("t", (4,), 0, 7), "not a multiple of 32"),
        (("t", (4,), 0, 1 << 40), "ends at byte"),
        (("t", (1 << 30,), 0, 0), "ends at byte"),
        (("t", (4,), 0, (1 << 64) - 32), "ends at byte"),
    ],
)
def test_tensors_that_cannot_be_there_are_refused(parts, match):
    made = small()
    made.tensors = [tensor(*parts)]
    refused(made.build(), match)


def test_overlapping_tensors_are_refused():
    made = small()
    made.tensors = [tensor("a", (16,), 0, 0), tensor("b", (16,), 0, 32)]
    refused(made.build(), "'a' and 'b' overlap")


@pytest.mark.parametrize(("number", "name"), [(9, r"Q8_1 \(9\)"), (31, "Q4_0_4_4"), (41, "Q1_0"), (77, "77")])
def test_types_that_cannot_be_read_are_named(number, name):
    made = small()
    made.tensors = [tensor("t", (256,), number, 0)]
    refused(made.build(), f"of type {name}", UnsupportedFormat)


@pytest.mark.parametrize(
    "value", [scalar(4, 0), scalar(4, 48), scalar(4, 1 << 30), string("32"), scalar(5, -32)]
)
def test_an_alignment_that_is_none_is_refused(value):
    made = small()
    made.keys["general.alignment"] = value
    refused(made.build(), "expected an alignment")


def test_two_tensors_for_one_name_of_transformers_are_refused():
    made = small()
    made.tensors = [tensor("output_norm.weight", (4,), 0, 0), tensor("model.norm.weight", (4,), 0, 32)]
    with pytest.raises(HeaderError, match=r"two tensors map to 'model.norm.weight'"):
        _ = mk.open_model(MemorySource({"m.gguf": made.build()})).index


def test_rows_too_long_to_be_decoded_are_refused(monkeypatch):
    monkeypatch.setattr(tensors_module, "MAX_LINE", 31)
    with pytest.raises(HeaderError, match="at most 31 numbers, got 32"):
        _ = mk.open_model(MemorySource({"m.gguf": MODEL})).index


def test_absurdly_many_experts_are_refused(monkeypatch):
    monkeypatch.setattr(tensors_module, "MAX_EXPERTS", 3)
    made = small()
    made.keys["llama.expert_count"] = scalar(4, 4)
    made.tensors = [tensor("blk.0.ffn_up_exps.weight", (2, 2, 4), 0, 0)]
    with pytest.raises(HeaderError, match="a stack of up to 3 experts"):
        _ = mk.open_model(MemorySource({"m.gguf": made.build()})).index


def test_a_long_header_is_read_in_steps(monkeypatch):
    monkeypatch.setattr(reading_module, "STEPS", (64, 256, 4096, 8192))
    model = mk.open_model(MemorySource({"m.gguf": MODEL}))
    assert len(model.index) == 3
    assert model.totals().bytes_needed <= 4096


def test_a_header_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(reading_module, "STEPS", (64, 128))
    with pytest.raises(HeaderError, match="expected a header of at most"):
        _ = mk.open_model(MemorySource({"m.gguf": MODEL})).index


# -- whatever a stranger writes --------------------------------------------------------------------------


@pytest.mark.more
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_changed_file_is_read_or_refused_and_nothing_else(data):
    spoiled = bytearray(MODEL)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(small().header()) + 40))
        what = data.draw(st.sampled_from(["byte", "long", "cut", "grow"]))
        if what == "byte":
            spoiled[place : place + 1] = bytes([data.draw(st.integers(0, 255))])
        elif what == "long":
            edge = data.draw(st.sampled_from([0, 1, 255, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 64) - 1]))
            spoiled[place : place + 8] = struct.pack("<Q", edge)
        elif what == "cut":
            del spoiled[place : place + data.draw(st.integers(1, 64))]
        else:
            spoiled[place:place] = data.draw(st.binary(max_size=64))
    model = mk.open_model(MemorySource({"m.gguf": bytes(spoiled)}))
    try:
        for name in model.index:
            model.tensor(name)
        _ = model.config, model.architecture, model.tokenizer
        for name in model.weights.files:
            assert model.weights.files[name]
    except FormatError:
        pass


@settings(max_examples=200, deadline=None)
@given(rest=st.binary(max_size=300))
def test_noise_behind_the_magic_number_is_refused(rest):
    with pytest.raises(FormatError, match=r".+"):
        parse_header(b"GGUF" + rest, file="m.gguf", file_size=4 + len(rest))


@pytest.mark.parametrize("key", ["a\u200bb", "", "x" * 2000, "\x1b[31m"])
def test_an_odd_key_is_stepped_over(key):
    header = parsed(GgufBytes(keys={key: scalar(4, 1), "k": scalar(4, 2)}).build())
    assert [*header.metadata] == ["k"]
