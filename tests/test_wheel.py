"""What is installed: the package with its data, and nothing that only tests need."""

import base64
import csv
import email
import hashlib
import importlib.util
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.places import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling", reason="part of the extra `test`: make test installs it")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_every_module_and_its_data_are_in_the_wheel(names):
    package = ROOT / "src" / "modelkin"
    files = [path for path in package.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    expected = {str(path.relative_to(package.parent)) for path in files}
    assert expected == {name for name in names if name.startswith("modelkin/")}


def test_no_test_and_no_test_server_is_in_the_wheel(names):
    roots = {name.split("/")[0] for name in names}
    assert "modelkin" in roots
    assert all(root == "modelkin" or root.endswith(".dist-info") for root in roots)
    parts = {part.removesuffix(".py") for name in names for part in name.split("/")}
    assert not parts & {"tests", "testing", "support", "conftest", "hub_server", "bad_server"}


def test_no_module_of_the_package_imports_a_test():
    users = [
        path.name
        for path in (ROOT / "src").rglob("*.py")
        if any(word in path.read_text() for word in ("from tests", "import tests", "modelkin.testing"))
    ]
    assert users == []


@pytest.fixture(scope="module")
def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_every_file_of_the_wheel_has_the_digest_that_its_record_says(contents):
    (record,) = (name for name in contents if name.endswith(".dist-info/RECORD"))
    rows = list(csv.reader(contents[record].decode().splitlines()))
    assert {row[0] for row in rows} == set(contents)
    for name, digest, size in rows:
        if name == record:
            continue
        found = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest()).rstrip(b"=").decode()
        assert (f"sha256={found}", str(len(contents[name]))) == (digest, size)


def test_the_wheel_holds_kinds_of_files_that_are_data_or_source(contents):
    endings = {name.rpartition(".")[2] for name in contents if name.startswith("modelkin/")}
    known = {
        "py",
        "typed",
        "toml",
        "json",
        "yaml",
        "csv",
        "tsv",
        "css",
        "js",
        "safetensors",
        "npz",
        "md",
        "txt",
        "html",
        "svg",
    }
    assert endings <= known
    assert sum(map(len, contents.values())) < 20_000_000
    compiled = [
        name
        for name, data in contents.items()
        if data.startswith((b"\x7fELF", b"MZ", b"\x80\x04", b"\x80\x02"))
    ]
    assert compiled == []


def test_the_wheel_says_its_licence_and_what_it_needs(contents):
    (name,) = (name for name in contents if name.endswith(".dist-info/METADATA"))
    about = email.message_from_bytes(contents[name])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert about["License-Expression"] == "Apache-2.0"
    assert any(each.endswith("licenses/LICENSE") for each in contents)
    stated = [line for line in about.get_all("Requires-Dist") or () if "extra ==" not in line]
    assert _names(stated) == _names(project["dependencies"])


def test_the_wheel_tells_nothing_about_the_machine_that_made_it(contents):
    places = [str(ROOT), str(Path.home()), sys.prefix]
    told = [
        (name, place)
        for name, data in contents.items()
        for place in places
        if len(place) > 5 and place.encode() in data
    ]
    assert told == []


def _names(lines):
    return {str(Requirement(line)).replace("_", "-") for line in lines}


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.more
def test_a_release_is_the_same_whenever_it_is_built(release, tmp_path):
    pytest.importorskip("hatchling", reason="part of the extra `test`: make test installs it")
    first, second = (release.built(tmp_path / name) for name in ("first", "second"))
    assert [path.suffix for path in first] == [".whl", ".gz"]
    assert release.digests(first) == release.digests(second)
    for path in first:
        names = release.names_in(path)
        assert release.misplaced(names) == []
        assert any(name.endswith("modelkin/_version.py") for name in names)
        assert "0.1.0" in path.name


def test_tests_in_a_release_would_be_seen(release):
    assert release.misplaced(["modelkin/a.py", "tests/x.py", "modelkin/tests/y.py"]) == [
        "tests/x.py",
        "modelkin/tests/y.py",
    ]


def test_the_bill_of_materials_lists_what_an_installation_brings(release):
    bill = release.bill_of_materials()
    names = {item["name"] for item in bill["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = {Requirement(line).name.lower().replace("_", "-") for line in project["dependencies"]}
    assert direct <= names
    assert "pytest" not in names
    assert all(item["purl"].startswith("pkg:pypi/") for item in bill["components"])
