"""Baselines: many numbers summarised as a few, and those read off a matrix of layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modelkin.message import Message

from ._table import LayerMatrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A summary of numbers. It describes them; the standard deviation is not an error of the mean."""

    n: int
    mean: float
    sd: float | None
    """None for a single number."""
    minimum: float
    q05: float
    median: float
    q95: float
    maximum: float


def measured_mean(values: np.ma.MaskedArray[Any, Any]) -> float | None:
    """Return the mean of what was measured; None if nothing was."""
    return float(values.mean()) if values.count() else None


def distribution(values: npt.NDArray[Any] | np.ma.MaskedArray[Any, Any]) -> Distribution | None:
    """Summarise numbers; masked values and NaN do not count. None if nothing is left."""
    plain = np.ma.filled(np.ma.asarray(values).astype(np.float64), np.nan).ravel()
    plain = plain[np.isfinite(plain)]
    if not plain.size:
        return None
    low, middle, high = np.quantile(plain, [0.05, 0.5, 0.95])
    return Distribution(
        n=plain.size,
        mean=float(plain.mean()),
        sd=float(plain.std(ddof=1)) if plain.size > 1 else None,
        minimum=float(plain.min()),
        q05=float(low),
        median=float(middle),
        q95=float(high),
        maximum=float(plain.max()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a measure is when nothing, or something known, connects the tensors."""

    baseline: str
    """Its name."""
    measure: str
    role: str
    scope: Message
    """Which models, layers, groups or tokens."""
    observed: float | None
    """The number to compare it with; None if there is none."""
    null: Distribution | None
    """None if there is none; `reason` says why."""
    reason: Message | None
    note: Message
    """What was drawn or averaged, and what must not be read into it."""


def offset_profile(matrix: LayerMatrix) -> dict[int, Distribution]:
    """Summarise a matrix by layer offset: number in b minus number in a. 0 is the diagonal."""
    offsets = _offsets(matrix)
    found = {int(k): distribution(matrix.values[offsets == k]) for k in np.unique(offsets)}
    return {offset: item for offset, item in found.items() if item is not None}


def off_diagonal(matrix: LayerMatrix) -> Distribution | None:
    """Summarise all pairs of layers with different numbers."""
    return distribution(matrix.values[_offsets(matrix) != 0])


def layer_zero(within: LayerMatrix) -> tuple[Distribution | None, Distribution | None]:
    """Summarise layer 0 with each other layer, and all pairs of others, from a matrix of a model with itself.

    Layer 0 is an outlier in most models, and not a baseline for the others.
    """
    later = _offsets(within) > 0
    zero = (np.array(within.layers_a)[:, None] == 0) & later
    return distribution(within.values[zero]), distribution(within.values[later & ~zero])


def _offsets(matrix: LayerMatrix) -> npt.NDArray[np.int64]:
    rows, columns = np.array(matrix.layers_a, dtype=np.int64), np.array(matrix.layers_b, dtype=np.int64)
    return columns[None, :] - rows[:, None]
