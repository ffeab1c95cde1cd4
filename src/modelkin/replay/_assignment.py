"""The best one-to-one matching of rows, for the search that the claim made without a null."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def best_matching(similarity: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return for each row its column, such that the sum of similarities is largest.

    Shortest augmenting paths with potentials: a row after the other is added, and the matching of those
    before it is rearranged along the cheapest path.

    References
    ----------
    Jonker and Volgenant, A shortest augmenting path algorithm for dense and sparse linear assignment
    problems, Computing 38, 1987.
    """
    n = len(similarity)
    cost = -similarity
    of_column = np.full(n, -1, dtype=np.intp)
    potential_row, potential_column = np.zeros(n), np.zeros(n)
    for start in range(n):
        distance = np.full(n, np.inf)
        came_from = np.full(n, -1, dtype=np.intp)
        done = np.zeros(n, dtype=np.bool_)
        row, column, reached = start, -1, 0.0
        while True:
            offer = reached + cost[row] - potential_row[row] - potential_column
            better = ~done & (offer < distance)
            distance[better] = offer[better]
            came_from[better] = column
            column = int(np.argmin(np.where(done, np.inf, distance)))
            reached = float(distance[column])
            done[column] = True
            if of_column[column] < 0:
                break
            row = int(of_column[column])
        inside = done.copy()
        inside[column] = False
        potential_column[done] += distance[done] - reached
        potential_row[of_column[inside]] += reached - distance[inside]
        potential_row[start] += reached
        while column >= 0:
            before = int(came_from[column])
            of_column[column] = of_column[before] if before >= 0 else start
            column = before
    places = np.empty(n, dtype=np.intp)
    places[of_column] = np.arange(n)
    return places


def matched_mean(rows_a: npt.NDArray[np.float64], rows_b: npt.NDArray[np.float64]) -> float:
    """Return the mean cosine of the best matching of two sets of rows."""
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (rows_a, rows_b))
    similarity = a @ b.T
    return float(similarity[np.arange(len(a)), best_matching(similarity)].mean())


def random_matchings(n_rows: int, width: int, *, draws: int, seed: int) -> npt.NDArray[np.float64]:
    """Return what the same search finds in rows of normal numbers, which have nothing in common."""
    random = np.random.default_rng(seed)
    return np.array(
        [
            matched_mean(random.normal(size=(n_rows, width)), random.normal(size=(n_rows, width)))
            for _ in range(draws)
        ]
    )
