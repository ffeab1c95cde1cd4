"""The same work on Dask: equal bit for bit, and a killed worker loses nothing and duplicates nothing."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading

import pytest
from tests.places import ZOO
from tests.registry.made import drawn

from modelkin.errors import MissingExtra, SourceError
from modelkin.fingerprint import Fingerprint
from modelkin.options import FetchOptions
from modelkin.registry import (
    SyncTarget,
    all_pairs,
    all_pairs_on,
    create_registry,
    open_cluster,
    rows_on,
    sync,
)
from modelkin.registry.sync import make_row

# Dask itself warns about ports, event loops and slow starts on a machine that is busy.
pytestmark = pytest.mark.filterwarnings("ignore")


def family(n: int) -> list[Fingerprint]:
    parents = [drawn(f"org/{seed}", seed) for seed in range(n // 2)]
    children = [
        drawn(f"org/child-{seed}", 1_000 + seed, parent=parents[seed], share=0.5) for seed in range(n // 2)
    ]
    return [*parents, *children]


def test_all_pairs_of_a_small_registry_are_those_of_parents_and_children():
    rows = family(12)
    found = all_pairs(rows)
    assert [(i, j) for i, j, _, _ in found] == [(at, at + 6) for at in range(6)]
    assert all(log10_p < -6 for _, _, log10_p, _ in found)


def test_without_dask_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match="need Dask"), open_cluster("local"):
        pass


@pytest.mark.scale
def test_a_scheduler_that_does_not_answer_is_an_error():
    with pytest.raises(SourceError, match="no scheduler answers"), open_cluster("tcp://127.0.0.1:9"):
        pass


@pytest.mark.scale
@pytest.mark.timeout(600)
def test_all_pairs_on_a_cluster_are_those_of_one_machine_bit_for_bit():
    rows = family(40)
    with open_cluster("local") as client:
        assert all_pairs_on(client, rows, block=7) == all_pairs(rows)


@pytest.mark.scale
@pytest.mark.timeout(600)
def test_a_killed_worker_loses_nothing_and_doubles_nothing():
    rows = family(160)
    serial = all_pairs(rows)
    n_tasks = 16 + 16 * 17 // 2
    at_death: list[int] = []
    finished = threading.Event()
    with open_cluster("local", n_workers=2) as client:
        victim = next(iter(client.run(os.getpid).values()))

        def kill() -> None:
            while not finished.wait(0.01):
                if (done := client.run_on_scheduler(n_done)) >= 20:
                    os.kill(victim, signal.SIGKILL)
                    at_death.append(done)
                    return

        killer = threading.Thread(target=kill)
        killer.start()
        found = all_pairs_on(client, rows, block=10)
        finished.set()
        killer.join()
        assert victim not in client.run(os.getpid).values()
    assert 20 <= at_death[0] < n_tasks
    assert found == serial


def n_done(dask_scheduler) -> int:
    return sum(task.state == "memory" for task in dask_scheduler.tasks.values())


@pytest.mark.scale
@pytest.mark.timeout(600)
def test_a_model_that_kills_every_worker_is_left_for_later(tmp_path, monkeypatch):
    import modelkin.registry.cluster as cluster

    targets = [SyncTarget(ref=str(ZOO / "base")), SyncTarget(ref="./deadly", revision="1")]
    monkeypatch.setattr(cluster, "make_row", deadly_row)
    with open_cluster("local", n_workers=1) as client:
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
        _, found = sync(create_registry(str(tmp_path / "r")), targets, make=rows_on(client))
    assert found.n_added == 1
    assert [item.ref for item in found.later] == ["./deadly"]
    assert "worker" in str(found.later[0].reason)


def deadly_row(target, fetch):
    if target.ref == "./deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    return make_row(target, fetch)


@pytest.mark.scale
@pytest.mark.timeout(600)
def test_fingerprints_made_on_a_cluster_are_those_of_one_machine_and_survive_a_killed_worker(tmp_path):
    names = ["base", "twin-1", "twin-2", "lora", "extended", "continued", "deep-1", "gpt2-base"]
    targets = [SyncTarget(ref=str(ZOO / name)) for name in names]
    fetch = FetchOptions()
    serial, _ = sync(create_registry(str(tmp_path / "serial")), targets, fetch=fetch)
    with open_cluster("local", n_workers=2) as client:
        victim = next(iter(client.run(os.getpid).values()))

        def given_out():
            for number, target in enumerate(targets):
                if number == 4:
                    os.kill(victim, signal.SIGKILL)
                yield target

        spread, found = sync(
            create_registry(str(tmp_path / "spread")), given_out(), fetch=fetch, make=rows_on(client)
        )
    assert found.n_added == len(names)
    both = itertools.zip_longest(serial.rows(range(8)), spread.rows(range(8)))
    assert all(one.key == two.key and one.data == two.data for one, two in both)
