"""The same work on many machines, by Dask: fingerprints of many models, and all pairs of them.

Every task is one that a single machine would do, from inputs that do not change, so it does not matter which
worker does it, or how often: a worker that dies loses nothing and duplicates nothing.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from modelkin._version import __version__
from modelkin.errors import MissingExtra, SourceError
from modelkin.fingerprint import Fingerprint
from modelkin.fingerprint.recipe import RECIPE
from modelkin.message import say
from modelkin.options import FetchOptions

from .pairs import BLOCK, Pairs, block_pairs, blocks_of_pairs
from .scanning import LOG10_SIZE
from .sync import Made, MakeRows, SyncTarget, make_row, not_made

RETRIES = 3
"""For a task that raises; one whose worker died is always repeated."""


AHEAD = 4
"""Models in progress per thread of the cluster, so that none idles while another takes long."""
_BLOCKS_AHEAD = 32
"""Blocks of pairs in progress per thread: enough to share, without millions of tasks in the scheduler."""
PATIENCE = 60.0
"""Seconds to wait for a scheduler to get a worker: newly started workers need a few."""
_Held = TypeVar("_Held")
_Found = TypeVar("_Found")


@contextmanager
def open_cluster(where: str, *, n_workers: int | None = None) -> Iterator[Any]:
    """Connect to a scheduler (``tcp://host:8786``), or start one on this machine (``local``).

    A local one has `n_workers` processes, by default one per core.
    """
    try:
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as error:
        raise MissingExtra(
            where, say("problem.needs-dask"), hint=say("hint.install", command="pip install 'modelkin[dask]'")
        ) from error
    if where == "local":
        with (
            LocalCluster(
                n_workers=n_workers or os.cpu_count(), threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = Client(where, timeout="20s")
    except (OSError, ValueError, TimeoutError) as error:
        raise SourceError(where, say("problem.no-scheduler"), hint=say("hint.dask-scheduler")) from error
    with client:
        _check_workers(client, where)
        yield client


def _check_workers(client: Any, where: str) -> None:  # noqa: ANN401  a client of Dask
    """Refuse a cluster that would wait forever, or whose workers would compute something different."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as error:
        raise SourceError(
            where, say("problem.no-worker"), hint=say("hint.dask-worker", address=where)
        ) from error
    try:
        found = set(client.run(_made_by).values())
    except ImportError as error:
        raise SourceError(where, say("problem.worker-import"), hint=say("hint.same-version")) from error
    if other := found - {_made_by()}:
        raise SourceError(
            where,
            say("problem.other-workers", wanted=_made_by(), got=min(other)),
            hint=say("hint.same-version"),
        )


def _made_by() -> str:
    return f"modelkin {__version__}, recipe {RECIPE}"


def rows_on(client: Any) -> MakeRows:  # noqa: ANN401  a client of Dask
    """Return a function that makes rows of models on a cluster, in the order of the models.

    A few tasks per thread are in progress; the next is submitted when the first of them is done.
    """

    def make(targets: Iterable[SyncTarget], fetch: FetchOptions) -> Iterator[Made]:
        waiting: deque[tuple[SyncTarget, Any]] = deque()
        for target in targets:
            waiting.append((target, client.submit(make_row, target, fetch, pure=False, retries=RETRIES)))
            if len(waiting) >= AHEAD * max(1, sum(client.nthreads().values())):
                yield _row(*waiting.popleft())
        while waiting:
            yield _row(*waiting.popleft())

    return make


def _row(target: SyncTarget, task: Any) -> Made:  # noqa: ANN401  a future of Dask
    from distributed import KilledWorker

    try:
        made: Made = task.result()
    except KilledWorker:
        return not_made(target.ref, say("problem.workers-died"))
    return made


def all_pairs_on(
    client: Any,  # noqa: ANN401  a client of Dask
    rows: Sequence[Fingerprint],
    *,
    block: int = BLOCK,
    log10_size: float = LOG10_SIZE,
) -> Pairs:
    """Test all pairs of fingerprints on a cluster; the same list as `all_pairs`, bit for bit."""
    found = blocks_on(client, _held, block_pairs, rows, block=block, log10_size=log10_size)
    return sorted(pair for pairs in found for pair in pairs)


def blocks_on(
    client: Any,  # noqa: ANN401  a client of Dask
    hold: Callable[[Sequence[Fingerprint]], _Held],
    work: Callable[..., _Found],
    rows: Sequence[Fingerprint],
    *,
    block: int,
    **options: object,
) -> Iterator[_Found]:
    """Yield what `work` finds in every block of all pairs, in the order of the blocks.

    `hold` turns rows into what `work` takes, once for each, and they are kept on the cluster. `work` is
    called with two of those, `same` and `offsets` as for `block_pairs`, and the options.
    """
    # A task that returns its input, not scattered data: what a dead worker held is recomputed.
    held = {
        start: client.submit(hold, rows[start : start + block], pure=False, retries=RETRIES)
        for start in range(0, len(rows), block)
    }
    waiting: deque[Any] = deque()
    for first, second in blocks_of_pairs(len(rows), block):
        task = client.submit(
            work,
            held[first],
            held[second],
            same=first == second,
            offsets=(first, second),
            pure=False,
            retries=RETRIES,
            **options,
        )
        waiting.append(task)
        if len(waiting) >= _BLOCKS_AHEAD * max(1, sum(client.nthreads().values())):
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _held(rows: Sequence[Fingerprint]) -> Sequence[Fingerprint]:
    return rows
