"""All pairs of layers of many models: our measures compared with a Python loop over pairs, in one run.

The loop is how such comparisons are usually written: for every pair and every measure a function of two
vectors that recomputes everything. It is written here from the formulas alone, in numpy and in double
precision, so that both ways give the same numbers; that they do is checked before anything is timed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import combinations

import numpy as np
import numpy.typing as npt

from benchmarks.machine import touch_memory
from benchmarks.tables import Table, seconds, times
from modelkin.describe.measures import MEASURES, Pairs, Stack, measured

Vector = npt.NDArray[np.float64]


def cosine(a: Vector, b: Vector) -> float:
    return float(np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b)))


def pearson(a: Vector, b: Vector) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def relative_l2(a: Vector, b: Vector) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def mean_absolute_difference(a: Vector, b: Vector) -> float:
    return float(np.mean(np.abs(a - b)))


def p99_difference(a: Vector, b: Vector) -> float:
    return float(abs(np.percentile(np.abs(a), 99) - np.percentile(np.abs(b), 99)))


def cv_difference(a: Vector, b: Vector) -> float:
    return float(abs(np.std(a) / abs(np.mean(a)) - np.std(b) / abs(np.mean(b))))


def spearman(a: Vector, b: Vector) -> float:
    # Without ties, which drawn numbers do not have.
    return pearson(np.argsort(np.argsort(a)).astype(float), np.argsort(np.argsort(b)).astype(float))


LOOP: dict[str, Callable[[Vector, Vector], float]] = {
    "cosine": cosine,
    "pearson": pearson,
    "relative-l2": relative_l2,
    "mean-absolute-difference": mean_absolute_difference,
    "p99-difference": p99_difference,
    "cv-difference": cv_difference,
    "spearman": spearman,
}


def looped(name: str, rows: Vector, pairs: list[tuple[int, int]]) -> Vector:
    """Measure pair by pair."""
    function = LOOP[name]
    return np.array([function(rows[i], rows[j]) for i, j in pairs])


def at_once(name: str, rows: Vector, pairs: Pairs) -> Vector:
    """Measure all pairs, beginning with nothing but the values."""
    stack = Stack(rows)
    return np.asarray(measured(MEASURES[name], stack, stack, pairs).values)


def gains(n_rows: int, width: int) -> Vector:
    rng = np.random.default_rng(0)
    level = rng.uniform(0.1, 2.0, (n_rows, 1))
    return np.asarray(level * (1.0 + 0.1 * rng.normal(size=(n_rows, width))))


def run(*, quick: bool = False) -> str:
    """Measure; return it as Markdown."""
    models, layers, width = (3, 8, 1024) if quick else (8, 48, 4096)
    rows = gains(models * layers, width)
    listed = list(combinations(range(len(rows)), 2))
    pairs = Pairs.of(*zip(*listed, strict=True))
    touch_memory(1 << 28)
    table: list[list[str]] = []
    totals = [0.0, 0.0]
    for name in LOOP:
        began = time.process_time()
        slow = looped(name, rows, listed)
        halfway = time.process_time()
        fast = at_once(name, rows, pairs)
        took = (halfway - began, time.process_time() - halfway)
        np.testing.assert_allclose(fast, slow, rtol=1e-8, atol=1e-10)
        totals = [total + one for total, one in zip(totals, took, strict=True)]
        table.append([name, seconds(took[0]), seconds(took[1]), times(took[0] / took[1])])
    table.append(["all of them", seconds(totals[0]), seconds(totals[1]), times(totals[0] / totals[1])])
    note = (
        f"{models} models x {layers} layers x {width} values: {len(listed):,} pairs, both ways in double "
        "precision with equal results (checked), processor time of one run each, all threads."
    )
    columns = ["measure", "loop over pairs, s", "modelkin, s", "faster by"]
    return f"{Table(columns, table).markdown()}\n\n{note}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.matrix", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small case, in seconds")
    print(run(quick=parser.parse_args().quick))


if __name__ == "__main__":
    main()
