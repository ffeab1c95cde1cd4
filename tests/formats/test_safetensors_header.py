from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.hostile.builders import entry, header, parse, with_length

from modelkin.formats.safetensors import header_length, parse_header
from modelkin.tensors import DTYPES, decode

WRITABLE = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "U16": np.uint16,
    "I16": np.int16,
    "U32": np.uint32,
    "I32": np.int32,
    "U64": np.uint64,
    "I64": np.int64,
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
    "C64": np.complex64,
    "BF16": ml_dtypes.bfloat16,
}


def tensors_of(file: bytes):
    end = header_length(file[:8], file="m.safetensors", file_size=len(file))
    return parse_header(file[:end], file="m.safetensors", file_size=len(file))


class TestAgainstTheLibrary:
    @pytest.mark.parametrize("name", WRITABLE)
    def test_what_it_writes_is_read_back(self, name: str):
        wide = np.random.default_rng(3).integers(0, 2, size=(4, 3))
        array = wide.astype(WRITABLE[name])
        file = safetensors.numpy.save({"w": array})
        (info,) = tensors_of(file).tensors
        assert (info.name, info.dtype, info.shape) == ("w", name, (4, 3))
        values = decode(file[info.start : info.stop], info.dtype, info.n_elements).reshape(info.shape)
        np.testing.assert_array_equal(values, wide.astype(values.dtype))

    @given(
        shapes=st.dictionaries(
            st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20),
            st.lists(st.integers(0, 4), max_size=4),
            max_size=6,
        ),
        # Not empty: without tensors, version 0.8.0 writes `{},"__metadata__":{}}` for that, which is no JSON.
        metadata=st.none()
        | st.dictionaries(st.text(max_size=9), st.text(max_size=9), min_size=1, max_size=3),
    )
    def test_any_shapes_and_metadata_are_read_back(self, shapes, metadata):
        shapes.pop("__metadata__", None)
        arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        parsed = tensors_of(safetensors.numpy.save(arrays, metadata=metadata))
        assert {info.name: list(info.shape) for info in parsed.tensors} == shapes
        assert parsed.metadata == (metadata or {})

    def test_each_tensor_is_found_at_its_own_bytes(self):
        rng = np.random.default_rng(4)
        arrays = {f"layer.{i}": rng.normal(size=(i, 3)).astype(np.float32) for i in range(5)}
        file = safetensors.numpy.save(arrays)
        for info in tensors_of(file).tensors:
            values = decode(file[info.start : info.stop], info.dtype, info.n_elements)
            np.testing.assert_array_equal(values.reshape(info.shape), arrays[info.name])


def test_tensors_come_in_the_order_of_their_bytes():
    head = header(
        {"z": entry("U8", [4], [0, 4]), "a": entry("U8", [2], [6, 8]), "m": entry("U8", [2], [4, 6])}
    )
    assert [info.name for info in parse(head, data_bytes=8).tensors] == ["z", "m", "a"]


def test_offsets_count_from_the_beginning_of_the_file():
    head = header({"a": entry("U8", [4], [0, 4])})
    (info,) = parse(head, data_bytes=4).tensors
    assert (info.start, info.stop) == (len(head), len(head) + 4)


@pytest.mark.parametrize("padding", ["", " ", "       "])
def test_padding_with_spaces_and_unaligned_data_are_accepted(padding: str):
    head = with_length('{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}' + padding)
    assert parse(head, data_bytes=4).tensors[0].start == len(head)


def test_scalars_and_empty_tensors_are_accepted():
    head = header(
        {
            "empty": entry("F32", [0, 5], [0, 0]),
            "scalar": entry("F32", [], [0, 4]),
            "between": entry("F32", [0], [4, 4]),
            "last": entry("U8", [1], [4, 5]),
        }
    )
    assert len(parse(head, data_bytes=5).tensors) == 4


def test_a_file_without_tensors_is_accepted():
    assert parse(with_length("{}"), data_bytes=0).tensors == ()


def test_metadata_may_be_null():
    assert parse(with_length('{"__metadata__":null}'), data_bytes=0).metadata == {}


def test_the_largest_rank_is_accepted():
    assert parse(header({"a": entry("U8", [1] * 16, [0, 1])}), data_bytes=1).tensors[0].shape == (1,) * 16


def test_a_name_in_another_script_is_accepted():
    assert parse(header({"слой.重み": entry("U8", [1], [0, 1])}), data_bytes=1).tensors[0].name == "слой.重み"


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_every_dtype_is_accepted(name: str):
    n_bytes = DTYPES[name].bits
    (info,) = parse(header({"a": entry(name, [2, 4], [0, n_bytes])}), data_bytes=n_bytes).tensors
    assert (info.dtype, info.n_elements) == (name, 8)


@given(
    order=st.permutations(["dtype", "shape", "data_offsets"]),
    space=st.text(" \t\r\n", max_size=3),
    shape=st.lists(st.integers(0, 5), max_size=5),
)
def test_order_of_fields_and_spacing_change_nothing(order, space, shape):
    n_bytes = int(np.prod(shape, dtype=int)) * 2
    fields = {"dtype": "BF16", "shape": shape, "data_offsets": [0, n_bytes]}
    text = json.dumps(
        {"a": {key: fields[key] for key in order}}, separators=(f"{space},{space}", f"{space}:{space}")
    )
    (info,) = parse(with_length(text), data_bytes=n_bytes).tensors
    assert (info.dtype, list(info.shape), info.n_bytes) == ("BF16", shape, n_bytes)
