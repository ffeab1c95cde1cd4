"""The stored zoo: a folder of models with known ancestry and the manifest that lists them. No torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any, final

from modelkin.errors import SpecError
from modelkin.message import say

from .checkpoint import Checkpoint

MANIFEST = "zoo.json"
_RECIPE = "recipe.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooModel:
    """One model of a zoo: where it is, and what is known about how it was made."""

    name: str
    folder: Path = field(repr=False)
    family: str
    """The ``model_type`` of its config."""
    parent: str | None
    teacher: str | None
    relation: str
    """How it came from its parent, a word of `modelkin.casework.lab.Relation`."""
    record: Mapping[str, Any] = field(repr=False)
    """The recipe and what training did: losses, spread of the norm gains, distance from the parent."""
    sha256: Mapping[str, str] = field(repr=False)
    """Digests of its files."""

    def load(self) -> Checkpoint:
        """Return config, tensors and tokenizer."""
        return Checkpoint.read(self.folder)

    def files(self) -> dict[str, bytes]:
        """Return the files as they are stored, for a source in memory or a server."""
        return {name: (self.folder / name).read_bytes() for name in self.sha256}

    def damaged(self) -> list[str]:
        """Return the names of files that are missing or differ from the record."""
        return [name for name, digest in self.sha256.items() if _digest(self.folder / name) != digest]


@final
class Zoo(Mapping[str, ZooModel]):
    """All models of a folder by name, parents before children, in the order of the manifest."""

    def __init__(self, models: Iterator[ZooModel]) -> None:
        self._models = {model.name: model for model in models}

    def __getitem__(self, name: str) -> ZooModel:
        return self._models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def root(self, name: str) -> str:
        """Return the oldest ancestor of a model; the model itself if it has no parent."""
        model = self[name]
        return model.name if model.parent is None else self.root(model.parent)

    def related(self) -> list[tuple[ZooModel, ZooModel]]:
        """Return every (child, parent)."""
        return [(model, self[model.parent]) for model in self.values() if model.parent is not None]

    def independent_pairs(self, family: str | None = None) -> list[tuple[ZooModel, ZooModel]]:
        """Return the pairs of models of a family, or of each, that share no weights and no initialisation.

        Only models without a parent count, including distilled ones: the same would be true of two children
        of different roots, but such pairs are not independent of each other.
        """
        roots = [model for model in self.values() if model.parent is None]
        return [
            (first, second)
            for first, second in combinations(roots, 2)
            if first.family == second.family and family in (None, first.family)
        ]


def load_zoo(folder: Path) -> Zoo:
    """Read the manifest of a zoo; weights are read when a model is loaded."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(
            str(path),
            say("problem.no-zoo"),
            hint=say("hint.make-with", command="modelkin lab build --out DIR"),
        ) from None
    if manifest.get("format") != _FORMAT:
        raise SpecError(
            str(path), say("problem.zoo-format", wanted=_FORMAT, got=repr(manifest.get("format")))
        )
    return Zoo(_model(folder, entry) for entry in manifest["models"])


def embedded_zoo() -> Zoo:
    """Return the small zoo that comes with the package; the package must be installed as plain files."""
    return load_zoo(Path(str(files("modelkin.demo").joinpath("zoo"))))


def write_manifest(folder: Path, names: list[str]) -> None:
    """List the named models that the folder holds, with the digests of their files."""
    entries = []
    for name in names:
        record = folder / name / _RECIPE
        if not record.exists():
            continue
        recipe = json.loads(record.read_text(encoding="utf-8"))
        kept = sorted(path.name for path in (folder / name).iterdir())
        entry = {key: recipe[key] for key in ("name", "family", "parent", "teacher", "relation")}
        entries.append(entry | {"sha256": {file: _digest(folder / name / file) for file in kept}})
    text = json.dumps({"format": _FORMAT, "models": entries}, indent=1) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def _model(folder: Path, entry: Mapping[str, Any]) -> ZooModel:
    place = folder / entry["name"]
    return ZooModel(
        name=entry["name"],
        folder=place,
        family=entry["family"],
        parent=entry["parent"],
        teacher=entry["teacher"],
        relation=entry["relation"],
        record=json.loads((place / _RECIPE).read_text(encoding="utf-8")),
        sha256=entry["sha256"],
    )


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
