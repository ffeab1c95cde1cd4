"""Two places as one model: which file a name belongs to, and where what is read of it is stored."""

from __future__ import annotations

import pytest
from tests.source.support import quick
from tests.support import HubServer

from modelkin.errors import BudgetExceeded
from modelkin.source import ByteRange, Fetcher, MemorySource, OverlaySource
from modelkin.source.hub import HubSource
from modelkin.source.interface import ByteBudget
from modelkin.source.ledger import Ledger

FRONT = {"adapter.bin": b"front", "README.md": b"mine", "tokenizer.json": b"{}"}
BEHIND = {"model.bin": b"behind", "README.md": b"theirs", "merge.yml": b"theirs", "adapter/odd": b"hidden"}


def overlay(front=FRONT, behind=BEHIND, *, budget=None):
    budget = budget or ByteBudget()
    return OverlaySource(
        MemorySource(front, name="front", budget=budget),
        None if behind is None else MemorySource(behind, name="behind", budget=budget),
        ref="front::behind",
        folder="adapter",
        shown_in_front=["tokenizer.json"],
        only_in_front=["README.md", "merge.yml"],
    )


def contents(source):
    return {name: source.read_range(info, ByteRange(0, info.size)) for name, info in source.files().items()}


def test_names_are_those_of_the_base_with_a_folder_beside():
    assert contents(overlay()) == {
        "README.md": b"mine",
        "adapter/README.md": b"mine",
        "adapter/adapter.bin": b"front",
        "adapter/tokenizer.json": b"{}",
        "model.bin": b"behind",
        "tokenizer.json": b"{}",
    }


def test_what_is_said_of_the_base_is_not_said_of_the_adapter():
    source = overlay(front={"adapter.bin": b"front"})
    assert source.find("README.md") is None
    assert source.find("merge.yml") is None
    assert source.find("adapter/odd") is None
    assert "README.md" not in source.files()


def test_every_listed_file_is_found_as_it_is_listed():
    source = overlay()
    assert list(source.files()) == sorted(source.files())
    for name, info in source.files().items():
        assert source.find(name) == info
        assert info.name == name


def test_without_a_base_the_adapter_stands_alone():
    source = overlay(behind=None)
    assert set(source.files()) == {*(f"adapter/{name}" for name in FRONT), "README.md", "tokenizer.json"}
    assert source.base_location is None


def test_each_file_is_at_home_where_it_really_is():
    source = overlay()
    homes = {
        name: (key.origin, key.file)
        for name, info in source.files().items()
        for key in [source.stored_as(info)]
    }
    assert homes["model.bin"] == ("memory:behind", "model.bin")
    assert homes["adapter/adapter.bin"] == ("memory:front", "adapter.bin")
    assert homes["tokenizer.json"] == ("memory:front", "tokenizer.json")
    assert source.location.ref == "front::behind"
    assert source.location.origin == "memory:front"


def test_one_budget_is_charged_by_both():
    source = overlay(budget=ByteBudget(8))
    source.read_range(source.files()["model.bin"], ByteRange(0, 6))
    with pytest.raises(BudgetExceeded, match="more bytes are needed"):
        source.read_range(source.files()["adapter/adapter.bin"], ByteRange(0, 5))


def test_a_fetcher_goes_on_in_a_ledger_that_was_begun():
    ledger = Ledger()
    for behind in (None, BEHIND):
        fetcher = Fetcher(overlay(behind=behind), quick(), ledger=ledger)
        assert fetcher.read_file("adapter/adapter.bin", limit=10) == b"front"
    assert [entry.file for entry in ledger.entries] == ["adapter/adapter.bin"] * 2


def test_a_disk_and_a_hub_are_told_apart(store):
    weights = bytes(range(256)) * 400
    with HubServer({"org/base": {"model.safetensors": weights}}) as hub:
        options = quick(endpoint=hub.url)
        source = OverlaySource(
            MemorySource(FRONT), HubSource("org/base", None, options), ref="x", folder="adapter"
        )
        with Fetcher(source, options, store=store) as fetcher:
            wanted = {"model.safetensors": [ByteRange(5, 50)], "adapter/adapter.bin": [ByteRange(0, 5)]}
            fetched = fetcher.fetch(wanted)
            assert bytes(fetched.view("model.safetensors", ByteRange(5, 50))) == weights[5:50]
            origins = {entry.file: entry.origin for entry in fetcher.ledger.entries}
        assert origins == {"model.safetensors": "network", "adapter/adapter.bin": "disk"}
        assert source.remote
        assert source.n_requests == hub.n_requests()
        with Fetcher(HubSource("org/base", None, options), options, store=store) as alone:
            alone.fetch({"model.safetensors": [ByteRange(5, 50)]})
            assert [entry.origin for entry in alone.ledger.entries] == ["store"]
