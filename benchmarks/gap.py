"""When are nearby ranges better read as one? Small pieces at growing distance, sampled rows of a matrix."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from tests.support import HubProcess

from benchmarks.machine import touch_memory
from benchmarks.subject import FAR, NEAR, REPO, SHAPE, USUAL, Network, repository
from benchmarks.tables import Table, megabytes, seconds
from modelkin import FetchOptions, TensorSlice, open_model
from modelkin.source import ByteRange

KIB = 1024
PIECE = 4 * KIB
N_PIECES = 128
GAPS = (16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB)
N_ROWS = (256, 1024)
WASTES = (0.05, 0.5, 1.0, 4.0, 10.0)
APART = FetchOptions(max_gap=0, max_waste=0.0)
_SHARD = "model-00001-of-00004.safetensors"
_SHARE = 6.25e6
"""Bytes per second of one of 16 connections that share 100 MB/s."""


def run(*, quick: bool = False) -> str:
    """Measure distances and rows on each line; return it as Markdown."""
    lines = (USUAL,) if quick else (NEAR, USUAL, FAR)
    apart: dict[str, dict[int, list[str]]] = {}
    rows: list[list[str]] = []
    for line in lines:
        with HubProcess({REPO: repository()}, line.options()) as hub:
            apart[line.name] = {gap: _distances(hub, gap) for gap in GAPS}
            rows += [_sampled_rows(hub, line, n_rows) for n_rows in N_ROWS]
    return f"{_distance_table(lines, apart)}\n\n{_row_table(rows)}"


def _distance_table(lines: Sequence[Network], took: dict[str, dict[int, list[str]]]) -> str:
    rows = [
        [
            str(gap // KIB),
            megabytes(N_PIECES * PIECE),
            megabytes(N_PIECES * (PIECE + gap)),
            *(" / ".join(took[line.name][gap]) for line in lines),
        ]
        for gap in GAPS
    ]
    columns = ["gap KiB", "MB needed", "MB joined", *(f"{line.name}: {line.summary}" for line in lines)]
    even = "; ".join(
        f"{line.name} {(line.bandwidth or 0) * line.cdn / KIB:.0f} and {_SHARE * line.cdn / KIB:.0f}"
        for line in lines
    )
    return "\n\n".join(
        [
            Table(columns, rows).markdown(),
            f"{N_PIECES} pieces of {PIECE // KIB} KiB in one shard, {FetchOptions().connections} "
            "connections; seconds of the data phase with every piece apart / with the defaults / with "
            "everything joined.",
            "A request costs as much as the bytes that come in a round trip. In KiB, first when every "
            f"connection has a bandwidth of its own, then when 16 share 100 MB/s: {even}.",
        ]
    )


def _row_table(rows: list[list[str]]) -> str:
    columns = ["rows sampled of the embedding", *(f"max_waste {waste:g}" for waste in WASTES)]
    note = f"Seconds (requests, MB read); {SHAPE.vocab:,} rows of 4 KiB, max_gap as it is by default."
    return f"{Table(columns, rows).markdown()}\n\n{note}"


def _distances(hub: HubProcess, gap: int) -> list[str]:
    first = 1 << 20
    starts = [first + number * (PIECE + gap) for number in range(N_PIECES)]
    pieces = [ByteRange(start, start + PIECE) for start in starts]
    cases = [
        (pieces, APART),
        (pieces, FetchOptions()),
        ([ByteRange(pieces[0].start, pieces[-1].stop)], FetchOptions()),
    ]
    took: list[str] = []
    for wanted, limits in cases:
        with open_model(REPO, _options(hub, limits)) as model:
            assert len(model.index) > 0  # reads the headers
            touch_memory(3 * N_PIECES * (PIECE + gap))
            began = time.perf_counter()
            model.fetcher.fetch({_SHARD: wanted})
            took.append(seconds(time.perf_counter() - began))
    return took


def _sampled_rows(hub: HubProcess, line: Network, n_rows: int) -> list[str]:
    chosen = np.random.default_rng(0).choice(SHAPE.vocab, n_rows, replace=False)
    wanted = [TensorSlice.scattered("model.embed_tokens.weight", sorted(chosen.tolist()))]
    row = [f"{line.name}, {n_rows}"]
    for waste in WASTES:
        with open_model(REPO, _options(hub, FetchOptions(max_waste=waste))) as model:
            plan = model.plan(wanted)
            touch_memory(3 * plan.bytes_to_fetch)
            began = time.perf_counter()
            model.read(wanted)
            took = time.perf_counter() - began
        row.append(f"{seconds(took)} ({plan.n_requests}, {megabytes(plan.bytes_to_fetch)})")
    return row


def _options(hub: HubProcess, limits: FetchOptions) -> FetchOptions:
    return FetchOptions(
        endpoint=hub.url,
        token=False,
        use_store=False,
        max_gap=limits.max_gap,
        max_waste=limits.max_waste,
    )
