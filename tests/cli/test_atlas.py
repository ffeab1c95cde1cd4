"""``modelkin atlas`` as a user meets it."""

import json

import jsonschema
import pytest
from tests.registry.made import drawn

from modelkin.document.results import schema
from modelkin.registry import create_registry

BARE = ("--no-cards", "--claims-depth", "none", "--grow", "0", "--reports", "0", "--no-progress")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    base = drawn("org/base", 1)
    where = str(tmp_path_factory.mktemp("atlas") / "registry")
    create_registry(where).add([base, drawn("org/child", 2, parent=base, share=0.9), drawn("org/other", 3)])
    return where


def test_an_atlas_is_printed(run, place):
    status, out, _ = run("atlas", "--registry", place, *BARE)
    assert status == 0
    assert "Models: 3; in families: 2 (families: 1); without a relative here: 1." in out
    assert "No card was read, so none could be checked against the weights." in out


def test_an_atlas_is_one_json_document(run, place):
    status, out, _ = run("atlas", "--registry", place, "--json", *BARE)
    assert status == 0
    found = json.loads(out)
    jsonschema.validate(found, schema("modelkin.atlas/1"))
    assert found["families"][0]["members"] == ["org/base", "org/child"]


def test_an_atlas_is_written_as_pages(run, place, tmp_path):
    status, _, err = run("atlas", "--registry", place, "--out", str(tmp_path / "a"), "--lang", "ko", *BARE)
    assert status == 0
    assert "index.html" in err
    assert {path.name for path in (tmp_path / "a").iterdir()} == {
        "index.html",
        "atlas.json",
        "assets",
        "families",
        "models",
        "pairs",
    }


def test_a_table_of_names_and_dates_is_used(run, place, tmp_path):
    table = tmp_path / "about.tsv"
    table.write_text("ref\tname\tdate\norg/base\tfirst/name\t2024-01-01\n")
    _, out, _ = run("atlas", "--registry", place, "--about", str(table), "--json", *BARE)
    declared = json.loads(out)["models"]["org/base"]["declared"]
    assert (declared["name"], declared["date"]) == ("first/name", "2024-01-01")
    table.write_text("nonsense")
    status, _, err = run("atlas", "--registry", place, "--about", str(table), *BARE)
    assert status == 4
    assert "expected the columns ref, name, date" in err


def test_no_registry_is_exit_code_3(run, tmp_path):
    status, _, err = run("atlas", "--registry", str(tmp_path / "nowhere"))
    assert status == 3
    assert "no registry here" in err


@pytest.mark.parametrize("words", [("--out", "x"), ("--json",)])
def test_a_server_goes_with_no_other_output(run, place, words):
    status, _, err = run("atlas", "serve", "--registry", place, *words)
    assert status == 2
    assert "neither --out nor --json" in err


def test_a_short_token_is_wrong_usage(run, place, tmp_path, monkeypatch):
    monkeypatch.setenv("MODELKIN_ATLAS_TOKEN", "short")
    status, _, err = run("atlas", "serve", "--registry", place)
    assert status == 2
    assert "at least 16" in err
    assert "short" not in err
