"""The search for the best matching of rows that the claim made without a null."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modelkin.stats import best_pairing


def matched_mean(rows_a: npt.NDArray[np.float64], rows_b: npt.NDArray[np.float64]) -> float:
    """Return the mean cosine of the best matching of two sets of rows."""
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (rows_a, rows_b))
    similarity = a @ b.T
    return float(similarity[np.arange(len(a)), best_pairing(similarity)].mean())


def random_matchings(n_rows: int, width: int, *, draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Return what the same search finds in rows of normal numbers, which have nothing in common."""
    random = np.random.default_rng(seed)
    return np.array(
        [
            matched_mean(random.normal(size=(n_rows, width)), random.normal(size=(n_rows, width)))
            for _ in range(draws)
        ]
    )
