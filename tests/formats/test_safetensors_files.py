"""Finding the weight files of a model and reading all their headers in few reads."""

import json

import pytest
from tests.support import LlamaShape, llama_files, llama_tensors

from modelkin.errors import HeaderError, IndexFileError
from modelkin.formats.interface import Request
from modelkin.formats.safetensors import FORMAT, safetensors_bytes
from modelkin.formats.safetensors import reading as reading_module
from modelkin.options import FetchOptions
from modelkin.source import Fetcher, MemorySource, Source

HEAD = 128 * 1024


def index_of(files, *, head_bytes=HEAD, name=None):
    source = MemorySource(files)
    return read(source, name or FORMAT.choose(source.files()), head_bytes=head_bytes)


def read(source, entry, *, head_bytes=HEAD):
    fetcher = Fetcher(source, FetchOptions())
    return FORMAT.read(Request(fetcher=fetcher, entry=entry, head_bytes=head_bytes)).index


def small(**tensors):
    return safetensors_bytes(dict(list(llama_tensors().items())[: len(tensors) or 3]))


def test_one_file_and_several_shards_give_the_same_tensors():
    whole, parts = index_of(llama_files()), index_of(llama_files(n_shards=3))
    assert list(whole) == list(parts)
    assert len(parts.files) == 3
    assert {name: info.shape for name, info in whole.items()} == {name: i.shape for name, i in parts.items()}


def test_shards_without_their_index_are_read_together():
    files = llama_files(n_shards=3)
    del files["model.safetensors.index.json"]
    assert list(index_of(files)) == list(index_of(llama_files()))


def test_the_plain_file_wins_over_an_index_as_it_does_for_loaders():
    files = {**llama_files(n_shards=2), "model.safetensors": small()}
    assert index_of(files).files == ("model.safetensors",)


def test_a_single_file_of_any_name_is_found():
    assert index_of({"adapter_model.safetensors": small()}).files == ("adapter_model.safetensors",)


def test_a_file_in_a_subfolder_is_found_when_there_is_no_other():
    assert index_of({"weights/model.safetensors": small()}).files == ("weights/model.safetensors",)


def test_a_file_asked_for_by_name_is_taken():
    files = {**llama_files(), "other.safetensors": small()}
    assert index_of(files, name="other.safetensors").files == ("other.safetensors",)


def test_without_read_nothing_is_chosen():
    assert FORMAT.choose(MemorySource({"README.md": b"x"}).files()) is None


def test_a_missing_shard_is_named():
    files = llama_files(n_shards=3)
    del files["model-00002-of-00003.safetensors"]
    with pytest.raises(
        IndexFileError, match="1 of 3 shards are missing, starting with 'model-00002-of-00003"
    ):
        index_of(files)


def test_a_tensor_in_two_unindexed_files_is_refused():
    files = {f"model-0000{part}-of-00002.safetensors": small() for part in (1, 2)}
    with pytest.raises(IndexFileError, match=r"tensor '.*' is in two files"):
        index_of(files)


def test_shards_with_unusual_names_are_found_through_the_index():
    files = llama_files(n_shards=2)
    renamed = {name.replace("model-", "part_"): data for name, data in files.items()}
    index = json.loads(files["model.safetensors.index.json"])
    index["weight_map"] = {
        name: file.replace("model-", "part_") for name, file in index["weight_map"].items()
    }
    renamed["model.safetensors.index.json"] = json.dumps(index).encode()
    assert list(index_of(renamed)) == list(index_of(files))


def test_a_file_too_short_for_a_header_is_refused():
    with pytest.raises(HeaderError, match=r"model\.safetensors"):
        index_of({"model.safetensors": b"abc"})


class RemoteMemory(Source):
    """The same bytes, from a source that claims to be remote."""

    def __init__(self, files):
        self._inside = MemorySource(files)
        self.budget = self._inside.budget
        self.reads: list[tuple[str, int, int]] = []

    location = property(lambda self: self._inside.location)

    def files(self):
        return self._inside.files()

    def _read(self, file, wanted):
        self.reads.append((file.name, wanted.start, wanted.stop))
        return self._inside.read_range(file, wanted)


def test_far_headers_cost_one_read_a_file_and_long_ones_one_more():
    files = llama_files(n_shards=2)
    source = RemoteMemory(files)
    read(source, FORMAT.choose(source.files()))
    assert sorted(name for name, *_ in source.reads) == sorted(set(files) - {"config.json"})
    source = RemoteMemory(files)
    index = read(source, FORMAT.choose(source.files()), head_bytes=64)
    assert len(source.reads) == 1 + 2 + 2
    assert list(index) == list(index_of(files))


def test_headers_that_together_take_gigabytes_are_refused_before_they_are_read(monkeypatch):
    monkeypatch.setattr(reading_module, "MAX_ALL_HEADERS", 2000)
    with pytest.raises(HeaderError, match=r"the headers of 2 files have .* bytes in total, more than 2,000"):
        index_of(llama_files(n_shards=2), head_bytes=64)


def test_thousands_of_names_like_shards_are_not_read_unless_the_index_names_them():
    files = llama_files(n_shards=2)
    decoy = bytes(64)
    files |= {f"model-{number:05d}-of-09000.safetensors": decoy for number in range(9_000)}
    source = RemoteMemory(files)
    index = read(source, "model.safetensors.index.json")
    assert list(index) == list(index_of(llama_files(n_shards=2)))
    assert len(source.reads) == 3
    assert sum(stop - start for _, start, stop in source.reads) < 1 << 20


def test_headers_of_many_shards_are_read_group_by_group(monkeypatch):
    monkeypatch.setattr(reading_module, "AT_ONCE", 2)
    monkeypatch.setattr(reading_module, "MOST_GUESSED", 1)
    files = llama_files(LlamaShape(layers=8), n_shards=7)
    held: list[int] = []
    heads = reading_module._heads

    def counting(fetcher, names, *rest, **more):
        names = list(names)
        held.append(len(names))
        return heads(fetcher, names, *rest, **more)

    monkeypatch.setattr(reading_module, "_heads", counting)
    index = read(RemoteMemory(files), "model.safetensors.index.json")
    assert held == [0, 2, 2, 2, 1]
    assert list(index) == list(index_of(llama_files(LlamaShape(layers=8))))


def test_headers_of_all_groups_together_have_a_limit(monkeypatch):
    monkeypatch.setattr(reading_module, "AT_ONCE", 1)
    monkeypatch.setattr(reading_module, "MOST_GUESSED", 0)
    monkeypatch.setattr(reading_module, "MAX_ALL_HEADERS", 2000)
    with pytest.raises(HeaderError, match=r"the headers of 2 files have .* bytes in total, more than 2,000"):
        index_of(llama_files(n_shards=2), head_bytes=64)


def test_near_headers_cost_just_their_bytes():
    files = llama_files()
    fetcher = Fetcher(MemorySource(files), FetchOptions())
    index = FORMAT.read(Request(fetcher=fetcher, entry="model.safetensors", head_bytes=HEAD)).index
    assert fetcher.totals().bytes_fetched == 8 + min(info.start for info in index.values())
