"""Scans: fingerprints per second relative to memory bandwidth, and products of unrelated blocks.

``python -m benchmarks scan`` measures the rate on a million codes and a hundred million products of reordered
real blocks; ``python -m benchmarks.scan 10`` measures ten times as many products, and
``python -m benchmarks.scan whole 10`` ten million pairs of whole fingerprints by the code that scans.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
from tests.comparison.zoo_pairs import members
from tests.registry.made import drawn

import modelkin as mk
from benchmarks.tables import Table
from modelkin.fingerprint import Fingerprint, FingerprintRows, fingerprint_model
from modelkin.fingerprint.recipe import (
    BLOCK_BYTES,
    N_FEATURES,
    N_UNITS,
    SLOTS,
    UNIT_KINDS,
    Kind,
    slot_numbers,
)
from modelkin.registry.coarse import N_WORDS, CodeQuery, coarse_pass
from modelkin.registry.pairs import BLOCK, block_pairs, blocks_of_pairs
from modelkin.stats import trace_test

KINDS: tuple[Kind, ...] = ("mlp", "tok", "gram", "val", "norms", "emb", "head")
_ORDERS = 1_024
_REPEATS = 3
NEEDED = -6.0 - 8.0
"""log10 p of a finding before correcting for the registry's size and the blocks of a pair."""


def run(*, quick: bool) -> str:
    """Measure and return the report."""
    n_rows, n_products = (100_000, 1_000_000) if quick else (1_000_000, 100_000_000)
    return "\n\n".join([rates(n_rows), nulls(n_products)])


def rates(n_rows: int) -> str:
    """Measure the first pass over codes in memory, with one thread and with two."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2**64, n_rows * N_WORDS, dtype=np.uint64)
    query = CodeQuery(drawn("query", 1))
    rows = []
    for n_threads in (1, 2):
        wall, cpu = _least(partial(coarse_pass, query, [(0, table)], n_threads=n_threads))
        through = _least(partial(_read, table, n_threads))
        rows.append(
            (
                str(n_threads),
                f"{wall:.2f}",
                f"{cpu:.2f}",
                f"{n_rows / wall / 1e6:.2f}",
                f"{n_rows / cpu / 1e6:.2f}",
                f"{table.nbytes / wall / 1e9:.1f}",
                f"{table.nbytes / cpu / 1e9:.1f}",
                f"{table.nbytes / through[0] / 1e9:.1f}",
                f"{table.nbytes / through[1] / 1e9:.1f}",
            )
        )
    titles = (
        "threads",
        "seconds",
        "CPU seconds",
        "million models a second",
        "a CPU second",
        "GB a second",
        "GB a CPU second",
        "plain reading, GB a second",
        "GB a CPU second",
    )
    return (
        f"{n_rows:,} codes of {8 * N_WORDS:,} bytes:\n\n"
        + Table(titles, rows).markdown()
        + f"\n\nLoad of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    )


def nulls(n_products: int) -> str:
    """Count what products of unrelated, reordered real blocks reach."""
    made = _zoo()
    rows = []
    total = 0
    for kind in KINDS:
        count, moments, largest, beyond = _null(kind, made, n_products // len(KINDS))
        total += count
        mean, sd = moments
        rows.append((kind, f"{count:,}", f"{mean:+.4f}", f"{sd:.4f}", f"{largest:.2f}", str(beyond)))
    titles = ("block", "products", "mean of z", "sd of z", "largest z", "findings")
    limit = _needed_z()
    return (
        f"{total:,} products of blocks of unrelated models in random orders; a bound is "
        f"computed from |z| of {limit:.1f} on:\n\n" + Table(titles, rows).markdown()
    )


def whole(n_pairs: int) -> str:
    """Compare whole fingerprints of unrelated models, with their units in random order."""
    rng = np.random.default_rng(0)
    made = [item.made for item in _zoo()]
    n_rows = math.ceil(math.sqrt(2 * n_pairs)) + 1
    rows = [reordered(made[at % len(made)], rng, at) for at in range(n_rows)]
    held = [FingerprintRows(item) for item in made]
    counts = np.array([[len(item.layers(kind)) for kind in KINDS] for item in held])
    many = counts[np.arange(n_rows) % len(made)].astype(np.float64)
    n_products = (float((many.sum(axis=0) ** 2).sum()) - float((many**2).sum())) / 2
    found: list[float] = []
    for first, second in blocks_of_pairs(n_rows, BLOCK):
        sides = rows[first : first + BLOCK], rows[second : second + BLOCK]
        found += [log10_p for _, _, log10_p, _ in block_pairs(*sides, same=first == second, log10_size=0.0)]
    pairs = n_rows * (n_rows - 1) // 2
    return (
        f"{pairs:,} pairs of {n_rows:,} reordered fingerprints of {len(made)} unrelated models, "
        f"{n_products:,.0f} products of blocks: {sum(p < NEEDED for p in found)} findings; "
        f"{len(found)} have a p below 10^-6 before the price of the registry's size, "
        f"the smallest is 10^{min(found, default=0.0):.1f}."
    )


def reordered(made: Fingerprint, rng: np.random.Generator, number: int) -> Fingerprint:
    """Give all units new numbers, those of one layer the same in all its blocks."""
    data = np.frombuffer(made.data, np.int8).copy()
    orders: dict[tuple[str, int], npt.NDArray[np.intp]] = {}
    for slot in SLOTS:
        unit = "units" if slot.kind in UNIT_KINDS else "dimensions" if slot.n_units > N_UNITS else slot.kind
        block = data[slot.start : slot.stop].reshape(slot.n_units, N_FEATURES)
        order = orders.setdefault((unit, slot.place), rng.permutation(slot.n_units))
        block[:] = block[order]
    data[BLOCK_BYTES:] = 0
    return replace(
        made,
        model=replace(made.model, ref=f"{made.model.ref}-{number}"),
        token_gram=False,  # says where to look, and would be the same in all orders
        data=data.tobytes(),
    )


def _needed_z() -> float:
    from modelkin.stats import normal_quantile

    return normal_quantile(NEEDED - math.log10(4.0))


def _null(
    kind: Kind, made: list[FingerprintRows], n_products: int
) -> tuple[int, tuple[float, float], float, int]:
    """Multiply blocks of one kind in random orders, many orders of one block at once."""
    rng = np.random.default_rng(SLOTS[slot_numbers(kind)[0]].start)
    blocks = [
        found.rows(number).rows
        for found in made
        for number in slot_numbers(kind)
        if len(found.rows(number).rows) >= 16
    ]
    by_units: dict[int, list[npt.NDArray[np.float64]]] = {}
    for block in blocks:
        by_units.setdefault(len(block), []).append(block)
    groups = [_Group(np.stack(group)) for group in by_units.values() if len(group) > 1]
    shares = np.array([len(group.stack) for group in groups], float)
    count, total, squares, largest, beyond = 0, 0.0, 0.0, 0.0, 0
    limit = _needed_z()
    while count < n_products:
        group = groups[rng.choice(len(groups), p=shares / shares.sum())]
        z, similarity = group.products(rng)
        count += z.size
        total += float(z.sum(dtype=np.float64))
        squares += float(np.vdot(z, z))
        largest = max(largest, float(z.max()), -float(z.min()))
        for order, other in np.argwhere(np.abs(z) >= limit):
            # Few units have heavy tails, which the bound accounts for and a normal tail does not.
            found = trace_test([similarity(int(order), int(other))])
            beyond += found is not None and found.log10_p < NEEDED
    mean = total / count
    return count, (mean, math.sqrt(squares / count - mean**2)), largest, beyond


class _Group:
    """Blocks with equally many units, each of which is reordered and compared with all."""

    def __init__(self, stack: npt.NDArray[np.float64]) -> None:
        self.stack = stack.astype(np.float32)
        self._flat = np.ascontiguousarray(self.stack.reshape(len(stack), -1).T)
        self._covariances = np.einsum("bij,bik->bjk", stack, stack).reshape(len(stack), -1)

    def products(
        self, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.float32], Callable[[int, int], npt.NDArray[np.float64]]]:
        """Return z of one block in many random orders with every block, and how to look closer at one."""
        number = int(rng.integers(len(self.stack)))
        n = self.stack.shape[1]
        orders = rng.permuted(np.tile(np.arange(n, dtype=np.int32), (_ORDERS, 1)), axis=1)
        traces = self.stack[number][orders].reshape(_ORDERS, -1) @ self._flat
        sizes = np.sqrt(self._covariances @ self._covariances[number] / (n - 1))

        def similarity(order: int, other: int) -> npt.NDArray[np.float64]:
            return np.asarray(
                self.stack[number][orders[order]].astype(np.float64) @ self.stack[other].T, np.float64
            )

        return np.asarray(traces / sizes.astype(np.float32), np.float32), similarity


def _zoo() -> list[FingerprintRows]:
    found = []
    for member in members().values():
        if member.relation == "independent":
            with mk.open_model(member.path) as model:
                found.append(FingerprintRows(fingerprint_model(model)))
    return found


def _least(work: Callable[[], object]) -> tuple[float, float]:
    """Return the smallest wall and CPU seconds of three runs: the machine may be busy."""
    found = []
    for _ in range(_REPEATS):
        began = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def _read(table: npt.NDArray[np.uint64], n_threads: int) -> int:
    parts = np.array_split(table, 64 * n_threads)
    with ThreadPoolExecutor(n_threads) as pool:
        return sum(int(part) for part in pool.map(np.bitwise_xor.reduce, parts))


if __name__ == "__main__":
    if sys.argv[1:2] == ["whole"]:
        print(whole(round(float(sys.argv[2]) * 1_000_000)))
    else:
        print(nulls(round(float(sys.argv[1]) * 100_000_000) if len(sys.argv) > 1 else 100_000_000))
