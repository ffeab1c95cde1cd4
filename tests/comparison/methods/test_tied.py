"""Units whose strongest feature moves along with their number are tied by design; chance ties none."""

import numpy as np
import pytest

from modelkin.comparison.methods.tied import is_tied


def units(n, rho, seed=0):
    """Return units whose strongest features have a rank correlation with their order."""
    noise = np.random.default_rng(seed).permutation(n)
    low, high = 0.0, 64.0
    for _ in range(60):
        slope = (low + high) / 2
        places = np.argsort(np.argsort(noise + slope * np.arange(n)))
        reached = np.corrcoef(places, np.arange(n))[0, 1]
        low, high = (slope, high) if reached < rho else (low, slope)
    rows = np.full((n, n), 0.1, np.float32)
    rows[np.arange(n), places] = 1.0
    return rows, float(reached)


@pytest.mark.parametrize(("z", "tied"), [(4.0, False), (6.0, True), (-6.0, True)])
def test_many_units_are_tied_from_five_deviations_on(z, tied):
    n = 397  # a prime: no other pattern to find
    rows, rho = units(n, abs(z) / np.sqrt(n - 1))
    assert rho * np.sqrt(n - 1) == pytest.approx(abs(z), abs=0.2)
    assert is_tied(rows if z > 0 else rows[::-1]) == tied


@pytest.mark.parametrize(("rho", "tied"), [(0.6, False), (0.9, True)])
def test_few_units_are_tied_by_their_correlation(rho, tied):
    """Of 13 units, z cannot reach five."""
    rows, reached = units(13, rho)
    assert reached == pytest.approx(rho, abs=0.08)
    assert is_tied(rows) == tied
