"""The counts of the reading benchmark, on a tiny model without delays. They are exact; time is not judged."""

from functools import cache

import pytest
from benchmarks.floor import least_time, unbounded_time
from benchmarks.subject import DIRECT, N_SHARDS, REPO, TINY, USUAL, attention, norms, repository
from tests.support import HubProcess
from tests.support.amount import marked

from benchmarks import reading

SELECTIONS = [norms(TINY), attention(TINY)]


@pytest.fixture(scope="module")
def hub():
    with HubProcess({REPO: repository(TINY)}, DIRECT.options()) as server:
        yield server


@pytest.fixture(scope="module")
def read(hub):
    """Measure modelkin once for each selection: every measurement is a process of its own."""
    return cache(lambda selection: reading.measure_fresh(hub, "modelkin", selection))


@pytest.mark.parametrize(
    "selection",
    marked(SELECTIONS, lambda selection: selection.name == "norms"),
    ids=lambda selection: selection.name,
)
def test_all_ways_read_the_same_bytes(hub, read, selection):
    rivals = [reading.measure_fresh(hub, way, selection) for way in reading.RIVALS]
    reading.check_equal([*rivals, read(selection)])


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda selection: selection.name)
def test_modelkin_keeps_its_limits_of_requests_and_bytes(read, selection):
    for limit in reading.limits(read(selection), selection):
        assert limit.value <= limit.most, limit.name


def test_what_is_stored_is_not_requested_again(hub, tmp_path):
    reading.measure(hub, "modelkin", norms(TINY), tmp_path)
    again = reading.measure(hub, "modelkin", norms(TINY), tmp_path)
    assert (again.hub_requests, again.cdn_requests) == (1, 0)
    offline = reading.measure(hub, "modelkin", norms(TINY), tmp_path, fetch_options={"offline": True})
    assert (offline.hub_requests, offline.cdn_requests) == (0, 0)


def test_the_floor_of_many_short_requests_counts_rounds_on_warm_and_cold_connections():
    # 4 warm connections answer at 40, 80 ... ms, 12 cold ones at 100, 140 ...: 100 answers by 300 ms.
    floor = least_time(USUAL, n_ranges=97, n_bytes=0, n_shards=N_SHARDS, connections=16)
    assert floor.data == pytest.approx(0.300)
    assert floor.seconds >= unbounded_time(USUAL).seconds
