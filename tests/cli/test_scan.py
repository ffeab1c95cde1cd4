"""``modelkin fingerprint``, ``registry`` and ``scan`` as a user meets them."""

import json
from pathlib import Path

import jsonschema
import pytest

from modelkin.document.results import schema

QUIET = ("--no-progress",)


@pytest.fixture(scope="module")
def zoo(small_zoo):
    return small_zoo(0.005)


@pytest.fixture(autouse=True)
def _in_the_zoo(zoo, monkeypatch):
    monkeypatch.chdir(zoo)


@pytest.fixture
def registry(run, tmp_path):
    place = str(tmp_path / "registry")
    assert run("registry", "init", "--registry", place)[0] == 0
    assert run("registry", "add", "./base", "./stranger", "--registry", place, *QUIET)[0] == 0
    return place


def document(run, *words, name):
    status, out, _ = run(*words, "--json", *QUIET)
    found = json.loads(out)
    jsonschema.validate(found, schema(name))
    return status, found


def test_a_fingerprint_is_shown_and_written(run, tmp_path):
    file = tmp_path / "base.fingerprint.json"
    status, out, err = run("fingerprint", "./base", "-o", str(file), *QUIET)
    assert status == 0
    assert "recipe" in out
    assert "written to" in err
    jsonschema.validate(json.loads(file.read_text()), schema("modelkin.fingerprint/1"))


def test_a_child_is_found_by_its_weights_and_by_its_file(run, registry, tmp_path):
    status, found = document(run, "scan", "./child", "--registry", registry, name="modelkin.scan/1")
    assert status == 0
    assert [(hit["ref"], hit["found"]) for hit in found["hits"]] == [("./base", True)]
    assert found["hits"][0]["verified"]["conclusion"] == "shared"
    file = str(tmp_path / "child.json")
    run("fingerprint", "./child", "-o", file, *QUIET)
    _, again = document(run, "scan", file, "--registry", registry, name="modelkin.scan/1")
    assert again["hits"][0]["log10_p"] == found["hits"][0]["log10_p"]
    assert again["hits"][0]["verified"]["reason_code"] == "scan-not-asked"


def test_a_scan_is_printed_and_written(run, registry, tmp_path):
    words = ("--registry", registry, "--verify-depth", "none", "--out", str(tmp_path / "out"))
    status, out, _ = run("scan", "./child", *words, *QUIET)
    assert status == 0
    assert "1 of 2 models show a common origin" in out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"scan.json", "report.html", "REPORT.md"}


def test_a_registry_can_be_named_by_the_environment(run, registry, monkeypatch):
    monkeypatch.setenv("MODELKIN_REGISTRY", registry)
    status, found = document(run, "registry", "info", name="modelkin.registry-info/1")
    assert (status, found["n_models"], found["n_fingerprints"]) == (0, 2, 2)


def test_files_and_folders_are_added_once(run, registry, tmp_path, zoo):
    file = str(tmp_path / "child.json")
    run("fingerprint", "./child", "-o", file, *QUIET)
    name = "modelkin.registry-sync/1"
    _, found = document(run, "registry", "add", file, "./base", "--registry", registry, name=name)
    assert (found["n_added"], found["n_known"], found["n_models"]) == (1, 1, 3)
    listed = tmp_path / "list.txt"
    listed.write_text("./base\n./narrow\n./nobody\n")
    _, found = document(run, "registry", "sync", "--list", str(listed), "--registry", registry, name=name)
    assert (found["n_added"], found["n_known"], len(found["later"])) == (1, 1, 1)
    _, found = document(run, "registry", "sync", "--folder", str(zoo), "--registry", registry, name=name)
    assert found["n_seen"] == 4


def test_a_damaged_registry_is_exit_code_4_and_named(run, registry):
    assert (
        document(run, "registry", "verify", "--registry", registry, name="modelkin.registry-check/1")[0] == 0
    )
    (segment,) = Path(registry, "segments").iterdir()
    segment.write_bytes(b"damage")
    status, found = document(
        run, "registry", "verify", "--registry", registry, name="modelkin.registry-check/1"
    )
    assert status == 4
    assert found["damaged"][0]["n_rows"] == 2
    status, _, err = run("registry", "info", "--registry", registry)
    assert status == 4
    assert "damaged" in err


def test_pairs_and_exports(run, registry, tmp_path):
    run("registry", "add", "./child", "--registry", registry, *QUIET)
    _, found = document(run, "registry", "pairs", "--registry", registry, name="modelkin.registry-pairs/1")
    assert [(pair["first"], pair["second"]) for pair in found["pairs"]] == [("./base", "./child")]
    status, _, err = run("registry", "export", "--registry", registry, "--out", str(tmp_path / "data"))
    assert status == 0
    assert "3 files written" in err


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("registry", "info", "--registry", "./nowhere"), 3, "no registry here"),
        (("registry", "info"), 2, "Missing option '--registry'"),
        (("registry", "sync", "--registry", "x"), 2, "expected one of --list, --folder and --hub"),
        (("registry", "sync", "--registry", "x", "--folder", ".", "--author", "a"), 2, "goes with --hub"),
        (("scan", "./child", "--registry", "./nowhere"), 3, "no registry here"),
        (("fingerprint", "./nowhere"), 3, "nowhere"),
    ],
)
def test_what_cannot_be_is_said(run, words, status, message):
    got, _, err = run(*words)
    assert got == status
    assert message in err


def test_a_file_of_another_kind_is_no_fingerprint(run, registry, tmp_path):
    (tmp_path / "x.json").write_text('{"schema": "modelkin.scan/1"}')
    status, _, err = run("scan", str(tmp_path / "x.json"), "--registry", registry)
    assert status == 4
    assert "expected the schema modelkin.fingerprint/1" in err
