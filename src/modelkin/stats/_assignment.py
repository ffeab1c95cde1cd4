"""The best pairing of rows with columns: shortest augmenting paths, one row after another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def best_pairing(gain: Floats) -> npt.NDArray[np.intp]:
    """Return for each row its column, each used once, so that the sum of the gains is largest.

    The gains are a square of finite numbers.

    Examples
    --------
    >>> best_pairing(np.array([[1.0, 0.9], [0.8, 0.1]])).tolist()
    [1, 0]
    """
    n = len(gain)
    if gain.shape != (n, n) or not np.isfinite(gain).all():
        raise ValueError(f"gain: expected a square of finite numbers, got shape {gain.shape}")
    cost = gain.max(initial=0.0) - gain
    row_price, column_price = np.zeros(n), np.zeros(n)
    column_of, row_of = np.full(n, -1), np.full(n, -1)
    for start in range(n):
        shortest, before = np.full(n, np.inf), np.full(n, -1)
        done = np.zeros(n, dtype=np.bool_)
        visited = [start]
        row, reached, end = start, 0.0, -1
        while end < 0:
            through = reached + cost[row] - row_price[row] - column_price
            better = ~done & (through < shortest)
            shortest[better], before[better] = through[better], row
            column = int(np.argmin(np.where(done, np.inf, shortest)))
            reached = float(shortest[column])
            done[column] = True
            if row_of[column] < 0:
                end = column
            else:
                row = int(row_of[column])
                visited.append(row)
        # Prices that keep every chosen pair tight, and none below.
        row_price[start] += reached
        for other in visited[1:]:
            row_price[other] += reached - shortest[column_of[other]]
        column_price[done] -= reached - shortest[done]
        while end >= 0:
            row = int(before[end])
            row_of[end] = row
            column_of[row], end = end, int(column_of[row])
            if row == start:
                break
    return column_of.astype(np.intp)
