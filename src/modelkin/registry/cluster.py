"""The same work on many machines, by Dask: fingerprints of many models, and all pairs of them.

Every task is one that this machine would do by itself, from inputs that do not change, so it does not matter
who does it, nor how often: a worker that dies in between loses nothing and doubles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from modelkin.errors import MissingExtra, SourceError
from modelkin.fingerprint import Fingerprint
from modelkin.options import FetchOptions

from .pairs import Pairs, block_pairs
from .scanning import LOG10_SIZE
from .sync import Made, SyncTarget, make_row

BLOCK = 64
"""Fingerprints on each side of a block of all pairs: two megabytes and some seconds of work."""
RETRIES = 3
"""Of a task that raises; one whose worker died is done again in any case."""


@contextmanager
def open_cluster(where: str, *, n_workers: int = 2) -> Iterator[Any]:
    """Connect to a scheduler (``tcp://host:8786``), or start one on this machine (``local``)."""
    try:
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as error:
        raise MissingExtra(
            where, "clusters need Dask", hint="Install it with: pip install 'modelkin[dask]'"
        ) from error
    if where == "local":
        with (
            LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = Client(where, timeout="20s")
    except (OSError, ValueError, TimeoutError) as error:
        raise SourceError(
            where, "no scheduler answers here", hint="Start one with: dask scheduler"
        ) from error
    with client:
        yield client


def rows_on(client: Any) -> Callable[[Sequence[SyncTarget], FetchOptions], Iterator[Made]]:  # noqa: ANN401
    """Return what makes rows of models on a cluster, in the order of the models."""

    def make(targets: Sequence[SyncTarget], fetch: FetchOptions) -> Iterator[Made]:
        tasks = [client.submit(make_row, target, fetch, pure=False, retries=RETRIES) for target in targets]
        yield from client.gather(tasks)

    return make


def all_pairs_on(
    client: Any,  # noqa: ANN401  a client of Dask
    rows: Sequence[Fingerprint],
    *,
    block: int = BLOCK,
    log10_size: float = LOG10_SIZE,
) -> Pairs:
    """Test all pairs of fingerprints on a cluster; the same list as `all_pairs`, bit for bit."""
    starts = range(0, len(rows), block)
    # A task that returns its input, not scattered data: what a dead worker held is made again.
    held = {
        start: client.submit(_held, rows[start : start + block], pure=False, retries=RETRIES)
        for start in starts
    }
    tasks = [
        client.submit(
            block_pairs,
            held[first],
            held[second],
            same=first == second,
            offsets=(first, second),
            log10_size=log10_size,
            pure=False,
            retries=RETRIES,
        )
        for first in starts
        for second in starts
        if second >= first
    ]
    return sorted(pair for found in client.gather(tasks) for pair in found)


def _held(rows: Sequence[Fingerprint]) -> Sequence[Fingerprint]:
    return rows
