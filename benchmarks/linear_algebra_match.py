"""Ways to match the rows of two matrices one to one by their cosines, in numpy unless they say otherwise.

If the largest entries of all rows lie in different columns, they are the best assignment: no other can have
a larger sum. Solvers of the assignment problem differ only where this fails. Only numpy and the standard
library are imported here, so that other interpreters can run packages that modelkin does not install.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers_job import answer_job, peak_bytes

Rows = NDArray[np.float32]
Match = NDArray[np.intp]
"""The row of the base for each row of the candidate; -1 for none."""

WIDTH = 256
CASES: Mapping[str, float] = {"cosine 0.7": 0.7, "cosine 0.25": 0.25, "strangers": 0.0}
"""What a row of the candidate has in common with its row of the base."""
BLOCK = 1024


def draw(n: int, cosine: float, *, seed: int = 0) -> tuple[Rows, Rows, Match]:
    """Return rows of norm one of candidate and base, and which belong together."""
    rng = np.random.default_rng([seed, n, round(1000 * cosine)])
    base, noise = (_unit(rng.standard_normal((n, WIDTH), dtype=np.float32)) for _ in range(2))
    order = rng.permutation(n)
    mixed = np.float32(cosine) * base[order] + np.float32(math.sqrt(1 - cosine**2)) * noise
    return _unit(mixed), base, order


def _unit(rows: Rows) -> Rows:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def by_row_best(similarity: Rows) -> Match:
    """Give each row its best column, whichever other row takes it."""
    return np.asarray(similarity.argmax(axis=1), np.intp)


def by_mutual_best(similarity: Rows) -> Match:
    """Match only mutual best pairs."""
    return mutual(similarity.argmax(axis=1), similarity.argmax(axis=0))


def mutual(best: Match, best_back: Match) -> Match:
    """Return the best column of each row if the row is the best of the column, else -1."""
    return np.asarray(np.where(best_back[best] == np.arange(len(best)), best, -1), np.intp)


def by_repeated_mutual_best(similarity: Rows) -> Match:
    """Match mutual best pairs, remove them, and repeat: the greedy assignment."""
    match = np.full(len(similarity), -1, np.intp)
    rows, columns = np.arange(len(similarity)), np.arange(similarity.shape[1])
    left = similarity
    while rows.size and columns.size:
        found = mutual(left.argmax(axis=1), left.argmax(axis=0))
        hit = found >= 0
        match[rows[hit]] = columns[found[hit]]
        keep = np.ones(columns.size, np.bool_)
        keep[found[hit]] = False
        rows, columns, left = rows[~hit], columns[keep], left[np.ix_(~hit, keep)]
    return match


def by_paths(similarity: Rows) -> Match:
    """Solve the assignment: best columns first, then an augmenting path for each row that lost its own."""
    n_rows, n_columns = similarity.shape
    assert n_rows <= n_columns
    price = np.zeros(n_columns)
    best = similarity.argmax(axis=1)
    cost_of = -similarity[np.arange(n_rows), best].astype(np.float64)
    row_of = np.full(n_columns, -1, np.intp)
    row_of[best[::-1]] = np.arange(n_rows)[::-1]  # of several rows the first keeps the column
    match = np.full(n_rows, -1, np.intp)
    match[row_of[row_of >= 0]] = np.flatnonzero(row_of >= 0)
    for row in np.flatnonzero(match < 0):
        _augment(int(row), similarity, match, row_of, cost_of, price)
    return match


def _augment(
    start: int,
    similarity: Rows,
    match: Match,
    row_of: Match,
    cost_of: NDArray[np.float64],
    price: NDArray[np.float64],
) -> None:
    """Find the cheapest way to give a free row a column, and move the others along it (Dijkstra's search)."""
    n_columns = similarity.shape[1]
    distance, open_distance = np.full(n_columns, np.inf), np.full(n_columns, np.inf)
    before = np.full(n_columns, -1, np.intp)
    done = np.zeros(n_columns, np.bool_)
    row, length, visited = start, 0.0, []
    while True:
        reduced = (length - cost_of[row]) - similarity[row] - price
        nearer = reduced < open_distance
        nearer &= ~done
        open_distance[nearer] = distance[nearer] = reduced[nearer]
        before[nearer] = row
        column = int(open_distance.argmin())
        length = float(open_distance[column])
        done[column], open_distance[column] = True, np.inf
        if row_of[column] < 0:
            break
        row = int(row_of[column])
        visited.append(row)
    cost_of[start] += length
    moved = np.array(visited, np.intp)
    cost_of[moved] += length - distance[match[moved]]
    price[done] -= length - distance[done]
    while True:
        row = int(before[column])
        row_of[column] = row
        column, match[row] = int(match[row]), column
        if row == start:
            return


def by_scipy(similarity: Rows) -> Match:
    """Solve the assignment with `scipy.optimize.linear_sum_assignment`."""
    _, columns = import_module("scipy.optimize").linear_sum_assignment(similarity, maximize=True)
    return np.asarray(columns, np.intp)


def by_lap(similarity: Rows) -> Match:
    """Solve it with the module ``lap``, which two packages bring: lap and lapx."""
    _, columns, _ = import_module("lap").lapjv(-similarity.astype(np.float64))
    return np.asarray(columns, np.intp)


def by_lapjv(similarity: Rows) -> Match:
    """Solve it with the package lapjv, in float32."""
    columns, _, _ = import_module("lapjv").lapjv(-similarity)
    return np.asarray(columns, np.intp)


WAYS: Mapping[str, Callable[[Rows], Match]] = {
    "best of each row": by_row_best,
    "mutual best": by_mutual_best,
    "mutual best, repeated": by_repeated_mutual_best,
    "augmenting paths, numpy": by_paths,
    "scipy": by_scipy,
    "lap": by_lap,
    "lapx": by_lap,
    "lapjv": by_lapjv,
}
SOLVERS = ("scipy", "lap", "lapx", "lapjv")
"""Ways of packages that modelkin does not need."""


def best_in_full(candidate: Rows, base: Rows) -> tuple[Match, Match]:
    """Return the best of each row and of each column, from all cosines at once."""
    similarity = candidate @ base.T
    return similarity.argmax(axis=1), similarity.argmax(axis=0)


def best_in_blocks(candidate: Rows, base: Rows) -> tuple[Match, Match]:
    """Return the same from blocks of rows: of the columns, only the best so far is kept."""
    best = np.empty(len(candidate), np.intp)
    best_back = np.zeros(len(base), np.intp)
    value_back = np.full(len(base), -np.inf, np.float32)
    for start in range(0, len(candidate), BLOCK):
        block = candidate[start : start + BLOCK] @ base.T
        best[start : start + BLOCK] = block.argmax(axis=1)
        value = block.max(axis=0)
        better = np.flatnonzero(value > value_back)
        value_back[better] = value[better]
        # Where in a column its largest entry is costs far more to find than how large it is.
        best_back[better] = start + block[:, better].argmax(axis=0)
    return best, best_back


def work(job: Mapping[str, Any]) -> dict[str, Any]:
    """Match one drawn case some times; say how much of the truth was found."""
    candidate, base, truth = draw(job["n"], CASES[job["case"]])
    search = {"full matrix": best_in_full, "blocks": best_in_blocks}.get(job["way"])
    similarity = None if search else candidate @ base.T
    if not search:
        WAYS[job["way"]](np.eye(4, dtype=np.float32))  # imports what it needs before the clock starts
    before, cpu = peak_bytes(), []
    for _ in range(job["repeats"]):
        began = time.process_time()
        if search:
            best, best_back = search(candidate, base)
            match = mutual(best, best_back)
        else:
            assert similarity is not None
            match = WAYS[job["way"]](similarity)
        cpu.append(time.process_time() - began)
    matched = np.flatnonzero(match >= 0)
    sums = np.einsum("ij,ij->i", candidate[matched], base[match[matched]], dtype=np.float64)
    return {
        "cpu": min(cpu),
        "extra_bytes": peak_bytes() - before,
        "right": float(np.mean(match == truth)),
        "wrong": float(np.mean((match >= 0) & (match != truth))),
        "one_to_one": len(np.unique(match[matched])) == job["n"],
        "value": float(np.sum(sums)),
    }


if __name__ == "__main__":
    answer_job(work)
