"""Builds a release that could be uploaded: ``make dist``. Twice, and both have to be equal byte by byte."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
EPOCH = "1767225600"
"""The time that all files get, unless SOURCE_DATE_EPOCH says another: 1 January 2026."""
FORBIDDEN = ("tests/", "conftest.py", "benchmarks/", ".hypothesis", "__pycache__")


def built(folder: Path) -> list[Path]:
    """Build wheel and source distribution into a folder."""
    environment = {"SOURCE_DATE_EPOCH": EPOCH, **os.environ}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, env=environment, capture_output=True)
    return sorted(path for path in folder.iterdir() if path.suffix in (".whl", ".gz"))


def names_in(path: Path) -> list[str]:
    """Return the names of the files in a distribution, without the folder of a source distribution."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    with tarfile.open(path) as archive:
        return [name.partition("/")[2] for name in archive.getnames()]


def misplaced(names: list[str]) -> list[str]:
    """Return what has no place in a release."""
    return [name for name in names if any(name.startswith(word) or f"/{word}" in name for word in FORBIDDEN)]


def digests(paths: list[Path]) -> dict[str, str]:
    """Return the SHA-256 of files by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def bill_of_materials(name: str = "modelkin") -> dict[str, object]:
    """Return what an installation brings, as CycloneDX: each package once, with its version."""
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        wanted = waiting.pop().lower().replace("_", "-")
        if wanted in found:
            continue
        try:
            found[wanted] = distribution(wanted)
        except PackageNotFoundError:
            continue  # not for this system
        needed = [Requirement(line) for line in found[wanted].requires or ()]
        waiting += [
            item.name for item in needed if item.marker is None or item.marker.evaluate({"extra": ""})
        ]

    def component(package: str) -> dict[str, object]:
        version = found[package].version
        purl = f"pkg:pypi/{package}@{version}"
        kind = "application" if package == name else "library"
        return {"type": kind, "bom-ref": purl, "name": package, "version": version, "purl": purl}

    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(name)},
        "components": [component(package) for package in sorted(found) if package != name],
    }


def main() -> int:
    """Build, compare, check, and write the bill of materials."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        made, again = built(Path(first)), built(Path(second))
        if digests(made) != digests(again):
            print("two builds differ:", digests(made), digests(again))
            return 1
        DIST.mkdir(exist_ok=True)
        for path in made:
            (DIST / path.name).write_bytes(path.read_bytes())
    released = [DIST / path.name for path in made]
    wrong = {path.name: found for path in released if (found := misplaced(names_in(path)))}
    if wrong:
        print("these have no place in a release:", wrong)
        return 1
    materials = DIST / f"{released[0].name.split('-py3')[0].removesuffix('.tar.gz')}.cdx.json"
    materials.write_text(json.dumps(bill_of_materials(), indent=2) + "\n")
    for name, digest in digests(released).items():
        print(digest, name)
    return subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, released)]
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
