"""Shard indexes that break one rule each, and the sentence each is refused with."""

from __future__ import annotations

import re
import tracemalloc

import pytest
from tests.formats.hostile.builders import INDEX, index_bytes, packed, parse

from modelkin.errors import IndexFileError
from modelkin.formats import shards as limits
from modelkin.formats.shards import join_shards, parse_shard_index, untrue_entries
from modelkin.message import Message


def refused(data: bytes, sentence: str) -> None:
    with pytest.raises(IndexFileError, match=re.escape(sentence)) as caught:
        parse_shard_index(data, file=INDEX)
    assert str(caught.value).startswith(f"{INDEX}: ")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


class TestText:
    @pytest.mark.parametrize(
        "data", [b"", b"[]", b"null", b"weight_map", b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00"]
    )
    def test_what_is_no_object_is_refused(self, data: bytes):
        refused(data, "expected an object for the index at byte 0")

    def test_a_lfs_pointer_is_named(self):
        refused(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "is a Git LFS pointer")

    @pytest.mark.parametrize("data", [b"{}", b'{"metadata":{}}', b'{"weight_map":{}}'])
    def test_an_index_without_tensors_is_refused(self, data: bytes):
        refused(data, "expected a weight_map from tensors to files, got none or an empty one")

    @pytest.mark.parametrize("weight_map", [[], "x.safetensors", 3, None, True])
    def test_a_weight_map_that_is_no_object_is_refused(self, weight_map: object):
        refused(index_bytes(weight_map), "expected an object for weight_map")

    @pytest.mark.parametrize("shard", [None, 1, ["x.safetensors"], {"f": "x"}, True])
    def test_a_shard_that_is_no_text_is_refused(self, shard: object):
        refused(index_bytes({"a": shard}), "expected the file of tensor 'a' as a string")

    def test_text_after_the_object_is_refused(self):
        refused(index_bytes({"a": "x.safetensors"}) + b"{}", "expected nothing more")

    def test_text_cut_short_is_refused(self):
        refused(
            index_bytes({"a": "x.safetensors"})[:-1], "expected ',' or '}' after the value of 'weight_map'"
        )

    def test_metadata_that_is_no_object_is_refused(self):
        refused(index_bytes({"a": "x.safetensors"}, metadata=[1]), "expected an object for metadata")

    @pytest.mark.parametrize(
        "value", ["NaN", "1e999", "Infinity", "-Infinity", "01", "1.", "tru", '{"a":1,"a":2}', '["\\ud800"]']
    )
    def test_metadata_that_is_not_strict_json_is_refused(self, value: str):
        text = f'{{"metadata":{{"k":{value}}},"weight_map":{{"a":"x.safetensors"}}}}'
        refused(text.encode(), "metadata is not valid JSON")

    def test_metadata_with_a_number_of_thousands_of_digits_is_refused(self):
        text = f'{{"metadata":{{"k":{"9" * 10_000}}},"weight_map":{{"a":"x.safetensors"}}}}'
        refused(text.encode(), "metadata is not valid JSON")


class TestDuplicates:
    def test_a_tensor_listed_twice_is_refused(self):
        text = b'{"weight_map":{"a":"1.safetensors","a":"2.safetensors"}}'
        refused(text, "weight_map has the key 'a' twice")

    def test_a_tensor_listed_twice_in_the_same_file_is_refused(self):
        text = rb'{"weight_map":{"a":"1.safetensors","\u0061":"1.safetensors"}}'
        refused(text, "weight_map has the key 'a' twice")

    def test_two_weight_maps_are_refused(self):
        text = b'{"weight_map":{"a":"1.safetensors"},"weight_map":{"a":"2.safetensors"}}'
        refused(text, "the index has the key 'weight_map' twice")


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "problem"),
        [
            ("", "is empty"),
            ("/etc/x.safetensors", "is absolute"),
            ("//host/x.safetensors", "is absolute"),
            ("../x.safetensors", "contains '..'"),
            ("a/../../x.safetensors", "contains '..'"),
            ("./x.safetensors", "contains '.'"),
            ("a//x.safetensors", "contains an empty part"),
            ("..\\x.safetensors", r"contains the forbidden character '\\'"),
            ("C:x.safetensors", "contains the forbidden character ':'"),
            ("C:/x.safetensors", "contains the forbidden character ':'"),
            ("http://host/x.safetensors", "contains the forbidden character ':'"),
            ("file:///x.safetensors", "contains the forbidden character ':'"),
            ("x.bin:y.safetensors", "contains the forbidden character ':'"),
            ("x?y=.safetensors", "contains the forbidden character '?'"),
            ("x#.safetensors", "contains the forbidden character '#'"),
            ("*.safetensors", "contains the forbidden character '*'"),
            ("~/x.safetensors", "begins with '~'"),
            ("~root/x.safetensors", "begins with '~'"),
            ("%2e%2e/x.safetensors", "contains a percent escape"),
            ("a%2Fx.safetensors", "contains a percent escape"),
            ("%252e/x.safetensors", "contains a percent escape"),
            ("x.safetensors\x00.txt", "contains the invisible character U+0000"),
            ("x\n.safetensors", "contains the invisible character U+000A"),
            ("\u202ex.safetensors", "contains the invisible character U+202E"),
            (" x.safetensors", "begins or ends with a space"),
            ("a /x.safetensors", "begins or ends with a space"),
            ("a./x.safetensors", "ends with a dot"),
            ("x.bin", "does not end in .safetensors"),
            ("x.safetensors/", "contains an empty part"),
            ("x.SAFETENSORS", "does not end in .safetensors"),
            ("x.safetensors.pkl", "does not end in .safetensors"),
            ("a/" * 9 + "x.safetensors", "goes through 9 folders"),
            ("x" * 250 + ".safetensors", "has a part of more than 255 bytes"),
            ("x" * 2000 + ".safetensors", "has 2012 characters, more than 1024"),
        ],
    )
    def test_a_path_that_is_not_plain_is_refused(self, path: str, problem: str):
        refused(index_bytes({"a": path}), problem)

    @pytest.mark.parametrize("name", ["", "a\x1b[2J", "\u2066a", "x" * 1025])
    def test_a_tensor_name_that_cannot_be_seen_is_refused(self, name: str):
        refused(index_bytes({name: "x.safetensors"}), "the tensor name")

    def test_too_many_shards_are_refused(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(limits, "MAX_SHARDS", 3)
        refused(
            index_bytes({f"t{i}": f"{i}.safetensors" for i in range(4)}), "weight_map names more than 3 files"
        )

    def test_too_many_tensors_are_refused(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(limits, "MAX_LISTED_TENSORS", 3)
        refused(index_bytes({f"t{i}": "x.safetensors" for i in range(4)}), "weight_map has more than 3 keys")

    def test_an_overlong_index_is_refused(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(limits, "MAX_INDEX_BYTES", 10)
        refused(b" " * 11, "has 11 bytes, more than the 10 of an index file")


class TestBombs:
    @pytest.mark.more
    @pytest.mark.parametrize("key", ["metadata", "anything"])
    @pytest.mark.parametrize("unit", [b"[", b'{"a":', b"[],", b'"",'])
    def test_nesting_and_bulk_take_little_memory(self, key: str, unit: bytes):
        data = b'{"%s":[' % key.encode() + unit * (10_000_000 // len(unit))
        tracemalloc.start()
        try:
            with pytest.raises(IndexFileError, match=r"levels deep|takes more than 131072 bytes"):
                parse_shard_index(data, file=INDEX)
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()


class TestJoin:
    INDEX = index_bytes({"a": "1.safetensors", "b": "2.safetensors"})

    def joined(self, contents: dict[str, list[tuple[str, int]]]) -> tuple[Message, ...]:
        headers = {
            file: parse(packed(sizes), data_bytes=sum(size for _, size in sizes), file=file).tensors
            for file, sizes in contents.items()
        }
        index = parse_shard_index(self.INDEX, file=INDEX)
        return untrue_entries(index, join_shards(index, headers, file=INDEX))

    def test_missing_shards_are_listed(self):
        with pytest.raises(IndexFileError, match=r"1 of 2 shards are missing: '2\.safetensors'"):
            self.joined({"1.safetensors": [("a", 1)]})

    def test_of_many_missing_shards_some_are_listed(self):
        many = parse_shard_index(index_bytes({f"t{i}": f"{i}.safetensors" for i in range(9)}), file=INDEX)
        with pytest.raises(
            IndexFileError, match=r"9 of 9 shards are missing: '0\.s.*, '2\.safetensors' and 6 more"
        ):
            join_shards(many, {}, file=INDEX)

    def test_an_index_of_which_nothing_is_true_is_refused(self):
        with pytest.raises(
            IndexFileError, match=r"tensor 'a' should be in '1.safetensors', which does not have it$"
        ):
            self.joined({"1.safetensors": [("x", 1)], "2.safetensors": [("c", 1)]})
        with pytest.raises(IndexFileError, match=r"which does not have it; it is in '2\.safetensors'"):
            self.joined({"1.safetensors": [("b", 1)], "2.safetensors": [("a", 1)]})

    def test_an_entry_that_is_not_true_costs_nothing_but_a_note(self):
        told = self.joined({"1.safetensors": [("a", 1)], "2.safetensors": [("c", 1)]})
        assert [str(note) for note in told] == ["the index lists the wrong file for 1 tensor: 'b'"]
        assert self.joined({"1.safetensors": [("a", 1), ("b", 1)], "2.safetensors": [("c", 1)]}) == told
        assert self.joined({"1.safetensors": [("a", 1)], "2.safetensors": [("b", 1)]}) == ()

    def test_a_tensor_in_two_shards_is_refused(self):
        with pytest.raises(
            IndexFileError, match=r"tensor 'a' is in two shards, '1\.safetensors' and '2\.safetensors'"
        ):
            self.joined({"1.safetensors": [("a", 1)], "2.safetensors": [("a", 1), ("b", 1)]})
