"""What is installed: the package with its data, and nothing that only tests need."""

import subprocess
import sys
import zipfile

import pytest
from tests.places import ROOT


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    pytest.importorskip("hatchling", reason="part of the extra `test`: make test installs it")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_every_module_and_its_data_are_in_the_wheel(names):
    package = ROOT / "src" / "modelkin"
    files = [path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
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
