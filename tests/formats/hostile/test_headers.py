"""Headers that break one rule each, and the sentence each is refused with."""

from __future__ import annotations

import re
import tracemalloc

import pytest
from tests.formats.hostile.builders import FILE, entry, header, parse, with_length

from modelkin.errors import HeaderError
from modelkin.formats.safetensors import header as limits
from modelkin.formats.safetensors import header_length, parse_header
from modelkin.formats.safetensors.header import MAX_HEADER_BYTES

GOOD = '{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'


def refused(head: bytes, sentence: str, *, data_bytes: int = 16) -> HeaderError:
    with pytest.raises(HeaderError, match=re.escape(sentence)) as caught:
        parse(head, data_bytes=data_bytes)
    assert str(caught.value).startswith(f"{FILE}: ")
    # No control character reaches a terminal, and no message floods it.
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700
    return caught.value


def text_refused(text: str | bytes, sentence: str, *, data_bytes: int = 16) -> None:
    refused(with_length(text), sentence, data_bytes=data_bytes)


def test_the_well_formed_header_of_these_tests_is_accepted():
    assert [info.name for info in parse(with_length(GOOD), data_bytes=16).tensors] == ["a"]


class TestLength:
    def test_an_empty_file_is_refused(self):
        with pytest.raises(HeaderError, match="expected at least 8 bytes, got 0"):
            header_length(b"", file=FILE, file_size=0)

    def test_a_file_of_seven_bytes_is_refused(self):
        with pytest.raises(HeaderError, match="expected at least 8 bytes, got 7"):
            header_length(b"1234567", file=FILE, file_size=7)

    @pytest.mark.parametrize("length", [0, 1])
    def test_a_header_too_short_for_two_braces_is_refused(self, length: int):
        with pytest.raises(HeaderError, match=f"claims {length} bytes, but the smallest header has 2"):
            header_length(length.to_bytes(8, "little"), file=FILE, file_size=100)

    @pytest.mark.parametrize("length", [MAX_HEADER_BYTES + 1, 2**63, 2**64 - 1])
    def test_a_length_above_the_limit_is_refused_before_anything_is_read(self, length: int):
        with pytest.raises(HeaderError, match=f"claims {length} bytes, more than the 100000000"):
            header_length(length.to_bytes(8, "little"), file=FILE, file_size=2**63)

    def test_a_header_longer_than_its_file_is_refused(self):
        with pytest.raises(HeaderError, match="claims to end at byte 1008 but the file ends at 500"):
            header_length((1000).to_bytes(8, "little"), file=FILE, file_size=500)

    def test_a_header_of_the_whole_file_is_possible(self):
        assert header_length((492).to_bytes(8, "little"), file=FILE, file_size=500) == 500

    @pytest.mark.parametrize(
        ("start", "hint"),
        [
            (b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
            (b"PK\x03\x04\x00\x00\x00\x00", "zip file"),
            (b"\x80\x02\x8a\x0alTC.", "pickle"),
            (b"GGUF\x03\x00\x00\x00", "GGUF"),
            (b"<!DOCTYPE html>", "web page"),
            (b'{"a": 1, "b": 2}', "JSON"),
        ],
    )
    def test_another_kind_of_file_is_named_in_the_hint(self, start: bytes, hint: str):
        with pytest.raises(HeaderError, match="the header claims") as caught:
            header_length(start, file=FILE, file_size=10**6)
        assert hint in (caught.value.hint or "")

    def test_fewer_bytes_than_the_header_are_refused(self):
        refused(with_length(GOOD)[:-1], "expected the first 65 bytes of the file, got 64")


class TestText:
    def test_a_leading_space_is_refused(self):
        text_refused(" " + GOOD, "expected '{' at byte 0 of the JSON text, got ' {")

    def test_a_byte_order_mark_is_refused(self):
        text_refused("\ufeff" + GOOD, "expected '{' at byte 0")

    def test_a_list_is_refused(self):
        text_refused("[]", "expected '{' at byte 0 of the JSON text, got '[]'")

    def test_text_after_the_object_is_refused(self):
        text_refused(GOOD + " {}", "expected nothing more at byte 58 of the JSON text, got '{}'")

    @pytest.mark.parametrize("padding", ["\n", "\t", "\0"])
    def test_padding_other_than_spaces_is_refused(self, padding: str):
        text_refused(GOOD + padding, "expected nothing more")

    def test_text_cut_short_is_refused(self):
        text_refused(
            GOOD[:-1], "expected ',' or '}' after the value of 'a' at byte 56 of the JSON text, got the end"
        )

    def test_bytes_that_are_not_utf8_are_refused(self):
        text_refused(
            GOOD.replace('"a"', '"\xff"').encode("latin-1"), "expected a key of the header as valid UTF-8"
        )

    def test_an_escaped_half_of_a_surrogate_pair_is_refused(self):
        text_refused(GOOD.replace('"a"', r'"\ud800"'), "expected a key of the header as valid UTF-8")

    def test_an_unknown_escape_is_refused(self):
        text_refused(GOOD.replace('"a"', r'"\x41"'), "expected a key of the header as valid UTF-8")

    def test_a_raw_line_break_in_a_string_is_refused(self):
        text_refused(GOOD.replace('"a"', '"a\nb"'), "expected a key of the header as a string")

    @pytest.mark.parametrize("comma", [",}", ",,"])
    def test_a_stray_comma_is_refused(self, comma: str):
        text_refused(GOOD[:-1] + comma, "expected a key of the header as a string")

    def test_single_quotes_are_refused(self):
        text_refused(GOOD.replace('"', "'"), "expected a key of the header as a string")

    def test_a_missing_colon_is_refused(self):
        text_refused('{"a" 1}', "expected ':' after the key 'a'")


class TestDuplicates:
    def test_a_tensor_listed_twice_is_refused(self):
        text_refused(GOOD[:-1] + "," + GOOD[1:], "the header has the key 'a' twice")

    def test_a_tensor_listed_twice_in_other_spelling_is_refused(self):
        text_refused(
            GOOD[:-1] + "," + GOOD[1:].replace('"a"', r'"\u0061"'), "the header has the key 'a' twice"
        )

    def test_metadata_given_twice_is_refused(self):
        text_refused('{"__metadata__":{},"__metadata__":{}}', "the header has the key '__metadata__' twice")

    def test_a_metadata_key_given_twice_is_refused(self):
        text_refused('{"__metadata__":{"k":"1","k":"2"}}', "__metadata__ has the key 'k' twice")

    def test_a_field_of_a_tensor_given_twice_is_refused(self):
        text = '{"a":{"dtype":"F32","dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
        text_refused(text, "tensor 'a' has the key 'dtype' twice")

    def test_a_field_given_twice_in_other_spelling_is_refused(self):
        text = r'{"a":{"dtype":"F32","shape":[4],"sh\u0061pe":[2,2],"data_offsets":[0,16]}}'
        text_refused(text, "tensor 'a' has the key 'shape' twice")


class TestMetadata:
    @pytest.mark.parametrize("value", ["1", "true", "null", "[]", "{}"])
    def test_metadata_other_than_text_is_refused(self, value: str):
        text_refused(f'{{"__metadata__":{{"k":{value}}}}}', "expected the metadata entry 'k' as a string")

    @pytest.mark.parametrize("value", ['"text"', "[]", "3", "false"])
    def test_metadata_that_is_no_object_is_refused(self, value: str):
        text_refused(f'{{"__metadata__":{value}}}', "expected an object for __metadata__")

    def test_too_many_entries_are_refused(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(limits, "MAX_METADATA_ENTRIES", 2)
        text_refused('{"__metadata__":{"a":"","b":"","c":""}}', "__metadata__ has more than 2 keys")


class TestEntries:
    @pytest.mark.parametrize("value", ["null", "[]", '"F32"', "7", "true"])
    def test_an_entry_that_is_no_object_is_refused(self, value: str):
        text_refused(f'{{"a":{value}}}', "expected an object for tensor 'a'")

    @pytest.mark.parametrize("key", ["dtype", "shape", "data_offsets"])
    def test_a_missing_field_is_refused(self, key: str):
        fields = entry()
        del fields[key]
        refused(header({"a": fields}), f"tensor 'a': the key {key} is missing")

    def test_an_unknown_field_is_refused(self):
        fields = {"dtype": "F32", "shape": [2, 2], "offsets": [0, 16]}
        refused(header({"a": fields}), "expected the keys dtype, shape and data_offsets only, got 'offsets'")

    def test_a_fourth_field_is_refused(self):
        refused(header({"a": {**entry(), "note": 1}}), "tensor 'a' has more than 3 keys")

    @pytest.mark.parametrize("dtype", ["I4", "f32", "float32", "", "F32 ", "F8_E3M4"])
    def test_an_unknown_dtype_is_refused(self, dtype: str):
        refused(
            header({"a": entry(dtype)}), f"tensor 'a' has the unknown dtype {dtype!r}, not one of BOOL, U8"
        )

    @pytest.mark.parametrize("dtype", [None, 32, ["F32"], True])
    def test_a_dtype_that_is_no_text_is_refused(self, dtype: object):
        refused(header({"a": entry(dtype)}), "expected the dtype of tensor 'a' as a string")

    @pytest.mark.parametrize("offsets", [[], [0], [16]])
    def test_fewer_than_two_offsets_are_refused(self, offsets: list[int]):
        refused(header({"a": entry(offsets=offsets)}), f"expected two data_offsets, got {len(offsets)}")

    def test_a_third_offset_is_refused(self):
        refused(
            header({"a": entry(offsets=[0, 8, 16])}), "the data_offsets of tensor 'a' has more than 2 numbers"
        )

    @pytest.mark.parametrize("offsets", [None, {}, "0,16", 16])
    def test_offsets_that_are_no_list_are_refused(self, offsets: object):
        refused(header({"a": entry(offsets=offsets)}), "expected a list of numbers for the data_offsets")


class TestNumbers:
    @pytest.mark.parametrize(
        "number", ["true", "false", "null", '"2"', "NaN", "Infinity", "-Infinity", "+2", "{}"]
    )
    def test_what_is_no_number_is_refused_in_a_shape(self, number: str):
        text_refused(
            GOOD.replace("[2,2]", f"[2,{number}]"), "expected a whole number in the shape of tensor 'a'"
        )

    @pytest.mark.parametrize("number", ["2.0", "2e0", "2.5", "1e400"])
    def test_a_fraction_is_refused_in_a_shape(self, number: str):
        text_refused(
            GOOD.replace("[2,2]", f"[2,{number}]"),
            "expected a whole number of at most 20 digits in the shape",
        )

    @pytest.mark.parametrize("number", ["-1", "-0", "-9223372036854775808"])
    def test_a_negative_axis_is_refused(self, number: str):
        text_refused(
            GOOD.replace("[2,2]", f"[2,{number}]"),
            f"shape of tensor 'a' contains the negative number {number}",
        )

    def test_a_negative_offset_is_refused(self):
        text_refused(
            GOOD.replace("[0,16]", "[-16,0]"), "data_offsets of tensor 'a' contains the negative number -16"
        )

    def test_a_leading_zero_is_refused(self):
        text_refused(GOOD.replace("[2,2]", "[02,2]"), "contains a number with a leading zero")

    def test_a_number_of_millions_of_digits_is_refused(self):
        text = GOOD.replace("[2,2]", "[" + "9" * 5_000_000 + "]")
        text_refused(text, "expected a whole number of at most 20 digits in the shape")

    def test_nested_lists_are_refused(self):
        text_refused(GOOD.replace("[2,2]", "[[2,2]]"), "expected a whole number in the shape of tensor 'a'")

    def test_an_absurd_rank_is_refused(self):
        refused(header({"a": entry(shape=[1] * 17)}), "the shape of tensor 'a' has more than 16 numbers")

    @pytest.mark.parametrize("shape", [[2**32, 2**32], [2**63, 2], [10**19, 10**19], [2**16] * 16])
    def test_a_shape_whose_product_overflows_is_refused(self, shape: list[int]):
        refused(header({"a": entry(shape=shape)}), f"tensor 'a' has the absurd shape {shape}")

    @pytest.mark.parametrize("shape", [[0, 2**40, 2**40], [2**40, 2**40, 0]])
    def test_an_overflow_is_not_hidden_by_an_axis_of_length_zero(self, shape: list[int]):
        refused(header({"a": entry(shape=shape, offsets=[0, 0])}), "has the absurd shape", data_bytes=0)

    def test_a_product_that_wraps_to_the_right_size_in_64_bits_is_refused(self):
        # (2**32 + 4) * 2**32 * ... chosen so that the product modulo 2**64 would be 4.
        assert (2**62 + 1) * 4 % 2**64 == 4
        refused(header({"a": entry(shape=[2**62 + 1, 4])}), "has the absurd shape")


class TestLayout:
    def test_bytes_beyond_the_data_are_refused(self):
        head = header({"model.norm.weight": entry("F32", [2048], [0, 8192])})
        refused(
            head, "tensor 'model.norm.weight' claims bytes 0-8192 but the data ends at 6000", data_bytes=6000
        )

    def test_offsets_near_2_to_the_64_are_refused(self):
        refused(header({"a": entry(offsets=[2**64 - 16, 2**64 - 1])}), "but the data ends at 16")

    def test_an_end_before_the_begin_is_refused(self):
        refused(
            header({"a": entry(offsets=[16, 0])}),
            "tensor 'a' claims to begin at byte 16 and to end before it, at 0",
        )

    @pytest.mark.parametrize(
        ("dtype", "shape", "needed"), [("F32", [3], 12), ("F64", [4], 32), ("BF16", [], 2), ("F32", [0], 0)]
    )
    def test_a_length_other_than_that_of_the_shape_is_refused(
        self, dtype: str, shape: list[int], needed: int
    ):
        sentence = f"tensor 'a': {dtype} of shape {shape} takes {needed} bytes, but bytes 0-16 are 16"
        refused(header({"a": entry(dtype, shape)}), sentence)

    @pytest.mark.parametrize(("dtype", "count"), [("F4", 31), ("F6_E2M3", 21), ("F6_E3M2", 22)])
    def test_packed_elements_that_end_inside_a_byte_are_refused(self, dtype: str, count: int):
        refused(header({"a": entry(dtype, [count])}), f"{count} elements of {dtype} do not fill whole bytes")

    def test_overlapping_tensors_are_refused(self):
        head = header({"a": entry("U8", [8], [0, 8]), "b": entry("U8", [10], [6, 16])})
        refused(head, "tensor 'b' begins at byte 6, inside 'a', which ends at 8")

    def test_two_tensors_on_the_same_bytes_are_refused(self):
        refused(
            header({"a": entry(), "b": entry()}), "tensor 'b' begins at byte 0, inside 'a', which ends at 16"
        )

    def test_an_empty_tensor_inside_another_is_refused(self):
        head = header({"a": entry(), "b": entry("U8", [0], [8, 8])})
        refused(head, "tensor 'b' begins at byte 8, inside 'a', which ends at 16")

    def test_a_hole_at_the_start_is_refused(self):
        refused(
            header({"a": entry("U8", [8], [8, 16])}),
            "bytes 0-8 of the data, before tensor 'a', belong to no tensor",
        )

    def test_a_hole_in_the_middle_is_refused(self):
        head = header({"a": entry("U8", [4], [0, 4]), "b": entry("U8", [8], [8, 16])})
        refused(head, "bytes 4-8 of the data, before tensor 'b', belong to no tensor")

    def test_bytes_after_the_last_tensor_are_refused(self):
        refused(with_length(GOOD), "the tensors end at byte 16 but the data goes on to 17", data_bytes=17)

    def test_data_without_any_tensor_is_refused(self):
        text_refused("{}", "the tensors end at byte 0 but the data goes on to 1", data_bytes=1)


class TestNames:
    def test_an_empty_name_is_refused(self):
        refused(header({"": entry()}), "the tensor name '' is empty")

    @pytest.mark.parametrize(
        "character", ["\x00", "\x1b", "\n", "\x7f", "\x9b", "\u202e", "\u200b", "\u2028", "\ufeff"]
    )
    def test_an_invisible_character_is_refused(self, character: str):
        refused(
            header({f"a{character}b": entry()}), f"contains the invisible character U+{ord(character):04X}"
        )

    def test_a_name_that_cannot_be_seen_beside_good_ones_is_left_out(self):
        tensors = {"good": entry("U8", [8], [0, 8]), "a\u200bb": entry("U8", [4], [8, 12])}
        head = header(tensors | {"": entry("U8", [4], [12, 16])})
        parsed = parse_header(head, file="m.safetensors", file_size=len(head) + 16)
        assert [info.name for info in parsed.tensors] == ["good"]
        assert parsed.left_out == (r"'a\u200bb'", "''")

    def test_an_overlong_name_is_refused_and_not_repeated_in_full(self):
        error = refused(header({"x" * 1_000_000: entry()}), "has 1000000 characters, more than 1024")
        assert len(str(error)) < 300

    def test_a_terminal_escape_is_shown_escaped(self):
        error = refused(header({"\x1b[31mred": entry()}), "invisible character U+001B")
        assert r"'\x1b[31mred'" in str(error)

    def test_a_hostile_file_name_is_shown_escaped(self):
        with pytest.raises(HeaderError, match=r"^'\\x1b\[31mred': expected at least") as caught:
            header_length(b"", file="\x1b[31mred", file_size=0)
        assert str(caught.value).isprintable()


class TestBombs:
    """Input that is cheap to send and must be cheap to refuse."""

    # The sizes are a tenth of the format's limit, to keep the suite fast; cost is linear.
    SIZE = MAX_HEADER_BYTES // 10

    def peak_of_refusal(self, head: bytes, sentence: str) -> int:
        tracemalloc.start()
        try:
            refused(head, sentence)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("unit", [b"[", b'{"a":', b"[],", b"[[],["])
    def test_deep_and_wide_nesting_takes_no_memory(self, unit: bytes):
        head = with_length(b'{"a":' + unit * (self.SIZE // len(unit)))
        assert self.peak_of_refusal(head, "tensor 'a'") < 1_000_000

    def test_nesting_in_metadata_takes_no_memory(self):
        head = with_length(b'{"__metadata__":{"a":' + b"[" * self.SIZE)
        assert self.peak_of_refusal(head, "expected the metadata entry 'a' as a string") < 1_000_000

    def test_a_header_of_spaces_takes_no_memory(self):
        head = with_length(b"{" + b" " * self.SIZE)
        assert self.peak_of_refusal(head, "expected a key of the header") < 1_000_000

    def test_a_string_without_end_takes_no_memory(self):
        head = with_length(b'{"' + b"x" * self.SIZE)
        assert self.peak_of_refusal(head, "expected a key of the header as a string") < 1_000_000

    def test_a_string_of_escapes_takes_little_memory(self):
        head = with_length(b'{"' + b'\\"' * (self.SIZE // 2))
        assert self.peak_of_refusal(head, "expected a key of the header as a string") < 1_000_000

    def test_a_long_name_takes_a_few_times_its_own_size(self):
        head = with_length(b'{"' + b"x" * self.SIZE + b'":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}}')
        assert self.peak_of_refusal(head, "more than 1024") < 4 * self.SIZE

    def test_one_wide_character_does_not_widen_the_whole_header(self):
        head = with_length('{"\U0001f600":'.encode() + b" " * self.SIZE + b"1}")
        assert self.peak_of_refusal(head, "expected an object for tensor") < 1_000_000

    def test_too_many_tensors_are_refused(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(limits, "MAX_TENSORS", 99)
        head = header({f"t{i}": entry("U8", [0], [0, 0]) for i in range(101)})
        refused(head, "the header has more than 100 keys", data_bytes=0)
