"""Vectors whose mean, deviation and correlation are known exactly: published statistics as data."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def pair_with(
    *, mean_a: float, std_a: float, mean_b: float, std_b: float, r: float, n: int = 4096, seed: int = 0
) -> tuple[Floats, Floats]:
    """Return two vectors with these statistics, up to rounding in double precision."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, 2))]))
    u, w = basis[:, 1] * np.sqrt(n), basis[:, 2] * np.sqrt(n)
    return mean_a + std_a * u, mean_b + std_b * (r * u + np.sqrt(1.0 - r * r) * w)
