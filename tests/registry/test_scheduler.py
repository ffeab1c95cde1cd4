"""Commands on a scheduler that somebody else started: the same answers, and a killed worker is no loss."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.atlas.made import drawn_family
from tests.places import ROOT, ZOO

from modelkin.errors import SourceError
from modelkin.registry import (
    SyncTarget,
    create_registry,
    open_cluster,
    rows_on,
    sync,
)
from modelkin.registry import cluster as cluster_module

# Dask itself warns about ports, event loops and slow starts on a machine that is busy.
pytestmark = [pytest.mark.more, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(600)]
NAMES = ("base", "twin-1", "lora", "extended", "continued", "gpt2-base")


@contextmanager
def process(module: str, *words: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a part of Dask as a process of its own."""
    started = subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", "--host", "127.0.0.1", "--no-dashboard", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@contextmanager
def scheduler(folder: Path) -> Iterator[str]:
    """Run a scheduler without workers; yield its address."""
    file = folder / "scheduler.json"
    with process("dask_scheduler", "--port", "0", "--scheduler-file", str(file)) as started:
        while not file.exists() or not file.read_text().strip():
            assert started.poll() is None, "the scheduler has ended"
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"]


def worker(address: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Start a worker that nobody starts again when it dies."""
    return process("dask_worker", address, "--nthreads", "1", "--no-nanny")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with scheduler(tmp_path_factory.mktemp("dask")) as found, worker(found), worker(found):
        yield found


def test_a_registry_is_filled_and_drawn_on_a_scheduler_as_on_one_machine(address, run, tmp_path):
    listed = tmp_path / "models.txt"
    listed.write_text("\n".join(str(ZOO / name) for name in NAMES))
    answers = []
    for name, more in (("here", ()), ("there", ("--cluster", address))):
        place = str(tmp_path / name)
        create_registry(place)
        assert run("registry", "sync", "--registry", place, "--list", str(listed), *more)[0] == 0
        status, pairs, _ = run("registry", "pairs", "--registry", place, *more, "--json")
        assert status == 0
        status, drawn, _ = run(
            *(
                "atlas",
                "--registry",
                place,
                "--grow",
                "0",
                "--reports",
                "0",
                "--claims-depth",
                "none",
                "--json",
            ),
            *more,
        )
        assert status == 0
        answers.append([json.loads(pairs), json.loads(drawn)])
    for here, there in zip(*answers, strict=True):
        for key in ("registry", "made"):
            here.pop(key, None), there.pop(key, None)
        for model in (*here.get("models", {}).values(), *there.get("models", {}).values()):
            model.pop("added")
        assert here == there
    rows = [
        [(row.ref, row.data) for row in create_registry(str(tmp_path / name)).rows(range(6))]
        for name in ("here", "there")
    ]
    assert rows[0] == rows[1]


def test_relatives_of_many_blocks_are_those_of_one_machine(address):
    from modelkin.atlas import relatives
    from modelkin.progress import Silent

    made = [item for at in range(22) for item in drawn_family(f"org-{at}", 3, seed=100 * at)]
    assert len(made) > relatives.MOST_EXHAUSTIVE
    with open_cluster(address) as client:
        there = relatives.all_kin(made, Silent(), client=client, block=20)
    assert there == relatives.all_kin(made, Silent())
    assert sum(kin.found for kin in there.kin) == 22 * 3


def test_a_worker_that_is_killed_is_no_loss(tmp_path):
    targets = [SyncTarget(ref=str(ZOO / name)) for name in NAMES]
    serial, _ = sync(create_registry(str(tmp_path / "serial")), targets)
    with (
        scheduler(tmp_path) as found,
        worker(found) as victim,
        worker(found),
        open_cluster(found) as client,
    ):
        client.wait_for_workers(2)

        def given_out():
            for number, target in enumerate(targets):
                if number == 3:
                    os.kill(victim.pid, signal.SIGKILL)
                yield target

        spread, _ = sync(create_registry(str(tmp_path / "spread")), given_out(), make=rows_on(client))
    one, two = ([(row.key, row.data) for row in made.rows(range(len(NAMES)))] for made in (serial, spread))
    assert one == two
    assert spread.n_rows == len(NAMES)


def test_a_scheduler_without_workers_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.2)
    with scheduler(tmp_path) as found, pytest.raises(SourceError, match="has no worker"), open_cluster(found):
        pass


def test_workers_of_another_version_are_refused(address, monkeypatch):
    monkeypatch.setattr(cluster_module, "__version__", "9.9")
    with pytest.raises(SourceError, match=r"expected workers with modelkin 9\.9"), open_cluster(address):
        pass
