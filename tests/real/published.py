"""Where the published weights lie on this machine. Their packages are never imported."""

from __future__ import annotations

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from tests.real.fetch import FOLDER

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
PINS: dict[str, str] = dict(
    line.split()[0].split("==") for line in REQUIREMENTS.read_text().splitlines() if "==" in line
)
"""Package -> version."""
MINILM, FINE_TUNE, ENSEMBLE, PARAPHRASE, WHISPER_EN = list(PINS)[:5]


def _installed(package: str) -> Distribution:
    try:
        found = distribution(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed: pip install --no-deps -r tests/real/requirements.txt")
    assert found.version == PINS[package], f"{package} {found.version} is installed"
    return found


def files_of(package: str, suffix: str) -> tuple[Path, ...]:
    """Return the files that an installed package brings, sorted; skip the test without it."""
    found = _installed(package)
    files = [Path(str(found.locate_file(file))) for file in found.files or () if file.suffix == suffix]
    return tuple(sorted(files))


def weights_of(package: str) -> tuple[Path, ...]:
    """Return the safetensors files of a package."""
    return files_of(package, ".safetensors")


def folder_of(package: str) -> Path:
    """Return the folder of the one model in a package, with its config and tokenizer."""
    (weights,) = weights_of(package)
    return weights.parent


def from_npm(path: str) -> Path:
    """Return a file that `tests.real.fetch` brings; skip the test without it."""
    file = FOLDER / path
    if not file.is_file():
        pytest.skip(f"{path} is not here: it comes from npm, run python tests/real/fetch.py")
    return file
