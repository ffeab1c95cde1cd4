"""A comparison as part of a case file: when and how it was made, and which weight files it covers."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from modelkin.errors import BudgetExceeded
from modelkin.source import DigestOrigin

if TYPE_CHECKING:
    from modelkin.comparison.record import Comparison
    from modelkin.model import Model

_PACKAGES = ("numpy", "ml_dtypes", "gguf", "huggingface_hub", "matplotlib")
"""Packages whose versions may affect numbers, bytes and figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightDigest:
    """One weight file and its SHA-256."""

    model: str
    """``candidate`` or ``base``."""
    file: str
    size: int
    sha256: str | None
    """None if the source publishes none and the file is not local."""
    how: DigestOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """What a court or an editor would ask first."""

    id: str
    made_at: str
    """UTC, ISO 8601."""
    command: str
    python: str
    platform: str
    packages: Mapping[str, str]
    weights: tuple[WeightDigest, ...]


def with_case(
    result: Comparison, *, candidate: Model, base: Model, id: str, command: Sequence[str]
) -> Comparison:
    """Return a comparison with its case file; digests of weight files are published ones or computed."""
    return replace(
        result,
        case=CaseFile(
            id=id,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            command=" ".join(command),
            python=sys.version.split()[0],
            platform=f"{platform.system()} {platform.machine()}",
            packages={name: known for name in _PACKAGES if (known := _version(name))},
            weights=(*weight_digests("candidate", candidate), *weight_digests("base", base)),
        ),
    )


def weight_digests(side: str, model: Model) -> tuple[WeightDigest, ...]:
    """Return the digests of the weight files of a model."""
    found = []
    for name in sorted(model.index.files):
        size = model.file_size(name) or 0
        try:
            digest, how = model.fetcher.digest(name)
        except BudgetExceeded:
            digest, how = None, "unknown"
        found.append(WeightDigest(model=side, file=name, size=size, sha256=digest, how=how))
    return tuple(found)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
