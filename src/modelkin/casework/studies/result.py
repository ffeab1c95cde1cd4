"""The record of a run: models, steps, files, and what was left out. It is the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelkin.message import Message

from .bench import Left
from .folder import Written

SCHEMA = "modelkin.study/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """A model that was read."""

    alias: str
    name: str
    ref: str
    replaced: bool
    """Whether the alias's model was replaced for this run."""
    origin: str
    revision: str | None
    family: str | None
    layers: int
    mtp_layers: int
    hidden_size: int | None
    requests: int
    bytes_fetched: int
    bytes_needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingModel:
    """A model that could not be read."""

    alias: str
    name: str
    ref: str
    reason: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The comparison, an experiment or a figure."""

    id: str
    kind: str
    status: str
    """``done`` or ``skipped``."""
    reason: Message | None
    alt: str = ""
    """What a figure shows, for readers who cannot see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResult:
    """What a run did. Numbers are in the files."""

    schema: str
    study: str
    seed: int
    language: str
    versions: Mapping[str, str]
    models: tuple[ModelRecord, ...]
    missing: tuple[MissingModel, ...]
    answer: Mapping[str, object] | None
    """Verdict of the main pair, with its controls; None if it could not be compared."""
    comparison: Step | None
    experiments: tuple[Step, ...]
    figures: tuple[Step, ...]
    left_out: tuple[Left, ...]
    files: tuple[Written, ...]

    @property
    def done(self) -> bool:
        """Whether anything could be done with models."""
        steps = (*self.experiments, *((self.comparison,) if self.comparison else ()))
        return bool(self.models) and any(step.status == "done" for step in steps)
