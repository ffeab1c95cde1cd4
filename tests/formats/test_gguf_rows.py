"""Rows that converters moved: any selection agrees with the whole, and only what it needs is read."""

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkin.formats.gguf.storage import (
    BlockRows,
    Groups,
    LatentUp,
    PickedNumbers,
    PickedRows,
    RopeRows,
    Straight,
    Turned,
)
from modelkin.formats.gguf.types import TYPES
from modelkin.options import FetchOptions
from modelkin.source import ByteRange, Fetcher, MemorySource
from modelkin.tensors import TensorIndex, TensorInfo, TensorReader, TensorSlice
from modelkin.tensors import _storage as tensors_storage

from .gguf_conversions import permuted

BY_NAME = {kind.name: kind for kind in TYPES.values()}
QUANTS = ["F32", "BF16", "Q4_0"]


def coded(values, name):
    kind = gguf.GGMLQuantizationType[name]
    data = gguf.quants.quantize(np.ascontiguousarray(values, np.float32), kind)
    return data.tobytes(), gguf.quants.dequantize(data.view(np.uint8), kind).reshape(values.shape)


def stored_matrix(values, name, *, file="f", before=b"abc"):
    data, decoded = coded(values, name)
    flat = decoded.reshape(-1, values.shape[-1])
    part = BlockRows(
        file=file, start=len(before), type=BY_NAME[name], n_rows=flat.shape[0], width=flat.shape[1]
    )
    return part, before + data + b"behind", flat


def reader_of(storage, shape, files):
    info = TensorInfo(name="t", dtype="X", shape=shape, file="f", start=0, stop=1, storage=storage)
    return TensorReader(TensorIndex([info]), Fetcher(MemorySource(files), FetchOptions()))


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def rope_case(name):
    part, data, flat = stored_matrix(normal(24, 64), name)
    whole = np.empty_like(flat)
    lines = permuted(np.arange(24), 3)
    whole[lines] = flat
    storage = PickedRows(parts=(part,), order=RopeRows(8), n_bytes=part.n_bytes)
    return storage, whole, {"f": data}


def groups_case(name):
    part, data, flat = stored_matrix(normal(40, 32), name)
    # 4 heads in 2 groups of 5 rows each: queries, then keys, then values.
    queries, keys, values = (
        flat[:20].reshape(2, 10, 32),
        flat[20:30].reshape(2, 5, 32),
        flat[30:].reshape(2, 5, 32),
    )
    whole = np.concatenate([queries, keys, values], axis=1).reshape(40, 32)
    order = Groups(sizes=(10, 5, 5), parts=(0, 0, 0), firsts=(0, 20, 30), head_dims=(0, 0, 0))
    return PickedRows(parts=(part,), order=order, n_bytes=part.n_bytes), whole, {"f": data}


def joined_case(name):
    parts, files, flats = [], {}, []
    for number, rows in enumerate((16, 8, 8)):
        part, data, flat = stored_matrix(normal(rows, 32, seed=number), name, file=f"f{number}")
        parts.append(part)
        files[f"f{number}"] = data
        flats.append(flat)
    back = [np.empty_like(flats[0]), np.empty_like(flats[1]), flats[2]]
    back[0][permuted(np.arange(16), 4)] = flats[0]
    back[1][permuted(np.arange(8), 2)] = flats[1]
    whole = np.concatenate([item.reshape(2, -1, 32) for item in back], axis=1).reshape(32, 32)
    order = Groups(sizes=(8, 4, 4), parts=(0, 1, 2), firsts=(0, 0, 0), head_dims=(4, 4, 0))
    return PickedRows(parts=tuple(parts), order=order, n_bytes=1), whole, files


def shifted_case(name):
    part, data, flat = stored_matrix(normal(6, 32), name)
    storage = PickedRows(parts=(part,), order=Straight(), n_bytes=part.n_bytes, shift=-1.0)
    return storage, flat - np.float32(1), {"f": data}


def turned_case(name):
    part, data, flat = stored_matrix(normal(10, 160), name)
    return Turned(stored=part), flat.T, {"f": data}


def latent_case(name):
    keys, key_data, key_rows = stored_matrix(normal(3 * 64, 32), name, file="k")
    values, value_data, value_rows = stored_matrix(normal(3 * 5, 64, seed=1), name, file="v")
    turned = key_rows.reshape(3, 64, 32).transpose(0, 2, 1)
    whole = np.concatenate([turned, value_rows.reshape(3, 5, 64)], axis=1).reshape(3 * 37, 64)
    return LatentUp(keys=keys, values=values, n_heads=3), whole, {"k": key_data, "v": value_data}


CASES = [rope_case, groups_case, joined_case, shifted_case, turned_case, latent_case]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("name", QUANTS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_selection_agrees_with_the_whole(case, name, data):
    storage, whole, files = case(name)
    reader = reader_of(storage, whole.shape, files)
    n_rows = whole.shape[0]
    rows = data.draw(st.lists(st.integers(0, n_rows - 1), max_size=6))
    first, last = sorted(data.draw(st.tuples(st.integers(0, n_rows), st.integers(0, n_rows))))
    start, stop = sorted(data.draw(st.tuples(st.integers(0, whole.size), st.integers(0, whole.size))))
    got = reader.read(
        [
            TensorSlice.whole("t"),
            TensorSlice.scattered("t", rows),
            TensorSlice.rows("t", first, last),
            TensorSlice.blocks("t", [(start, stop)]),
        ]
    )
    np.testing.assert_array_equal(got[0], whole)
    np.testing.assert_array_equal(got[1], whole[rows])
    np.testing.assert_array_equal(got[2], whole[first:last])
    np.testing.assert_array_equal(got[3], whole.reshape(-1)[start:stop])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_few_ranges_give_the_same(case, monkeypatch):
    monkeypatch.setattr(tensors_storage, "MOST_STRETCHES", 2)
    storage, whole, files = case("Q8_0")
    rows = list(range(0, whole.shape[0], 3))
    np.testing.assert_array_equal(reader_of(storage, whole.shape, files).read_one("t", rows), whole[rows])


def test_only_the_rows_of_the_lines_are_read():
    storage, _, files = rope_case("Q8_0")
    ranges = reader_of(storage, (24, 64), files).ranges([TensorSlice.rows("t", 0, 2)])
    assert ranges == {"f": [ByteRange(3, 3 + 68), ByteRange(3 + 2 * 68, 3 + 3 * 68)]}


def test_a_few_lines_of_a_turned_matrix_of_long_rows_cost_a_block_of_each_row(monkeypatch):
    monkeypatch.setattr(tensors_storage, "APART", 100)
    storage, _, files = turned_case("Q8_0")
    ranges = reader_of(storage, (160, 10), files).ranges([TensorSlice.rows("t", 33, 60)])
    assert ranges["f"] == [ByteRange(3 + row * 170 + 34, 3 + row * 170 + 68) for row in range(10)]


@pytest.mark.parametrize("apart", [64 << 10, 1], ids=["whole rows", "blocks of rows"])
@pytest.mark.parametrize("name", QUANTS)
@settings(max_examples=15, deadline=None)
@given(
    columns=st.tuples(st.integers(0, 8), st.integers(1, 9)).map(lambda ends: (min(ends), max(ends) + 1)),
    rows=st.sets(st.integers(0, 159), min_size=1).map(sorted),
)
def test_columns_of_a_turned_matrix_agree_with_the_whole(name, apart, columns, rows):
    storage, whole, files = turned_case(name)
    assert whole.shape == (160, 10)
    reader = reader_of(storage, whole.shape, files)
    window = TensorSlice.blocks("t", [(10 * row + columns[0], 10 * row + columns[1]) for row in rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors_storage, "APART", apart)
        got = reader.read([window])[0]
    np.testing.assert_array_equal(got, whole[rows, columns[0] : columns[1]].reshape(-1))


def test_columns_of_a_turned_matrix_cost_their_rows():
    storage, _, files = turned_case("Q8_0")
    window = TensorSlice.blocks("t", [(10 * row + 4, 10 * row + 7) for row in range(160)])
    ranges = reader_of(storage, (160, 10), files).ranges([window])
    assert ranges == {"f": [ByteRange(3 + 4 * 170, 3 + 7 * 170)]}


def test_a_vector_follows_the_rows_of_its_matrix():
    part, data, flat = stored_matrix(normal(1, 24), "F32")
    storage = PickedNumbers(parts=(part,), order=RopeRows(8), length=24, n_bytes=96)
    whole = np.empty(24, np.float32)
    whole[permuted(np.arange(24), 3)] = flat[0]
    reader = reader_of(storage, (24,), {"f": data})
    np.testing.assert_array_equal(reader.read_one("t"), whole)
    np.testing.assert_array_equal(reader.read_one("t", [5, 1]), whole[[5, 1]])
