"""Baselines that are read off a matrix of layers: other offsets, layer 0 and the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._distribution import Distribution, distribution
from ._table import LayerMatrix


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerZero:
    """Layer 0 beside all others: it is an outlier in most models, and no baseline for them."""

    first: Distribution | None
    """Layer 0 with each other layer."""
    others: Distribution | None
    """Every two other layers."""


def offset_profile(matrix: LayerMatrix) -> dict[int, Distribution]:
    """Sum up a matrix by how far the layers are apart: number in b minus number in a. 0 is the diagonal."""
    rows, columns = np.array(matrix.layers_a, dtype=np.int64), np.array(matrix.layers_b, dtype=np.int64)
    offsets = columns[None, :] - rows[:, None]
    found = {int(k): distribution(matrix.values[offsets == k]) for k in np.unique(offsets)}
    return {offset: item for offset, item in found.items() if item is not None}


def off_diagonal(matrix: LayerMatrix) -> Distribution | None:
    """Sum up all pairs of layers with different numbers."""
    rows, columns = np.array(matrix.layers_a, dtype=np.int64), np.array(matrix.layers_b, dtype=np.int64)
    return distribution(matrix.values[columns[None, :] != rows[:, None]])


def layer_zero(within: LayerMatrix) -> LayerZero:
    """Set layer 0 of a model against the rest, from a matrix of the model with itself."""
    rows, columns = np.array(within.layers_a), np.array(within.layers_b)
    later = columns[None, :] > rows[:, None]
    zero = (rows[:, None] == 0) & later
    return LayerZero(
        first=distribution(within.values[zero]), others=distribution(within.values[later & ~zero])
    )
