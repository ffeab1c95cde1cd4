"""``modelkin tree`` on small models."""

import json
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def models(small_zoo, monkeypatch):
    monkeypatch.chdir(small_zoo(0.002))


def test_families_edges_and_models_alone_are_shown(run):
    status, out, err = run("tree", "base=./base", "./child", "./stranger", "--out", "report")
    assert status == 0
    assert "Families: 1; models without relatives: 1" in out
    assert "direction not identified" in Path("report", "TREE.md").read_text()
    assert "comparing ./child with base" in err


def test_dates_are_claims_that_decide_a_direction(run):
    dates = ("--date", "base=2024-01-31", "--date", "child=2024-06-01")
    status, out, _ = run("tree", "base=./base", "child=./child", *dates, "--json")
    assert status == 0
    (edge,) = json.loads(out)["edges"]
    assert edge["parent"] == "base"
    assert [fact["kind"] for fact in edge["facts"]] == ["dates"]


def test_a_wrong_date_or_a_name_given_twice_is_wrong_usage(run):
    status, _, err = run("tree", "./base", "./child", "--date", "base=yesterday")
    assert status == 2
    assert "expected MODEL=YYYY-MM-DD" in err
    status, _, err = run("tree", "./base", "./base")
    assert status == 2
    assert "was given twice" in err


def test_a_registry_brings_models_and_fingerprints_and_only_proposed_pairs_are_compared(run):
    assert run("registry", "init", "--registry", "kept")[0] == 0
    assert run("registry", "add", "--registry", "kept", "./base", "./child", "./stranger")[0] == 0
    status, out, err = run("tree", "--registry", "kept", "--json")
    assert status == 0
    found = json.loads(out)
    assert set(found["models"]) == {"./base", "./child", "./stranger"}
    assert all({pair["first"], pair["second"]} == {"./base", "./child"} for pair in found["pairs"])
    assert "making the fingerprint" not in err


def test_without_models_and_without_a_registry_it_is_wrong_usage(run):
    status, _, err = run("tree")
    assert status == 2
    assert "Missing argument" in err
