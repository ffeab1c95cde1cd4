"""What comes with an installation: licences of dependencies, and how known vulnerabilities are checked."""

from __future__ import annotations

import importlib.util
import json
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from tests.places import DOCS, ROOT


def script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


licences, audit = script(DOCS / "licences.py"), script(ROOT / ".ci" / "audit.py")


@pytest.mark.parametrize("extra", ["", "cloud", "lab"])
def test_every_dependency_has_a_licence_that_goes_with_ours(extra):
    try:
        found = licences.dependencies(extra)
    except PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    assert len(found) > 5
    assert {name: licence for name, licence in found.items() if not licences.is_compatible(licence)} == {}


@pytest.mark.parametrize("part", licences.PARTS)
def test_the_page_of_licences_is_up_to_date(part):
    try:
        table = licences.table(part)
    except PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    text = licences.PAGE.read_text(encoding="utf-8")
    assert licences.written(text, part, table) == text, "run `python docs/licences.py`"


def test_every_dependency_that_we_name_is_on_the_page():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["cloud"], *extras["lab"]]
    rows = [line.split(" | ")[0] for line in licences.PAGE.read_text().splitlines() if line.startswith("| ")]
    listed = {row.removeprefix("| ") for row in rows}
    names = {Requirement(line).name.lower().replace("_", "-") for line in lines}
    assert names <= listed


@pytest.mark.parametrize(
    ("licence", "fits"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("(MIT AND BSD-3-Clause)", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-2.0-or-later", False),
        ("AGPL-3.0-only", False),
        ("SSPL-1.0", False),
        (None, False),
        ("", False),
    ],
)
def test_what_goes_with_apache_is_known(licence, fits):
    assert licences.is_compatible(licence) is fits


def test_a_part_without_markers_of_the_page_is_an_error():
    with pytest.raises(ValueError, match="no markers for 'x'"):
        licences.written("text", "x", "new")


def test_a_known_vulnerability_fails_the_audit():
    listed = [
        {"name": "a", "version": "1", "vulns": [{"id": "CVE-1"}]},
        {"name": "b", "version": "1", "vulns": []},
    ]
    assert audit.judged(json.dumps({"dependencies": listed}), "") == (1, "vulnerable: a (CVE-1)")


def test_an_audit_without_findings_says_how_much_it_saw():
    listed = [
        {"name": "a", "version": "1", "vulns": []},
        {"name": "modelkin", "skip_reason": "not on an index"},
    ]
    status, sentence = audit.judged(json.dumps({"dependencies": listed}), "")
    assert (status, sentence) == (0, "audited 1 packages: no known vulnerability (1 not on any index)")


@pytest.mark.parametrize("output", ["", "[]", "{}", "null", "<html>"])
def test_without_an_index_the_audit_is_skipped_with_a_word(output):
    status, sentence = audit.judged(output, "Traceback ...\nNo module named pip_audit\n")
    assert status == 0
    assert sentence.startswith("audit skipped: no list of vulnerabilities can be reached")
    assert "No module named pip_audit" in sentence


@pytest.mark.parametrize("n_packages", [0, 3])
def test_an_audit_that_saw_nothing_is_no_audit(n_packages):
    listed = [{"name": f"p{n}", "skip_reason": "not found"} for n in range(n_packages)]
    status, sentence = audit.judged(json.dumps({"dependencies": listed}), "")
    assert status == 0
    assert sentence.startswith(f"audit skipped: none of {n_packages} packages")


def test_the_checks_that_newcomers_run_include_the_audit():
    assert "make audit" in (ROOT / ".ci" / "run").read_text()
