"""The identity behind the dispute of January 2026, on its published numbers and on any vectors."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modelkin.stats import cosine_decomposition

Rows = npt.NDArray[Any]
# Solar-Open-100B and GLM-4.5-Air as published: cosine, shuffled cosine, Pearson, mean and sd of either.
PUBLISHED = {
    "layer 0, input norm": (0.1272474, 0.1368323, -0.0132879, 0.01625246, 0.04056622, 0.01087196, 0.02705004),
    "layer 0, post norm": (0.8538606, 0.8537581, -0.0090453, 0.14563042, 0.06360137, 0.06551524, 0.02523721),
    "layer 10, input norm": (0.9810945, 0.9808289, 0.0091867, 0.23573653, 0.04095647, 0.49698755, 0.04654687),
    "layer 10, post norm": (0.9874211, 0.9874945, -0.0057666, 0.33874843, 0.04011907, 0.94758511, 0.10075895),
    "layer 20, input norm": (0.9917915, 0.9915339, 0.0180730, 0.32199442, 0.03161871, 0.64785111, 0.05503112),
    "layer 20, post norm": (0.9943959, 0.9943403, 0.0121362, 0.46747351, 0.03577572, 1.37902069, 0.10277063),
}


def vectors(moments: Sequence[float], pearson: float, n: int = 4096) -> tuple[Rows, Rows]:
    """Make two vectors with exactly these means and standard deviations, and this correlation."""
    mean_a, sd_a, mean_b, sd_b = moments
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(np.column_stack([np.ones(n), rng.standard_normal((n, 2))]))
    first, second = basis[:, 1] * np.sqrt(n), basis[:, 2] * np.sqrt(n)
    return mean_a + sd_a * first, mean_b + sd_b * (pearson * first + np.sqrt(1.0 - pearson**2) * second)


@pytest.mark.parametrize("case", PUBLISHED)
def test_published_cosines_follow_from_means_and_correlation(case):
    cosine, shuffled, pearson, *moments = PUBLISHED[case]
    a, b = vectors(moments, pearson)
    parts = cosine_decomposition(candidate=a, base=b)
    np.testing.assert_allclose(parts.cosine, cosine, atol=1e-6)
    assert parts.pearson == pytest.approx(pearson, abs=1e-6)
    # One shuffle was published; its expectation is the mean direction part.
    np.testing.assert_allclose(parts.mean_direction_part, shuffled, atol=3e-3)
    assert abs(parts.excess_cosine) < 0.013


def test_the_first_layer_is_low_because_its_mean_is_not_because_it_differs():
    _, _, pearson, *moments = PUBLISHED["layer 0, input norm"]
    a, b = vectors(moments, pearson)
    parts = cosine_decomposition(candidate=a, base=b)
    np.testing.assert_allclose([parts.rho_candidate, parts.rho_base], [0.372, 0.373], atol=6e-4)
    np.testing.assert_allclose(parts.mean_direction_part, 0.139, atol=6e-4)


def test_random_gains_near_one_have_a_cosine_of_almost_one_and_no_correlation():
    rng = np.random.default_rng(5)
    a, b = 1.0 + 0.01 * rng.standard_normal((2, 4096))
    parts = cosine_decomposition(candidate=a, base=b)
    np.testing.assert_allclose(parts.cosine, 0.9999, atol=2e-5)
    assert parts.room < 1.1e-4
    assert parts.pearson == pytest.approx(0.0, abs=0.06)
    np.testing.assert_allclose(parts.mean_direction_part, parts.cosine, atol=1e-5)


VECTORS = hnp.arrays(np.float64, 12, elements=st.floats(-100.0, 100.0, allow_subnormal=False, width=32))


@given(VECTORS, VECTORS)
def test_the_parts_add_up_to_the_cosine(a, b):
    if not (np.abs(a).max() > 1e-3 and np.abs(b).max() > 1e-3):
        return
    parts = cosine_decomposition(candidate=a, base=b)
    np.testing.assert_allclose(parts.mean_direction_part + parts.correlated_part, parts.cosine, atol=1e-12)
    np.testing.assert_allclose(parts.cosine, a @ b / np.sqrt((a @ a) * (b @ b)), atol=1e-12)


def test_the_correlation_is_pearsons():
    rng = np.random.default_rng(1)
    a = rng.standard_normal(50) + 3.0
    b = 0.5 * a + rng.standard_normal(50)
    parts = cosine_decomposition(candidate=a, base=b)
    assert parts.pearson == pytest.approx(np.corrcoef(a, b)[0, 1], rel=1e-12)


def test_the_mean_direction_part_is_the_mean_over_all_shuffles():
    a, b = np.array([1.0, 2.0, 4.0, 1.5, -1.0]), np.array([2.0, 3.0, -1.0, 0.5, 4.0])
    cosines = [a[list(order)] @ b / np.sqrt((a @ a) * (b @ b)) for order in permutations(range(5))]
    parts = cosine_decomposition(candidate=a, base=b)
    np.testing.assert_allclose(np.mean(cosines), parts.mean_direction_part, rtol=1e-12)


def test_a_constant_vector_has_no_correlation():
    parts = cosine_decomposition(candidate=[1.0, 1.0, 1.0], base=[1.0, 2.0, 3.0])
    assert parts.pearson is None
    assert str(parts.reason) == "candidate: all values are equal"
    np.testing.assert_allclose(parts.cosine, parts.mean_direction_part)
    assert parts.correlated_part == 0.0


def test_half_precision_is_computed_in_double():
    a = np.linspace(0.9, 1.1, 4096).astype(np.float16)
    parts = cosine_decomposition(candidate=a, base=a)
    assert parts.cosine == pytest.approx(1.0, rel=1e-13)
    assert parts.pearson == pytest.approx(1.0, rel=1e-13)


def test_vectors_without_a_cosine_are_refused():
    with pytest.raises(ValueError, match="base: the vector is zero"):
        cosine_decomposition(candidate=[1.0, 2.0], base=[0.0, 0.0])
    with pytest.raises(ValueError, match="candidate: expected finite values"):
        cosine_decomposition(candidate=[1.0, np.nan], base=[0.0, 1.0])
    with pytest.raises(ValueError, match="base: expected a vector of length 2, got 3"):
        cosine_decomposition(candidate=[1.0, 2.0], base=[0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="candidate: expected a vector"):
        cosine_decomposition(candidate=[[1.0]], base=[1.0])
