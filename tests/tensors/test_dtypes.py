from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.tensors import DTYPES, decode, encode, raw_bits

NATIVE = {
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
    "F32": np.float32,
    "F64": np.float64,
    "C64": np.complex64,
}
EIGHT_BITS = {
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
}
PACKED = {
    "F4": ml_dtypes.float4_e2m1fn,
    "F6_E2M3": ml_dtypes.float6_e2m3fn,
    "F6_E3M2": ml_dtypes.float6_e3m2fn,
}
ALL_16_BITS = np.arange(65536, dtype=np.uint16)


def packed_by_hand(codes: list[int], bits: int) -> bytes:
    """One big number, element i shifted by i times the width: another way than the one under test."""
    stream = sum(code << (i * bits) for i, code in enumerate(codes))
    return stream.to_bytes((len(codes) * bits + 7) // 8, "little")


def test_every_format_of_the_file_format_is_known():
    assert sorted(DTYPES) == sorted(
        [
            "BOOL",
            "U8",
            "I8",
            "I16",
            "U16",
            "I32",
            "U32",
            "I64",
            "U64",
            "F16",
            "BF16",
            "F32",
            "F64",
            "C64",
            "F8_E4M3",
            "F8_E5M2",
            "F8_E8M0",
            "F8_E4M3FNUZ",
            "F8_E5M2FNUZ",
            "F4",
            "F6_E2M3",
            "F6_E3M2",
        ]
    )


@pytest.mark.parametrize(
    ("name", "group"), [("F4", 2), ("F6_E2M3", 4), ("F6_E3M2", 4), ("F8_E4M3", 1), ("F32", 1)]
)
def test_a_group_is_what_fills_whole_bytes(name: str, group: int):
    assert DTYPES[name].group == group
    assert DTYPES[name].group * DTYPES[name].bits == DTYPES[name].group_bytes * 8


class TestAgainstMlDtypes:
    def test_every_code_of_bf16(self):
        expected = ALL_16_BITS.view(ml_dtypes.bfloat16).astype(np.float32)
        values = decode(ALL_16_BITS.tobytes(), "BF16", 65536)
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, expected)

    def test_every_code_of_f16(self):
        expected = ALL_16_BITS.view(np.float16).astype(np.float32)
        np.testing.assert_array_equal(decode(ALL_16_BITS.tobytes(), "F16", 65536), expected)

    @pytest.mark.parametrize("name", EIGHT_BITS)
    def test_every_code_of_eight_bits(self, name: str):
        codes = np.arange(256, dtype=np.uint8)
        values = decode(codes.tobytes(), name, 256)
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, codes.view(EIGHT_BITS[name]).astype(np.float32))

    @pytest.mark.parametrize("name", PACKED)
    def test_every_code_of_packed_formats(self, name: str):
        bits = DTYPES[name].bits
        codes = np.arange(1 << bits, dtype=np.uint8)
        values = decode(packed_by_hand(codes.tolist(), bits), name, codes.size)
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, codes.view(PACKED[name]).astype(np.float32))

    @pytest.mark.parametrize("name", [*EIGHT_BITS, "BF16"])
    def test_numbers_are_rounded_as_there(self, name: str):
        numbers = np.random.default_rng(1).normal(size=1000).astype(np.float32)
        kind = ml_dtypes.bfloat16 if name == "BF16" else EIGHT_BITS[name]
        with np.errstate(invalid="ignore"):
            expected = numbers.astype(kind)
        assert encode(numbers, name) == expected.tobytes()


def test_known_values_of_each_packed_format_stand_where_the_format_puts_them():
    # 0x21: low nibble 1 first. Code 1 of F4 is 0.5, code 2 is 1.
    assert decode(b"\x21", "F4", 2).tolist() == [0.5, 1.0]
    # Codes 8, 0, 0, 0 of F6_E2M3: the first six bits.
    assert decode(b"\x08\x00\x00", "F6_E2M3", 4).tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", NATIVE)
def test_native_formats_are_what_numpy_reads(name: str):
    data = np.random.default_rng(2).bytes(16 * DTYPES[name].bits // 8)
    values = decode(data, name, 16)
    assert values.dtype == np.dtype(NATIVE[name])
    assert values.tobytes() == np.frombuffer(data, NATIVE[name]).tobytes()


def test_any_byte_but_zero_is_true():
    values = decode(bytes(range(4)), "BOOL", 4)
    assert values.dtype == np.bool_
    assert values.tobytes() == b"\0\1\1\1"


@given(
    name=st.sampled_from(sorted(DTYPES)),
    data=st.binary(min_size=64, max_size=64),
    offset=st.integers(0, 9),
    kind=st.sampled_from([bytes, bytearray, memoryview]),
)
def test_alignment_and_kind_of_buffer_change_nothing(name, data, offset, kind):
    count = 64 * 8 // DTYPES[name].bits
    buffer = memoryview(kind(bytes(offset) + data))[offset:]
    for function in (decode, raw_bits):
        assert function(buffer, name, count).tobytes() == function(data, name, count).tobytes()
    assert bytes(buffer) == data


@given(name=st.sampled_from(sorted(DTYPES)), data=st.binary(min_size=48, max_size=48), cut=st.data())
def test_skip_and_count_cut_like_a_slice(name, data, cut):
    total = 48 * 8 // DTYPES[name].bits
    skip = cut.draw(st.integers(0, total))
    count = cut.draw(st.integers(0, total - skip))
    for function in (decode, raw_bits):
        whole = function(data, name, total)
        assert function(data, name, count, skip=skip).tobytes() == whole[skip : skip + count].tobytes()


@given(name=st.sampled_from(sorted(set(DTYPES) - {"BOOL"})), data=st.binary(min_size=48, max_size=48))
def test_encode_is_the_inverse_of_decode(name, data):
    count = 48 * 8 // DTYPES[name].bits
    values = decode(data, name, count)
    again = decode(encode(values, name), name, count)
    np.testing.assert_array_equal(again, values)


@given(data=st.binary(min_size=24, max_size=24), name=st.sampled_from(sorted(DTYPES)))
def test_raw_bits_hold_everything_that_is_stored(data, name):
    bits = DTYPES[name].bits
    codes = raw_bits(data, name, 24 * 8 // bits)
    assert codes.dtype.kind == "u"
    assert packed_by_hand([int(code) for code in codes], bits) == data


def test_raw_bits_tell_zeros_and_nans_apart():
    data = encode([0.0, -0.0], "BF16") + b"\x01\x7f\x02\x7f" + b"\xc1\x7f\xc2\x7f"
    assert len(set(raw_bits(data, "BF16", 6).tolist())) == 6


@pytest.mark.parametrize("name", ["F32", "I64", "U8", "F64", "C64", "BOOL"])
def test_a_result_cannot_be_used_to_write_into_the_buffer(name: str):
    buffer = bytearray(16)
    values = decode(buffer, name, 2)
    if values.flags.writeable:
        values[:] = 1
    else:
        with pytest.raises(ValueError, match="read-only"):
            values[:] = 1
    assert buffer == bytes(16)


def test_booleans_are_written_as_zero_and_one():
    assert encode([True, False, True], "BOOL") == b"\1\0\1"


@pytest.mark.parametrize(("numbers", "name"), [([256], "U8"), ([-1], "U16"), ([0.5], "I32"), ([2], "BOOL")])
def test_numbers_that_an_integer_format_cannot_hold_are_refused(numbers: list[float], name: str):
    with pytest.raises(ValueError, match=f"array: {name} cannot hold these numbers exactly"):
        encode(np.asarray(numbers), name)


def test_packed_elements_that_do_not_fill_bytes_are_refused():
    with pytest.raises(ValueError, match="array: 3 elements of F4 do not fill whole bytes"):
        encode([0.0, 1.0, 2.0], "F4")


def test_too_few_bytes_are_refused():
    with pytest.raises(ValueError, match="data: 3 elements of F32 need 12 bytes, got 11"):
        decode(bytes(11), "F32", 3)
    with pytest.raises(ValueError, match="data: 5 elements of F6_E3M2 need 4 bytes, got 3"):
        decode(bytes(3), "F6_E3M2", 4, skip=1)


@pytest.mark.parametrize(("count", "skip"), [(-1, 0), (1, -1)])
def test_negative_counts_are_refused(count: int, skip: int):
    with pytest.raises(ValueError, match="count and skip: expected numbers from 0 on"):
        decode(bytes(8), "F32", count, skip=skip)


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match=r"dtype: expected one of BOOL, .*, got 'I4'"):
        decode(b"", "I4", 0)


def test_ml_dtypes_is_loaded_only_for_the_formats_that_need_it():
    code = (
        "import sys; from modelkin.tensors import decode; "
        "decode(bytes(4), 'BF16', 2); decode(bytes(4), 'F16', 2); "
        "assert 'ml_dtypes' not in sys.modules; decode(bytes(4), 'F4', 2); assert 'ml_dtypes' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
