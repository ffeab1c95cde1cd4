"""Views of a storage: any lines of any view are what numpy makes of the same numbers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from modelkin.formats.torch import layout as layout_module
from modelkin.formats.torch.layout import Strided, strided
from modelkin.source import ByteRange
from modelkin.tensors import ColumnStorage, LinePlan, line_elements, numbers_of, runs_of
from modelkin.tensors import _storage as tensors_storage

NUMBERS = np.arange(4000, dtype="<i4")


def lines_of(stored: Strided, runs: list[tuple[int, int]]) -> tuple[np.ndarray, list[ByteRange]]:
    """Plan and build lines; only planned bytes can be read."""
    return built(stored.plan(runs))


def built(plan: LinePlan) -> tuple[np.ndarray, list[ByteRange]]:
    data = b"head" + NUMBERS.tobytes()
    (ranges,) = plan.ranges.values()

    def view(file: str, wanted: ByteRange) -> bytes:
        assert any(item.contains(wanted) for item in ranges)
        return data[wanted.start : wanted.stop]

    return plan.build(view), list(ranges)


@st.composite
def views(draw: st.DrawFn) -> tuple[Strided, np.ndarray]:
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    strides = tuple(draw(st.integers(0, 90)) for _ in shape)
    stored = Strided(file="f", start=4, dtype="I32", shape=shape, strides=strides)
    return stored, as_strided(NUMBERS, shape, tuple(4 * step for step in strides))


@given(
    view=views(),
    data=st.data(),
    most=st.sampled_from([1, 3, 4096]),
    apart=st.sampled_from([4, 40, 64 << 10]),
    at_once=st.sampled_from([1, 7, 1 << 20]),
)
def test_lines_of_any_view_are_those_of_numpy(view, data, most, apart, at_once):
    stored, truth = view
    flat = truth.reshape(-1, line_elements(stored.shape))
    chosen = data.draw(st.sets(st.integers(0, len(flat) - 1), min_size=1))
    runs = runs_of(np.array(sorted(chosen), np.int64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors_storage, "MOST_STRETCHES", most)
        patch.setattr(layout_module, "APART", apart)
        patch.setattr(layout_module, "_AT_ONCE", at_once)
        got, ranges = lines_of(stored, runs)
    assert len(ranges) <= most or stored.strides[-1] > 1
    assert all(one.stop < other.start for one, other in pairwise(ranges))
    np.testing.assert_array_equal(got, flat[numbers_of(runs)], strict=True)


def test_a_whole_transposed_matrix_is_one_range():
    stored = Strided(file="f", start=4, dtype="I32", shape=(40, 60), strides=(1, 40))
    got, ranges = lines_of(stored, [(0, 40)])
    assert ranges == [ByteRange(4, 4 + 4 * 2400)]
    np.testing.assert_array_equal(got, NUMBERS[:2400].reshape(60, 40).T)


def test_neighbouring_lines_of_a_transposed_matrix_share_their_ranges(monkeypatch):
    monkeypatch.setattr(layout_module, "APART", 4)
    stored = Strided(file="f", start=4, dtype="I32", shape=(40, 60), strides=(1, 40))
    _, ranges = lines_of(stored, [(3, 7)])
    assert len(ranges) == 60
    assert {item.length for item in ranges} == {16}


def test_bytes_count_every_place_of_an_element():
    stored = Strided(file="f", start=4, dtype="I32", shape=(3, 5), strides=(0, 1))
    assert stored.n_bytes == 60


def matrix(shape: tuple[int, int], strides: tuple[int, int]) -> Strided:
    return strided(file="f", start=4, dtype="I32", shape=shape, strides=strides)


@given(
    columns=st.tuples(st.integers(0, 58), st.integers(1, 59)).map(lambda ends: (min(ends), max(ends) + 1)),
    rows=st.sets(st.integers(0, 39), min_size=1),
)
def test_columns_of_a_transposed_matrix_are_those_of_numpy(columns, rows):
    stored = matrix((40, 60), (1, 45))
    assert isinstance(stored, ColumnStorage)
    chosen = np.array(sorted(rows), np.int64)
    got, _ = built(stored.plan_window(runs_of(chosen), columns))
    truth = as_strided(NUMBERS, (40, 60), (4, 180))
    np.testing.assert_array_equal(got, truth[chosen, columns[0] : columns[1]], strict=True)


def test_columns_of_a_transposed_matrix_cost_their_bytes():
    stored = matrix((40, 60), (1, 40))
    assert isinstance(stored, ColumnStorage)
    _, ranges = built(stored.plan_window([(0, 40)], (10, 15)))
    assert ranges == [ByteRange(4 + 4 * 400, 4 + 4 * 600)]


def test_other_views_are_read_by_lines():
    assert not isinstance(matrix((40, 60), (80, 1)), ColumnStorage)
    assert not isinstance(matrix((40, 60), (0, 1)), ColumnStorage)
