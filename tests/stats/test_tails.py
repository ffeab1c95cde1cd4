"""Tails against values computed with 60 digits by another library, and against themselves."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.stats import log10_normal_tail, normal_quantile


@pytest.mark.parametrize(
    ("z", "expected"),
    [
        (-10.0, -3.3092601213067223e-24),
        (-1.0, -0.075026012957818023),
        (0.0, -0.3010299956639812),
        (1.96, -1.6020965578878513),
        (5.0, -6.5426456723906545),
        (24.9, -136.42944780517847),
        (25.1, -138.60438355869871),
        (37.0, -299.24218117860992),
        (40.0, -349.43700645934584),
        (1000.0, -217150.64004199439),
        (10000.0, -21714728.49425253),
    ],
)
def test_normal_tail_agrees_with_sixty_digits(z, expected):
    np.testing.assert_allclose(log10_normal_tail(z), expected, rtol=2e-13)


@given(st.floats(-1e9, -1e-6))
def test_the_quantile_inverts_the_tail(log10_p):
    np.testing.assert_allclose(log10_normal_tail(normal_quantile(log10_p)), log10_p, rtol=1e-9)


@given(st.floats(-8.0, 1e4), st.floats(1e-3, 1.0))
def test_the_tail_falls(z, step):
    assert log10_normal_tail(z + step) <= log10_normal_tail(z)


def test_the_quantile_of_one_is_finite():
    assert -9.0 < normal_quantile(0.0) < -8.0


@pytest.mark.parametrize("bad", [0.1, math.nan, -math.inf])
def test_a_quantile_of_nonsense_is_refused(bad):
    with pytest.raises(ValueError, match="expected a finite number of at most 0"):
        normal_quantile(bad)


def test_plain_quantiles_agree_with_the_standard_library():
    for p in (1e-200, 1e-6, 0.3, 0.9):
        expected = -statistics.NormalDist().inv_cdf(p)
        np.testing.assert_allclose(normal_quantile(math.log10(p)), expected, rtol=1e-12)
