"""The complete record of one `matrix`: numbers, what chance would give, what was not measured."""

from __future__ import annotations

from dataclasses import dataclass

from modelkin.describe.measures import Baseline, MeasureTable
from modelkin.message import Message
from modelkin.source import ReadRecord
from modelkin.written import Reported

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
class MatrixResult(Reported):
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
