from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tensors.fakes import info_of

from modelkin.errors import BadSelection
from modelkin.source import ByteRange, merged
from modelkin.source.ranges import total_length
from modelkin.tensors import DTYPES, Array, SlicePlan, TensorInfo, TensorSlice, decode, plan_slice, raw_bits
from modelkin.tensors.slices import PlainStretches

NAMES = ["F4", "F6_E2M3", "F6_E3M2", "U8", "BF16", "F32", "F64", "C64", "BOOL"]


@st.composite
def tensors(draw):
    """A tensor somewhere in a file, with that file and its numbers, decoded as a whole."""
    dtype = draw(st.sampled_from(NAMES))
    shape = tuple(draw(st.lists(st.integers(0, 6), max_size=3)))
    start = draw(st.integers(0, 9))
    info = info_of(shape, dtype, start=start)
    file = np.random.default_rng(draw(st.integers(0, 99))).bytes(info.stop + 5)
    count = math.prod(shape)
    return info, file, raw_bits(file[start:], dtype, count).reshape(shape)


def bits_of(wanted: TensorSlice, info: TensorInfo, file: bytes) -> tuple[SlicePlan, Array]:
    plan = plan_slice(wanted, info)
    for item in ranges_of(plan):
        assert info.start <= item.start < item.stop <= info.stop
    return plan, plan.assemble(lambda _, item: file[item.start : item.stop], raw=True)


def ranges_of(plan: SlicePlan) -> list[ByteRange]:
    assert set(plan.ranges) <= {plan.info.file}
    return list(plan.ranges.get(plan.info.file, []))


def as_rows(info: TensorInfo, whole: Array) -> Array:
    return whole if info.shape else whole.reshape(1)


class TestAgainstNumpy:
    @given(tensor=tensors())
    def test_a_whole_tensor(self, tensor):
        info, file, whole = tensor
        plan, got = bits_of(TensorSlice.whole("t"), info, file)
        np.testing.assert_array_equal(got, whole, strict=True)
        assert total_length(ranges_of(plan)) == info.n_bytes
        values = plan.assemble(lambda _, item: file[item.start : item.stop])
        expected = decode(file[info.start :], info.dtype, info.n_elements).reshape(info.shape)
        assert values.tobytes() == expected.tobytes()

    @given(tensor=tensors(), cut=st.data())
    def test_a_range_of_rows(self, tensor, cut):
        info, file, whole = tensor
        start = cut.draw(st.integers(0, info.n_rows))
        stop = cut.draw(st.integers(start, info.n_rows))
        _, got = bits_of(TensorSlice.rows("t", start, stop), info, file)
        np.testing.assert_array_equal(got, as_rows(info, whole)[start:stop], strict=True)

    @given(tensor=tensors(), cut=st.data())
    def test_scattered_rows(self, tensor, cut):
        info, file, whole = tensor
        rows = cut.draw(st.lists(st.integers(0, info.n_rows - 1), max_size=12)) if info.n_rows else []
        _, got = bits_of(TensorSlice.scattered("t", rows), info, file)
        np.testing.assert_array_equal(got, as_rows(info, whole)[np.asarray(rows, int)], strict=True)

    @given(tensor=tensors(), cut=st.data())
    def test_blocks(self, tensor, cut):
        info, file, whole = tensor
        n = info.n_elements
        pairs = cut.draw(st.lists(st.tuples(st.integers(0, n), st.integers(0, n)).map(sorted), max_size=5))
        _, got = bits_of(TensorSlice.blocks("t", pairs), info, file)
        flat = whole.reshape(-1)
        expected = np.concatenate([flat[:0], *(flat[start:stop] for start, stop in pairs)])
        np.testing.assert_array_equal(got, expected, strict=True)


class TestBytes:
    @given(tensor=tensors(), cut=st.data())
    def test_of_whole_byte_formats_only_the_wanted_bytes_are_read(self, tensor, cut):
        info, file, _ = tensor
        if DTYPES[info.dtype].bits < 8:
            return
        rows = cut.draw(st.lists(st.integers(0, info.n_rows - 1), max_size=12)) if info.n_rows else []
        plan, _ = bits_of(TensorSlice.scattered("t", rows), info, file)
        assert total_length(merged(ranges_of(plan))) == len(set(rows)) * info.row_bits // 8

    @given(tensor=tensors(), cut=st.data())
    def test_of_packed_formats_at_most_one_group_more_is_read(self, tensor, cut):
        info, file, _ = tensor
        start = cut.draw(st.integers(0, info.n_rows))
        stop = cut.draw(st.integers(start, info.n_rows))
        plan, _ = bits_of(TensorSlice.rows("t", start, stop), info, file)
        needed = (stop - start) * info.row_bits / 8
        assert needed <= total_length(ranges_of(plan)) < needed + DTYPES[info.dtype].group_bytes + 1

    def test_neighbouring_rows_are_one_range(self):
        plan = plan_slice(TensorSlice.scattered("t", [7, 3, 4, 5, 4, 9]), info_of((10, 2), "F32", start=100))
        assert [(item.start, item.stop) for item in ranges_of(plan)] == [(124, 148), (156, 164), (172, 180)]

    def test_a_row_that_begins_inside_a_byte_is_widened(self):
        plan = plan_slice(TensorSlice.rows("t", 1, 2), info_of((4, 3), "F4", start=10))
        assert isinstance(plan.stretches, PlainStretches)
        (piece,) = plan.stretches.pieces
        assert (piece.range.start, piece.range.stop, piece.skip, piece.count) == (11, 13, 1, 3)

    def test_rows_without_elements_cost_nothing(self):
        plan = plan_slice(TensorSlice.scattered("t", [2, 1]), info_of((3, 0), "F32"))
        assert plan.ranges == {}
        assert plan.assemble(lambda *_: b"").shape == (2, 0)


class TestRefusals:
    INFO = info_of((10, 2))

    @pytest.mark.parametrize(("start", "stop"), [(-1, 3), (0, 11), (5, 4), (-3, -1), (10**30, 10**30)])
    def test_a_range_that_the_tensor_does_not_have(self, start: int, stop: int):
        with pytest.raises(
            BadSelection, match=f"expected rows with 0 <= start <= stop <= 10, got {start} to {stop}"
        ):
            plan_slice(TensorSlice.rows("t", start, stop), self.INFO)

    @pytest.mark.parametrize("row", [-1, 10, 10**30])
    def test_a_row_that_the_tensor_does_not_have(self, row: int):
        with pytest.raises(BadSelection, match=f"tensor 't': expected rows from 0 up to 9, got {row}"):
            plan_slice(TensorSlice.scattered("t", [0, row]), self.INFO)

    @pytest.mark.parametrize("block", [(-1, 3), (0, 21), (5, 4)])
    def test_a_block_that_the_tensor_does_not_have(self, block: tuple[int, int]):
        with pytest.raises(BadSelection, match="expected elements with 0 <= start <= stop <= 20"):
            plan_slice(TensorSlice.blocks("t", [(0, 1), block]), self.INFO)

    def test_a_fraction_of_a_row(self):
        with pytest.raises(TypeError, match="float"):
            TensorSlice.scattered("t", [1.5])  # type: ignore[list-item]


def test_rows_given_as_numpy_integers_are_the_same_slice():
    assert TensorSlice.scattered("t", np.array([3, 1])) == TensorSlice.scattered("t", [3, 1])
