"""Following models: only what is new is read, servers are treated politely, a stopped run resumes."""

from __future__ import annotations

import shutil
import sys
import time

import numpy as np
import pytest
from huggingface_hub import constants
from tests.places import ZOO
from tests.support import Failure, HubServer, LlamaShape, llama_files

from modelkin.errors import ListingError, NotFound
from modelkin.fingerprint import fingerprint_model
from modelkin.options import FetchOptions
from modelkin.registry import (
    SyncTarget,
    create_registry,
    open_registry,
    sync,
    targets_of_folder,
    targets_of_hub,
    targets_of_list,
)
from modelkin.registry.sync import make_row
from modelkin.source import retry as retry_module
from modelkin.source.hub_models import listed_models

SHAPE = LlamaShape(layers=2, hidden=32, mlp=64)
FETCH = FetchOptions(use_store=False, retries=2)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(retry_module, "FIRST_WAIT", 0.005)


@pytest.fixture
def hub(monkeypatch):
    repos = {f"org/m{number}": llama_files(SHAPE, seed=number) for number in range(5)}
    repos["other/x"] = llama_files(SHAPE, seed=9)
    repos["org/broken"] = {**llama_files(SHAPE, seed=1), "model.safetensors": b"\xff" * 64}
    with HubServer(repos) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        yield server


@pytest.fixture
def registry(tmp_path):
    return create_registry(str(tmp_path / "registry"))


def follow(registry, **options):
    return sync(registry, targets_of_hub(FETCH, author="org"), fetch=FETCH, batch=2, **options)


def test_a_hub_is_listed_page_by_page(hub):
    found = list(listed_models(FETCH, author="org", page=2))
    assert [item.repo_id for item in found] == [
        "org/broken",
        "org/m4",
        "org/m3",
        "org/m2",
        "org/m1",
        "org/m0",
    ]
    assert found[1].commit == hub.commit("org/m4")
    assert len(list(listed_models(FETCH, page=3))) == 7


def test_new_revisions_alone_are_read(hub, registry):
    registry, first = follow(registry)
    assert (first.n_seen, first.n_added, first.n_without) == (6, 6, 1)
    hub.reset()
    registry, again = follow(registry)
    assert (again.n_added, again.n_known) == (0, 6)
    assert hub.n_requests() == 1  # the listing
    hub.push("org/m2", llama_files(SHAPE, seed=77))
    registry, third = follow(registry)
    assert (third.n_added, third.n_known) == (1, 5)
    assert ("org/m2", hub.commit("org/m2")) in registry.known()
    assert registry.n_rows == 7


def test_a_broken_model_is_a_row_with_its_reason(hub, registry):
    registry, _ = follow(registry)
    assert registry.info().reasons == {"error-HeaderError": 1}


def test_a_server_that_fails_is_asked_again_by_the_next_run(hub, registry):
    hub.fail(Failure(status=500, times=None, path_contains="org/m3"))
    registry, first = follow(registry)
    assert [item.ref for item in first.later] == ["org/m3"]
    assert "to be tried again" in str(first.later[0].reason)
    hub.clear_failures()
    registry, second = follow(registry)
    assert (second.n_added, second.later) == (1, ())


def test_a_server_that_asks_to_wait_is_waited_for(hub, registry):
    hub.fail(Failure(status=429, times=1, path_contains="org/m1", retry_after="1"))
    registry, found = follow(registry)
    assert (found.n_added, found.later) == (6, ())
    assert [item.status for item in hub.log].count(429) == 1


def test_a_run_that_is_stopped_goes_on_where_it_was(hub, registry):
    def stopped():
        for number, target in enumerate(targets_of_hub(FETCH, author="org")):
            if number == 4:
                raise KeyboardInterrupt
            yield target

    with pytest.raises(KeyboardInterrupt):
        sync(registry, stopped(), fetch=FETCH, batch=2)
    again = open_registry(registry.place.name)
    assert again.n_rows == 4
    assert follow(again)[1].n_added == 2


def test_a_pace_is_kept(hub, registry, monkeypatch):
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    sync(registry, [SyncTarget(ref=f"org/m{n}") for n in range(3)], fetch=FETCH, per_minute=1)
    # Each of the later ones waits until a minute after the one before, which nobody here does.
    assert [round(pause / 60) for pause in slept] == [1, 2]


def test_a_pace_is_kept_when_others_make_the_rows_and_not_for_models_of_this_machine(
    hub, registry, monkeypatch
):
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    targets = [*targets_of_hub(FETCH, author="org")][-2:]
    targets += [SyncTarget(ref=str(ZOO / "base"), revision="r1"), SyncTarget(ref=str(ZOO / "twin-1"))]

    def elsewhere(some, fetch):
        return (make_row(target, fetch) for target in some)

    sync(registry, targets, fetch=FETCH, per_minute=1, make=elsewhere)
    assert [round(pause / 60) for pause in slept] == [1]


def test_a_bug_met_in_one_model_does_not_stop_the_run(hub, registry, monkeypatch):
    module = sys.modules["modelkin.registry.sync"]

    def broken(model):
        if "m2" in model.location.ref:
            raise ZeroDivisionError("by zero")
        return fingerprint_model(model)

    monkeypatch.setattr(module, "fingerprint_model", broken)
    _, found = follow(registry)
    assert [item.ref for item in found.later] == ["org/m2"]
    assert "ZeroDivisionError" in str(found.later[0].reason)
    assert found.n_added == 5


def test_a_model_that_vanishes_between_listing_and_reading_is_said(hub, registry):
    _, found = sync(registry, [SyncTarget(ref="org/nobody"), SyncTarget(ref="org/m0")], fetch=FETCH)
    assert found.n_added == 1
    assert [item.ref for item in found.later] == ["org/nobody"]


def test_a_list_of_another_place_is_not_followed(hub, monkeypatch):
    monkeypatch.setattr(
        type(hub), "url", property(lambda self: "http://127.0.0.1:9")
    )  # what the next page is said to be
    with pytest.raises(ListingError, match="next page is elsewhere"):
        list(listed_models(FETCH, author="org", page=2))


def test_a_list_has_one_reference_a_line():
    found = list(targets_of_list("# mine\n\n org/a \norg/b@main\n"))
    assert [item.ref for item in found] == ["org/a", "org/b@main"]


def test_a_folder_is_followed_and_changed_files_are_new(tmp_path, registry):
    folder = tmp_path / "models"
    shutil.copytree(ZOO / "base", folder / "base")
    (folder / "notes").mkdir()
    (folder / "readme.txt").write_text("x")
    registry, first = sync(registry, targets_of_folder(folder))
    assert first.n_added == 1
    assert sync(registry, targets_of_folder(folder))[1].n_known == 1
    shutil.copy(ZOO / "twin-1" / "model.safetensors", folder / "base" / "model.safetensors")
    registry, third = sync(registry, targets_of_folder(folder))
    assert third.n_added == 1
    one, two = (np.frombuffer(row.data, np.int8) for row in registry.rows([0, 1]))
    assert not np.array_equal(one, two)


def test_a_name_that_no_table_can_hold_does_not_stop_the_run(tmp_path, registry):
    folder = tmp_path / "models"
    for name in ("good", "b\udcffad"):
        shutil.copytree(ZOO / "base", folder / name)
    registry, found = sync(registry, targets_of_folder(folder))
    assert found.n_added == 1
    assert [(item.ref, item.reason.code) for item in found.later] == [
        (repr(str(folder / "b\udcffad")), "sync-no-text")
    ]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(NotFound, match="cannot be read"):
        list(targets_of_folder(tmp_path / "nowhere"))
