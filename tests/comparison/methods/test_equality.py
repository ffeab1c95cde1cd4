"""Counting equal values, without being fooled by what is equal between strangers."""

import numpy as np
import pytest

from modelkin.comparison.methods import EqualityCount, count_equal
from modelkin.comparison.methods.equality import ulp_distance
from modelkin.tensors import decode, encode

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=1000).astype(np.float32)
BF16 = decode(encode(VALUES, "BF16"), "BF16", 1000)


def test_a_copy_is_all_equal():
    count = count_equal([VALUES], [VALUES.copy()], dtypes=("F32", "F32"))
    assert (count.n_compared, count.n_equal) == (1000, 1000)
    assert count.all_equal


def test_strangers_are_not():
    count = count_equal([VALUES], [RNG.normal(size=1000).astype(np.float32)], dtypes=("F32", "F32"))
    assert count.n_equal == 0
    assert not count.all_equal


@pytest.mark.parametrize("constant", [np.ones(1000, np.float32), np.zeros(1000, np.float32)])
def test_constant_tensors_do_not_count(constant):
    count = count_equal([constant], [constant], dtypes=("F32", "F32"))
    assert count == EqualityCount()
    assert not count.all_equal


def test_a_few_equal_values_are_not_enough():
    assert not count_equal([VALUES[:100]], [VALUES[:100]], dtypes=("F32", "F32")).all_equal


def test_a_copy_in_another_precision_is_equal_after_rounding():
    count = count_equal([BF16], [VALUES], dtypes=("BF16", "F32"))
    assert count.n_equal < 1000
    assert count.n_equal_after_rounding == count.n_compared == VALUES.size
    assert not count.all_equal


def test_arrays_of_other_shapes_are_left_out():
    assert count_equal([VALUES], [VALUES[:10]], dtypes=("F32", "F32")).n_compared == 0


def test_ulps_count_steps_of_the_stored_format():
    bits = np.frombuffer(encode(BF16, "BF16"), np.uint16)
    moved = decode((bits + 3).astype(np.uint16).tobytes(), "BF16", 1000)
    steps = ulp_distance(BF16, moved, "BF16")
    assert steps is not None
    assert set(steps.tolist()) == {3}
    count = count_equal([BF16], [moved], dtypes=("BF16", "BF16"))
    assert (count.n_within_1_ulp, count.n_within_16_ulps, count.n_ulps_known) == (0, 1000, 1000)


def test_steps_across_zero_are_counted():
    small = np.array([np.float32(1e-45), np.float32(-1e-45), np.float32(0.0)])
    other = np.array([np.float32(-1e-45), np.float32(0.0), np.float32(-0.0)])
    steps = ulp_distance(small, other, "F32")
    assert steps is not None
    assert steps.tolist() == [2, 1, 0]


def test_formats_without_steps_have_no_ulps():
    assert ulp_distance(VALUES, VALUES, "I32") is None
