"""The complete record of one `matrix`: numbers, what chance would give, what was not measured."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from modelkin.describe.measures import Baseline, MeasureTable
from modelkin.message import Message

from ._options import MatrixOptions

MATRIX_SCHEMA = "modelkin.matrix/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixModel:
    """One of the models."""

    name: str
    """Its name in tables."""
    ref: str
    origin: str
    revision: str | None
    family: str | None
    layers: tuple[int, ...]
    mtp_layers: tuple[int, ...]
    """Multi-token-prediction layers: not decoder layers, and never mixed with them."""
    hidden_size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRecord:
    """One tensor in numbers; unknown ones are None, and `reason` says why."""

    model: str
    role: str
    layer: int | None
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    n: int
    mean: float | None
    std: float | None
    minimum: float | None
    maximum: float | None
    norm: float | None
    p99: float | None
    rho: float | None
    reason: Message | None
    note: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecord:
    """What was read of all models together."""

    requests: int
    bytes_fetched: int
    bytes_needed: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixResult:
    """Measures over tensors of several models. It describes; it decides nothing."""

    models: tuple[MatrixModel, ...]
    options: MatrixOptions
    table: MeasureTable
    tensors: tuple[TensorRecord, ...]
    baselines: tuple[Baseline, ...]
    notes: tuple[Message, ...]
    """What was odd or left out."""
    read: ReadRecord
    modelkin: str
    """Version."""

    def to_json(self) -> str:
        """Write everything as one document, by the schema ``modelkin.matrix/1``."""
        from modelkin.document import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> MatrixResult:
        """Read what `to_json` wrote."""
        from modelkin.document import matrix_from_json

        return matrix_from_json(text)

    def write(self, folder: str | os.PathLike[str], *, language: str = "en") -> tuple[Path, ...]:
        """Write ``matrix.json``, ``matrix.csv`` and ``MATRIX.md`` into a folder; return their paths."""
        from modelkin.document import write_matrix

        return write_matrix(self, folder, language=language)
