"""The guard against streams that are tied by design is the same at every width."""

from __future__ import annotations

import numpy as np
import pytest

from modelkin.comparison.methods.tied import is_tied

WIDTHS = (96, 128, 256, 1_024, 4_096, 5_120, 8_192)
BLOCK = 256
"""Dimensions that `residual-writers` reads of a wide stream."""


def halves(width: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Divide a run of dimensions at random, as `residual-writers` does."""
    n = min(BLOCK, width)
    order = rng.permutation(n)
    first = int(rng.integers(0, width - n + 1))
    return np.sort(order[n // 2 :]) + first, np.sort(order[: n // 2]) + first


@pytest.mark.parametrize("width", WIDTHS)
def test_independent_rows_of_a_run_are_never_called_tied(width):
    rng = np.random.default_rng(width)
    for _ in range(50):
        units, features = halves(width, rng)
        rows = rng.standard_normal((len(units), len(features)))
        assert not is_tied(rows, units=units, features=features, width=width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("period", [2, 4, 8, 16])
def test_a_tiled_stream_is_called_tied_at_every_width(width, period):
    rng = np.random.default_rng(period)
    for _ in range(5):
        units, features = halves(width, rng)
        alike = units[:, None] % period == features[None] % period
        rows = rng.standard_normal(alike.shape) * np.where(alike, 3.0, 0.3)
        assert is_tied(rows, units=units, features=features, width=width)
