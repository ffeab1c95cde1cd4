from __future__ import annotations

import pytest
from tests.formats.hostile.builders import INDEX, index_bytes, packed, parse

from modelkin.formats.shards import join_shards, parse_shard_index
from modelkin.untrusted import path_problem


def test_an_index_names_the_file_of_each_tensor():
    weight_map = {"b": "model-2.safetensors", "a": "model-1.safetensors"}
    index = parse_shard_index(index_bytes(weight_map, metadata={"total_size": 7}), file=INDEX)
    assert index.weight_map == weight_map
    assert index.files == ("model-1.safetensors", "model-2.safetensors")
    assert index.metadata == {"total_size": 7}


def test_metadata_may_be_absent_or_null():
    data = index_bytes({"a": "x.safetensors"})
    assert parse_shard_index(data, file=INDEX).metadata == {}
    assert parse_shard_index(index_bytes({"a": "x.safetensors"}, metadata=None), file=INDEX).metadata == {}


@pytest.mark.parametrize(
    "note", [1, -2.5e3, "text", None, True, [1, [2]], {"deep": {"er": ["]", "}"]}}, [], {}]
)
def test_notes_of_the_writer_are_passed_over(note: object):
    data = index_bytes({"a": "x.safetensors"}, note=note, metadata={"kept": note})
    assert parse_shard_index(data, file=INDEX).metadata == {"kept": note}


def test_white_space_around_everything_is_accepted():
    data = b'\n { "weight_map" :\t{ "a" : "x.safetensors" } }\r\n'
    assert parse_shard_index(data, file=INDEX).weight_map == {"a": "x.safetensors"}


@pytest.mark.parametrize(
    "path", ["x.safetensors", "sub/x.safetensors", "a b/x-1 of 2.safetensors", "..x/100%.safetensors"]
)
def test_a_plain_relative_path_is_accepted(path: str):
    index = parse_shard_index(index_bytes({"a": path}), file=INDEX)
    assert index.files == (path,)
    assert path_problem(path) is None


def test_shards_lie_beside_their_index():
    index = parse_shard_index(index_bytes({"a": "x.safetensors"}), file="unet/model.safetensors.index.json")
    assert index.files == ("unet/x.safetensors",)


def held(sizes, file):
    return parse(packed(sizes), data_bytes=sum(size for _, size in sizes), file=file).tensors


class TestJoin:
    INDEX = parse_shard_index(index_bytes({"a": "1.safetensors", "b": "2.safetensors"}), file=INDEX)

    def test_shards_become_one_index(self):
        shards = {
            "2.safetensors": held([("b", 3)], "2.safetensors"),
            "1.safetensors": held([("a", 2)], "1.safetensors"),
        }
        joined = join_shards(self.INDEX, shards, file=INDEX)
        assert {name: (info.file, info.n_bytes) for name, info in joined.items()} == {
            "a": ("1.safetensors", 2),
            "b": ("2.safetensors", 3),
        }
        assert joined.unlisted == ()

    def test_tensors_that_the_index_does_not_list_are_kept_and_named(self):
        shards = {
            "1.safetensors": held([("a", 2), ("more", 1)], "1.safetensors"),
            "2.safetensors": held([("b", 3)], "2.safetensors"),
        }
        joined = join_shards(self.INDEX, shards, file=INDEX)
        assert list(joined) == ["a", "b", "more"]
        assert joined.unlisted == ("more",)

    def test_files_that_the_index_does_not_name_are_ignored(self):
        shards = {
            "1.safetensors": held([("a", 2)], "1.safetensors"),
            "2.safetensors": held([("b", 3)], "2.safetensors"),
            "other.safetensors": held([("a", 9)], "other.safetensors"),
        }
        assert join_shards(self.INDEX, shards, file=INDEX)["a"].n_bytes == 2
