"""Tensors that are not plain runs of their numbers: any selection agrees with the whole."""

import itertools
import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.options import FetchOptions
from modelkin.source import ByteRange, Fetcher, MemorySource
from modelkin.tensors import (
    Array,
    LinePlan,
    LineRuns,
    TensorIndex,
    TensorInfo,
    TensorReader,
    TensorSlice,
    View,
    across_rows,
    count_lines,
    few_stretches,
    line_elements,
    numbers_of,
    runs_of,
)
from modelkin.tensors import _storage as storage_module


@dataclass(frozen=True)
class Halves:
    """Numbers as int8 in one file, with one scale for each line in another."""

    shape: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) + 4 * count_lines(self.shape)

    def plan(self, runs: LineRuns) -> LinePlan:
        width = line_elements(self.shape)
        codes = [ByteRange(3 + start * width, 3 + stop * width) for start, stop in runs if width]
        scales = [ByteRange(4 * start, 4 * stop) for start, stop in runs]
        return LinePlan(
            ranges={"codes": codes, "scales": scales}, build=partial(self._build, codes, scales, width)
        )

    def _build(self, codes: list[ByteRange], scales: list[ByteRange], width: int, view: View) -> Array:
        read = np.frombuffer(b"".join(bytes(view("codes", item)) for item in codes), np.int8)
        scale = np.frombuffer(b"".join(bytes(view("scales", item)) for item in scales), np.float32)
        return read.reshape(-1, width).astype(np.float32) * scale[:, None]


def stored(shape: tuple[int, ...], *, dtype: str = "INT8", seed: int = 0) -> tuple[TensorReader, Array]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(-100, 100, shape or (1,), dtype=np.int8)
    scales = rng.choice(np.array([0.5, 1.0, 2.0], np.float32), count_lines(shape))
    files = {"codes": b"abc" + codes.tobytes() + b"tail", "scales": scales.tobytes()}
    info = TensorInfo(
        name="t", dtype=dtype, shape=shape, file="codes", start=3, stop=3 + codes.size, storage=Halves(shape)
    )
    reader = TensorReader(TensorIndex([info]), Fetcher(MemorySource(files), FetchOptions()))
    whole = codes.reshape(-1, line_elements(shape)).astype(np.float32) * scales[:, None]
    return reader, whole.reshape(shape)


SHAPES = st.lists(st.integers(1, 6), min_size=0, max_size=3).map(tuple)


@given(shape=SHAPES, seed=st.integers(0, 9), data=st.data())
def test_any_selection_agrees_with_the_whole(shape, seed, data):
    reader, whole = stored(shape, seed=seed)
    n_rows = shape[0] if shape else 1
    rows = data.draw(st.lists(st.integers(0, n_rows - 1), max_size=8))
    first = data.draw(st.integers(0, n_rows))
    last = data.draw(st.integers(first, n_rows))
    size = whole.size
    blocks = data.draw(
        st.lists(st.tuples(st.integers(0, size), st.integers(0, size)).map(sorted), max_size=5)
    )
    got = reader.read(
        [
            TensorSlice.whole("t"),
            TensorSlice.rows("t", first, last),
            TensorSlice.scattered("t", rows),
            TensorSlice.blocks("t", blocks),
        ]
    )
    by_row = whole if shape else whole.reshape(1)
    np.testing.assert_array_equal(got[0], whole, strict=True)
    np.testing.assert_array_equal(got[1], by_row[first:last], strict=True)
    np.testing.assert_array_equal(got[2], by_row[rows], strict=True)
    flat = whole.reshape(-1)
    np.testing.assert_array_equal(
        got[3], np.concatenate([flat[:0], *(flat[start:stop] for start, stop in blocks)]), strict=True
    )


@given(shape=SHAPES, max_bytes=st.integers(8, 100))
def test_chunks_cover_a_tensor_in_order(shape, max_bytes):
    reader, whole = stored(shape)
    chunks = list(reader.chunks(max_bytes=max_bytes))
    assert [chunk.start for chunk in chunks] == [0, *(chunk.stop for chunk in chunks[:-1])]
    np.testing.assert_array_equal(np.concatenate([chunk.values for chunk in chunks]), whole.reshape(-1))
    limit = max(max_bytes, 4 * line_elements(shape))
    assert all(chunk.values.nbytes <= limit for chunk in chunks)


def test_only_the_wanted_lines_are_read():
    reader, _ = stored((8, 10))
    assert reader.ranges([TensorSlice.rows("t", 2, 4)]) == {
        "codes": [ByteRange(23, 43)],
        "scales": [ByteRange(8, 16)],
    }


def test_a_stretch_costs_its_lines():
    reader, whole = stored((8, 10))
    wanted = TensorSlice.blocks("t", [(25, 31)])
    assert reader.ranges([wanted])["codes"] == [ByteRange(23, 43)]
    np.testing.assert_array_equal(reader.read([wanted])[0], whole.reshape(-1)[25:31])


def test_raw_bits_of_codes_are_those_of_the_numbers():
    reader, whole = stored((3, 4))
    np.testing.assert_array_equal(reader.raw([TensorSlice.whole("t")])[0], whole.view(np.uint32))


def test_raw_bits_of_rearranged_numbers_are_as_wide_as_their_format():
    reader, whole = stored((3, 4), dtype="F16")
    expected = whole.astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(reader.raw([TensorSlice.whole("t")])[0], expected, strict=True)


def test_an_empty_selection_reads_nothing():
    reader, _ = stored((3, 4))
    assert reader.read([TensorSlice.rows("t", 1, 1)])[0].shape == (0, 4)
    assert reader.raw([TensorSlice.rows("t", 1, 1)])[0].dtype == np.uint32


def test_a_storage_that_returns_too_little_is_found_out():
    class Short(Halves):
        def _build(self, *args: object) -> Array:
            return super()._build(*args)[:-1]  # type: ignore[arg-type]

    reader, _ = stored((3, 4))
    info = reader.index["t"]
    broken = TensorInfo(
        name="t", dtype="INT8", shape=(3, 4), file="codes", start=3, stop=15, storage=Short((3, 4))
    )
    reader = TensorReader(TensorIndex([broken]), reader._fetcher)
    with pytest.raises(RuntimeError, match="expected lines"):
        reader.read_one("t")
    assert info.n_bytes == 24
    assert info.is_float
    assert info.row_bits == 64


class ByColumns(Halves):
    """The same numbers, but any columns can be left out."""

    def plan_window(self, runs: LineRuns, columns: tuple[int, int]) -> LinePlan:
        lines = self.plan(runs)
        return LinePlan(
            ranges=lines.ranges, build=lambda view: lines.build(view)[:, columns[0] : columns[1]].copy()
        )


@given(
    columns=st.tuples(st.integers(0, 6), st.integers(0, 6)).map(sorted),
    rows=st.sets(st.integers(0, 4), min_size=1).map(sorted),
)
def test_columns_are_left_out_where_a_storage_can_do_so(columns, rows):
    reader, whole = stored((5, 6))
    info = replace(reader.index["t"], storage=ByColumns((5, 6)))
    assert info.columns_first
    assert not reader.index["t"].columns_first
    reader = TensorReader(TensorIndex([info]), reader._fetcher)
    window = TensorSlice.blocks("t", [(6 * row + columns[0], 6 * row + columns[1]) for row in rows])
    np.testing.assert_array_equal(reader.read([window])[0], whole[rows, columns[0] : columns[1]].reshape(-1))
    long = TensorSlice.blocks("t", [(4, 15)])  # goes on in the next line: all columns
    np.testing.assert_array_equal(reader.read([long])[0], whole.reshape(-1)[4:15])


@given(numbers=st.sets(st.integers(0, 40)).map(sorted))
def test_runs_and_numbers_are_inverse(numbers):
    runs = runs_of(np.array(numbers, np.int64))
    assert numbers_of(runs).tolist() == numbers
    assert all(stop < start for (_, stop), (start, _) in itertools.pairwise(runs))


@given(
    rows=st.sets(st.integers(0, 300), min_size=1).map(sorted),
    most=st.integers(1, 9),
    apart=st.sampled_from([0, 1, 20]),
)
def test_stretches_hold_all_rows_and_are_few_or_far_apart(rows, most, apart):
    starts = np.array(rows, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage_module, "MOST_STRETCHES", most)
        firsts, lasts = few_stretches(starts, starts + 1, apart=apart)
    runs = list(zip(firsts.tolist(), lasts.tolist(), strict=True))
    assert set(rows) <= set(numbers_of(runs).tolist())
    assert {firsts[0], lasts[-1] - 1} == {rows[0], rows[-1]}
    assert all(start - stop >= max(1, apart) for (_, stop), (start, _) in itertools.pairwise(runs))
    assert apart or len(runs) <= most


def test_the_widest_gaps_are_left_out(monkeypatch):
    monkeypatch.setattr(storage_module, "MOST_STRETCHES", 3)
    starts = np.array([0, 2, 50, 52, 200])
    firsts, lasts = few_stretches(starts, starts + 1)
    assert [*zip(firsts.tolist(), lasts.tolist(), strict=True)] == [(0, 3), (50, 53), (200, 201)]


def test_columns_far_apart_are_read_one_by_one_and_others_with_their_row():
    row = 1 << 20
    assert across_rows([(0, 8), (12, 16), (2_000, 2_001)], 4_096, row) == [(0, 16), (2_000, 2_001)]
    assert across_rows([(0, 8), (4_000, 4_001)], 4_096, row) == [(0, 8), (4_000, 4_001)]
    assert across_rows([(0, 3_900)], 4_096, row) == [(0, 4_096)]
    assert across_rows([(7, 8)], 4_096, 64 << 10) == [(0, 4_096)]
