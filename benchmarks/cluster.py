"""Many machines: the cost and benefit of Dask on this one, and what a million models would cost.

``python -m benchmarks cluster``. Serial and spread runs do the same work; workers are processes of one
thread, and so is the serial run: matrix products on both cores would hide the benefit of a second worker. The
cost model multiplies constants that are measured here; nothing of that size was run.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

from tests.places import ZOO
from tests.registry.made import drawn

from benchmarks.tables import Table
from modelkin.atlas.relatives import BLOCK as KIN_BLOCK
from modelkin.atlas.relatives import KinBlock, all_kin, block_kin
from modelkin.fingerprint import Fingerprint
from modelkin.fingerprint.recipe import CODE_BYTES, DATA_BYTES
from modelkin.progress import Silent
from modelkin.registry import (
    SyncTarget,
    all_pairs,
    all_pairs_on,
    create_registry,
    open_cluster,
    rows_on,
    sync,
)

N_WORKERS = 2
_BLOCK = 128
"""Fingerprints on each side of a block here, so that there are enough tasks to share."""
_KIN_BLOCK = 128
"""The same for relatives."""
_MEGABYTES_A_MODEL = 20.0
"""The most that a fingerprint reads, and about what 7B models take."""
_LINK = 1.0
"""Gbit/s that a machine reads with, assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCosts:
    """What was measured."""

    start: float
    """Seconds until a scheduler and two workers are up."""
    task: float
    """Seconds per empty task, many at once."""
    pair: float
    """CPU seconds per pair of unrelated fingerprints, on one machine: `registry pairs`."""
    ready: float
    """CPU seconds until a fingerprint is ready for that, where signs choose who is tested: `atlas`."""
    kin: float
    """CPU seconds per pair after that, in blocks as large as those of an atlas."""
    row: float
    """CPU seconds per fingerprint of a small local model."""


def run(*, quick: bool) -> str:
    """Measure and return the report."""
    n_rows, n_tasks, n_models = (1_024, 300, 32) if quick else (2_048, 2_000, 87)
    rows = [drawn(f"org/{seed}", seed) for seed in range(n_rows)]
    targets = [SyncTarget(ref=str(path.parent)) for path in sorted(ZOO.glob("*/config.json"))[:n_models]]
    serial_pairs, pairs = _timed(lambda: all_pairs(rows, block=_BLOCK))
    held, ready = _timed(lambda: KinBlock(rows[:KIN_BLOCK]))
    tested, _ = _timed(lambda: block_kin(ready, ready, same=True))
    serial_kin, kin = _timed(lambda: all_kin(rows, Silent(), block=_KIN_BLOCK))
    with tempfile.TemporaryDirectory() as folder:
        serial_rows, one = _timed(lambda: _rows_of(targets, Path(folder, "one"), None))
        began = time.perf_counter()
        with open_cluster("local", n_workers=N_WORKERS) as client:
            client.run(os.getpid)
            start = time.perf_counter() - began
            _warm(client, rows, targets)
            overhead, _ = _timed(lambda: client.gather(client.map(_nothing, range(n_tasks), pure=False)))
            spread_pairs, same_pairs = _timed(lambda: all_pairs_on(client, rows, block=_BLOCK), client)
            spread_kin, same_kin = _timed(
                lambda: all_kin(rows, Silent(), client=client, block=_KIN_BLOCK), client
            )
            spread_rows, two = _timed(lambda: _rows_of(targets, Path(folder, "two"), client), client)
    work = [
        (f"all pairs of {n_rows:,} fingerprints", serial_pairs, spread_pairs, pairs == same_pairs),
        (f"relatives among {n_rows:,} fingerprints", serial_kin, spread_kin, kin == same_kin),
        (f"fingerprints of {len(targets)} small models", serial_rows, spread_rows, one == two),
    ]
    costs = ClusterCosts(
        start=start,
        task=overhead[0] / n_tasks,
        pair=serial_pairs[1] / (n_rows * (n_rows - 1) / 2),
        ready=held[1] / KIN_BLOCK,
        kin=tested[1] / (KIN_BLOCK * (KIN_BLOCK - 1) / 2),
        row=serial_rows[1] / len(targets),
    )
    return "\n\n".join([_speed(work), _constants(costs), cost_model(costs)])


def _speed(work: Sequence[tuple[str, tuple[float, float], tuple[float, float], bool]]) -> str:
    titles = (
        "work",
        "serial s",
        "serial CPU s",
        f"{N_WORKERS} workers s",
        "CPU s of the workers",
        "speed-up",
        "overhead in CPU",
        "equal bit for bit",
    )
    rows = [
        (
            name,
            f"{serial[0]:.1f}",
            f"{serial[1]:.1f}",
            f"{spread[0]:.1f}",
            f"{spread[1]:.1f}",
            f"{serial[0] / spread[0]:.2f}",
            f"{spread[1] / serial[1] - 1:+.0%}",
            "yes" if equal else "NO",
        )
        for name, serial, spread, equal in work
    ]
    load = os.getloadavg()[0]
    return (
        Table(titles, rows).markdown()
        + f"\n\nLoad of the machine at the end: {load:.1f} on {os.cpu_count()} cores."
    )


def _constants(costs: ClusterCosts) -> str:
    rows = [
        ("start of a scheduler and two workers", f"{costs.start:.1f} s"),
        ("a task that does nothing", f"{1e3 * costs.task:.1f} ms"),
        ("a pair of unrelated fingerprints, all tested by matrix products", f"{1e6 * costs.pair:.1f} CPU µs"),
        ("the same where signs choose", f"{1e6 * costs.kin:.1f} CPU µs"),
        ("a fingerprint made ready for that", f"{1e3 * costs.ready:.1f} CPU ms"),
        ("a fingerprint of a small model", f"{costs.row:.2f} CPU s"),
    ]
    return Table(("constant", "measured"), rows).markdown()


def cost_model(costs: ClusterCosts) -> str:
    """Return what the measured constants say about many models."""
    rows = []
    for n_models in (10_000, 100_000, 1_000_000):
        n_pairs = n_models * (n_models - 1) / 2
        n_tasks = n_pairs / KIN_BLOCK**2
        rows.append(
            (
                f"{n_models:,}",
                f"{n_models * _MEGABYTES_A_MODEL / 1e6:.1f}",
                f"{n_models * _MEGABYTES_A_MODEL * 8e-3 / _LINK / 3_600:.1f}",
                f"{n_models * (DATA_BYTES + CODE_BYTES) / 1e9:.1f}",
                f"{n_pairs * costs.pair / 3_600:,.0f}",
                f"{(n_pairs * costs.kin + n_models * costs.ready) / 3_600:,.1f}",
                f"{n_tasks:,.0f}",
                f"{n_tasks * costs.task / 3_600:.2f}",
            )
        )
    titles = (
        "models",
        "TB read",
        f"hours on one link of {_LINK:.0f} Gbit/s",
        "GB of registry",
        "CPU hours of all pairs",
        "where signs choose",
        "tasks of these",
        "scheduler hours",
    )
    return Table(titles, rows).markdown()


def _rows_of(targets: Sequence[SyncTarget], place: Path, client: Any) -> list[tuple[str, bytes]]:  # noqa: ANN401
    make = None if client is None else rows_on(client)
    registry, _ = sync(create_registry(str(place)), targets, make=make)
    return [(row.ref, row.data) for row in registry.each_row(range(registry.n_rows))]


def _warm(client: Any, rows: Sequence[Fingerprint], targets: Sequence[SyncTarget]) -> None:  # noqa: ANN401
    """Let every worker import what it needs."""
    all_pairs_on(client, rows[:16], block=2)
    all_kin(rows[:80], Silent(), client=client, block=20)
    with tempfile.TemporaryDirectory() as folder:
        _rows_of(targets[:8], Path(folder), client)


def _nothing(number: int) -> int:
    return number


def _timed(work: Callable[[], Any], client: Any = None) -> tuple[tuple[float, float], Any]:  # noqa: ANN401
    """Return wall and CPU seconds (of the workers, if there is a cluster), and the result."""
    began = time.perf_counter(), _cpu(client)
    made = work()
    return (time.perf_counter() - began[0], _cpu(client) - began[1]), made


def _cpu(client: Any) -> float:  # noqa: ANN401
    return time.process_time() if client is None else float(sum(client.run(time.process_time).values()))
