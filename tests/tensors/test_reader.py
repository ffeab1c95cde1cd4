from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from tests.tensors.fakes import RecordingFetched, RecordingFetcher, index_of, info_of

from modelkin.errors import BadSelection
from modelkin.formats.safetensors import header_length, parse_header
from modelkin.source import ByteRange
from modelkin.tensors import (
    Array,
    TensorIndex,
    TensorInfo,
    TensorReader,
    TensorSlice,
    sample_blocks,
)

MIB = 1 << 20


def model() -> tuple[TensorReader, RecordingFetcher, dict[str, Array]]:
    """Two files, as the library writes them."""
    rng = np.random.default_rng(5)
    arrays: dict[str, Array] = {
        "a": rng.normal(size=(10, 4)).astype(np.float32),
        "b": rng.normal(size=(7,)).astype(np.float16),
        "c": rng.integers(0, 9, size=(3, 2, 2)),
        "empty": np.zeros((0, 3), np.float32),
    }
    files: dict[str, bytes] = {}
    tensors: list[TensorInfo] = []
    for file, names in {"1.safetensors": ["a", "empty"], "2.safetensors": ["b", "c"]}.items():
        data = files[file] = safetensors.numpy.save({name: arrays[name] for name in names})
        end = header_length(data[:8], file=file, file_size=len(data))
        tensors += parse_header(data[:end], file=file, file_size=len(data)).tensors
    fetcher = RecordingFetcher(files)
    return TensorReader(TensorIndex(tensors), fetcher), fetcher, arrays


class TestRead:
    def test_many_slices_take_one_fetch(self):
        reader, fetcher, arrays = model()
        slices = [
            TensorSlice.whole("c"),
            TensorSlice.rows("a", 2, 5),
            TensorSlice.scattered("a", [9, 0, 9]),
            TensorSlice.blocks("b", [(1, 3), (6, 7)]),
            TensorSlice.whole("empty"),
        ]
        got = reader.read(slices)
        np.testing.assert_array_equal(got[0], arrays["c"], strict=True)
        np.testing.assert_array_equal(got[1], arrays["a"][2:5], strict=True)
        np.testing.assert_array_equal(got[2], arrays["a"][[9, 0, 9]], strict=True)
        np.testing.assert_array_equal(got[3], arrays["b"][[1, 2, 6]].astype(np.float32), strict=True)
        assert got[4].shape == (0, 3)
        assert len(fetcher.fetches) == 1
        assert fetcher.n_bytes == 3 * 2 * 2 * 8 + 5 * 16 + 3 * 2

    def test_the_plan_is_what_is_then_fetched(self):
        reader, fetcher, _ = model()
        slices = [TensorSlice.rows("a", 0, 2), TensorSlice.rows("a", 1, 3), TensorSlice.whole("b")]
        plan = reader.ranges(slices)
        assert fetcher.fetches == []
        reader.read(slices)
        assert fetcher.fetches == [plan]
        assert [item.length for item in plan["1.safetensors"]] == [3 * 16]

    def test_nothing_wanted_is_nothing_fetched(self):
        reader, fetcher, _ = model()
        assert reader.read([]) == []
        assert reader.read([TensorSlice.whole("empty"), TensorSlice.rows("a", 3, 3)])[1].shape == (0, 4)
        assert fetcher.fetches == []

    def test_raw_gives_the_stored_bits(self):
        reader, _, arrays = model()
        (bits,) = reader.raw([TensorSlice.rows("b", 2, 5)])
        np.testing.assert_array_equal(bits, arrays["b"].view(np.uint16)[2:5], strict=True)

    def test_a_seeded_sample_costs_its_own_bytes(self):
        reader, fetcher, arrays = model()
        wanted = sample_blocks(reader.index["a"], n_blocks=2, block_elements=5, seed=1)
        (values,) = reader.read([wanted])
        assert values.shape == (10,)
        assert set(values) <= set(arrays["a"].ravel())
        assert fetcher.n_bytes == 40

    @pytest.mark.parametrize("rows", [None, slice(2, 5), slice(None, 3), slice(4, None), [1, 1, 0]])
    def test_one_tensor_or_rows_of_it(self, rows):
        reader, _, arrays = model()
        expected = arrays["a"] if rows is None else arrays["a"][rows]
        np.testing.assert_array_equal(reader.read_one("a", rows), expected, strict=True)

    def test_a_step_is_refused(self):
        reader, _, _ = model()
        with pytest.raises(BadSelection, match="expected rows with step 1, got step 2"):
            reader.read_one("a", slice(0, 4, 2))

    def test_a_slice_from_the_end_is_refused(self):
        reader, _, _ = model()
        with pytest.raises(BadSelection, match="expected rows with 0 <= start <= stop <= 10, got -2 to 10"):
            reader.read_one("a", slice(-2, None))

    def test_a_bad_slice_among_good_ones_reads_nothing(self):
        reader, fetcher, _ = model()
        with pytest.raises(BadSelection, match="expected rows from 0 up to 9, got 10"):
            reader.read([TensorSlice.whole("b"), TensorSlice.scattered("a", [10])])
        assert fetcher.fetches == []

    def test_an_absent_tensor_is_refused_with_the_nearest_name(self):
        reader, _, _ = model()
        with pytest.raises(BadSelection, match="tensor 'emtpy': the model has 4 tensors, but none") as caught:
            reader.read_one("emtpy")
        assert caught.value.hint == "Did you mean 'empty'?"


class TestChunks:
    @pytest.mark.parametrize("max_bytes", [8, 9, 24, 1000])
    def test_chunks_put_together_are_the_tensors(self, max_bytes: int):
        reader, fetcher, arrays = model()
        parts: dict[str, list[Array]] = {}
        for chunk in reader.chunks(max_bytes=max_bytes):
            held = parts.setdefault(chunk.name, [])
            assert chunk.start == sum(part.size for part in held)
            assert chunk.stop - chunk.start == chunk.values.size > 0
            held.append(chunk.values)
        assert list(parts) == ["a", "c", "b"]  # in the order of their bytes; the library sorts by width
        for name, values in parts.items():
            np.testing.assert_array_equal(
                np.concatenate(values), arrays[name].ravel().astype(values[0].dtype)
            )
        assert fetcher.n_bytes == reader.index.n_bytes
        assert all(item.length <= max_bytes for _, item in fetcher.streamed)

    @given(
        dtype=st.sampled_from(["F4", "F6_E2M3", "U8", "BF16", "F64"]),
        groups=st.integers(0, 40),
        limit=st.integers(8, 40),
    )
    def test_packed_formats_are_cut_where_an_element_begins_on_a_byte(self, dtype, groups, limit):
        info = info_of((groups * 4,), dtype, start=3)
        data = np.random.default_rng(groups).bytes(info.stop)
        reader = TensorReader(index_of(info), RecordingFetcher({info.file: data}))
        got = [chunk.values for chunk in reader.chunks(max_bytes=limit, raw=True)]
        (whole,) = reader.raw([TensorSlice.whole("t")])
        assert np.concatenate([whole[:0], *got]).tobytes() == whole.tobytes()

    def test_only_named_tensors_are_walked(self):
        reader, fetcher, arrays = model()
        (chunk,) = reader.chunks(["b"], raw=True)
        np.testing.assert_array_equal(chunk.values, arrays["b"].view(np.uint16))
        assert len(fetcher.streamed) == 1

    def test_an_absent_name_is_refused_at_once(self):
        reader, _, _ = model()
        with pytest.raises(BadSelection, match="tensor 'z'"):
            reader.chunks(["z"])

    def test_a_chunk_too_small_for_an_element_is_refused(self):
        reader, _, _ = model()
        with pytest.raises(ValueError, match="max_bytes: expected at least 8, got 7"):
            reader.chunks(max_bytes=7)

    def test_a_fetcher_that_ends_early_is_noticed(self):
        class Short(RecordingFetcher):
            def stream(
                self, wanted: Iterable[tuple[str, ByteRange]], *, digested: bool = True
            ) -> Iterator[bytes]:
                requests = list(wanted)
                yield self.cut(*requests[0])

        reader, fetcher, _ = model()
        with pytest.raises(RuntimeError, match="the fetcher ended 2 ranges early"):
            list(TensorReader(reader.index, Short(fetcher.files)).chunks())

    def test_memory_depends_on_the_chunk_and_not_on_the_model(self):
        peaks = [peak_of_a_walk(size * MIB, chunk=MIB) for size in (8, 64)]
        # Of one chunk at a time: the bytes and, twice as long, the decoded BF16; two chunks can meet.
        assert peaks[1] < peaks[0] + MIB
        assert peaks[1] < 8 * MIB


class Zeros:
    """A file of any size that is nowhere."""

    def fetch(
        self, wanted: Mapping[str, Sequence[ByteRange]], *, max_waste: float | None = None
    ) -> RecordingFetched:
        raise AssertionError("a walk does not fetch")

    def stream(self, wanted: Iterable[tuple[str, ByteRange]], *, digested: bool = True) -> Iterator[bytes]:
        for _, item in wanted:
            yield bytes(item.length)

    def mapped(
        self, file: str, wanted: ByteRange, *, digested: bool = True
    ) -> AbstractContextManager[memoryview]:
        raise AssertionError("a walk maps nothing")


def peak_of_a_walk(n_bytes: int, *, chunk: int) -> int:
    rows = math.isqrt(n_bytes // 2)
    reader = TensorReader(index_of(info_of((rows, rows), "BF16")), Zeros())
    tracemalloc.start()
    try:
        total = sum(chunk.values.size for chunk in reader.chunks(max_bytes=chunk))
        assert total == rows * rows
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
