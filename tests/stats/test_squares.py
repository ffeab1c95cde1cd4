"""Sums of squares are fast where single precision is enough, and right where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from modelkin.stats import of_length_one, root_mean_square, row_norms

CLOSE = 1e-5


def rows(*shape: int, size: float = 1.0) -> np.ndarray:
    return np.random.default_rng(shape[-1]).standard_normal(shape, dtype=np.float32) * np.float32(size)


@pytest.mark.parametrize("width", [1, 7, 4_096, 14_336, 50_000])
@pytest.mark.parametrize("size", [1e-35, 1e-15, 0.02, 1.0, 1e15, 1e30])
def test_norms_are_those_of_double_precision(width, size):
    values = rows(9, width, size=size)
    expected = np.linalg.norm(values.astype(np.float64), axis=1)
    assert row_norms(values) == pytest.approx(expected, rel=CLOSE)
    assert row_norms(values.astype(np.float64)) == pytest.approx(expected, rel=1e-12)


def test_rows_of_very_unlike_sizes_do_not_disturb_each_other():
    values = rows(4, 64)
    values[0] *= np.float32(1e-30)
    values[1] *= np.float32(1e30)
    values[2] = 0.0
    norms = row_norms(values)
    assert norms == pytest.approx(np.linalg.norm(values.astype(np.float64), axis=1), rel=CLOSE)
    units = of_length_one(values, norms)
    assert np.linalg.norm(units, axis=1) == pytest.approx([1.0, 1.0, 0.0, 1.0], rel=CLOSE)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_not_finite_shows_in_its_row_alone(bad):
    values = rows(3, 64)
    values[1, 5] = bad
    assert np.isfinite(row_norms(values)).tolist() == [True, False, True]


def test_large_numbers_that_are_alike_lose_no_digits():
    values = np.full((2, 14_336), 0.7, np.float32)
    assert row_norms(values) == pytest.approx([0.7 * np.sqrt(14_336)] * 2, rel=CLOSE)


@pytest.mark.parametrize("n", [0, 5, 4_096, (1 << 20) - 3, 3_000_001])
def test_the_mean_square_of_anything_is_that_of_its_numbers(n):
    values = rows(1, n)
    expected = np.sqrt(np.mean(np.square(values, dtype=np.float64))) if n else 0.0
    assert root_mean_square(values) == pytest.approx(expected, rel=CLOSE)
    assert root_mean_square(values.T) == pytest.approx(expected, rel=CLOSE)
    assert root_mean_square(values[0, ::2]) == pytest.approx(
        np.sqrt(np.mean(np.square(values[0, ::2], dtype=np.float64))) if n else 0.0, rel=CLOSE
    )
