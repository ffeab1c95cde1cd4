"""Which layer of one model faces which layer of the other: a path through the matrix of all pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_MOST_Z = 40.0
"""Scores above this all mean the same: a common origin. Higher ones must not outweigh other layers."""
_JUMP = 2.0
"""Cost of a step that is not to the next layer, in units of z: breaks ties between similar layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerMap:
    """All layers of the candidate with all layers of the base, for one component."""

    component: str
    method: str
    frame: str
    """The coordinates of the residual stream in which it was made."""
    candidate_layers: tuple[int, ...]
    base_layers: tuple[int, ...]
    scores: tuple[tuple[float | None, ...], ...] = field(repr=False)
    """z of each cell; None where the layers cannot be compared."""
    threshold: float
    """|z| a single cell must reach to stand out among all cells."""
    path: tuple[tuple[int, int], ...]
    """(candidate layer, base layer) of the cells that stand out, at most one per candidate layer. Empty if
    cells that stand out do not mean that layers are the same."""

    @property
    def n_cells(self) -> int:
        """How many cells were compared: what a p-value of one of them is corrected for."""
        return sum(score is not None for row in self.scores for score in row)

    def standing_out(self) -> tuple[tuple[int, int], ...]:
        """Return the layers of all cells that stand out, the strongest first, then the lowest numbers."""
        cells = [
            (-abs(score), layer + facing, layer, facing)
            for layer, row in zip(self.candidate_layers, self.scores, strict=True)
            for facing, score in zip(self.base_layers, row, strict=True)
            if score is not None and abs(score) >= self.threshold
        ]
        return tuple((layer, facing) for *_, layer, facing in sorted(cells))

    def best_of(self, candidate_layer: int) -> int | None:
        """Return the base layer that is most alike, or None if none could be compared."""
        row = self.scores[self.candidate_layers.index(candidate_layer)]
        known = [(abs(score), -number) for number, score in enumerate(row) if score is not None]
        return self.base_layers[-max(known)[1]] if known else None


def likely_pairs(found: LayerMap) -> tuple[tuple[int, int], ...]:
    """Return layers that may face each other, from a map that cannot tell: where to look, not a finding."""
    scores = np.array([[max(0.0, score or 0.0) for score in row] for row in found.scores])
    return tuple(
        (found.candidate_layers[row], found.base_layers[column])
        for row, column in enumerate(layer_path(scores, threshold=found.threshold))
        if column is not None
    )


def layer_path(scores: npt.ArrayLike, *, threshold: float) -> tuple[int | None, ...]:
    """Return for each row the column that it faces, or None.

    The best path through all rows: each cell that stands out adds its score, and a step that is not to the
    next column costs a little. Steps back are allowed, since up-scaling repeats layers (0 1 2 3 2 3 4 5), and
    so are gaps on both sides.

    Scores are the z of every cell, NaN if there is none; their sign does not matter. Cells below the
    threshold are not paired.

    >>> layer_path([[9, 0, 0], [0, 8, 1], [0, 9, 0], [0, 0, 0.5]], threshold=4.0)
    (0, 1, 1, None)
    """
    table = np.minimum(np.abs(np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=0.0)), _MOST_Z)
    if table.size == 0:
        return tuple(None for _ in table)
    n_rows, n_columns = table.shape
    gains = np.where(table >= threshold, table, -math.inf)
    # One more state than columns: facing nothing. It remembers no column, so leaving it is a jump.
    states = np.hstack([gains, np.zeros((n_rows, 1))])
    steps = np.full((n_columns + 1, n_columns + 1), -_JUMP)
    steps[np.arange(n_columns - 1), np.arange(1, n_columns)] = 0.0
    steps[:, n_columns] = 0.0
    total, came_from = states[0].copy(), []
    for row in range(1, n_rows):
        options = total[:, None] + steps
        came_from.append(np.argmax(options, axis=0))
        total = options.max(axis=0) + states[row]
    state = int(np.argmax(total))
    path = [state]
    for back in reversed(came_from):
        state = int(back[state])
        path.append(state)
    return tuple(None if column == n_columns else column for column in reversed(path))


def layer_map(
    *,
    component: str,
    method: str,
    frame: str,
    candidate_layers: Sequence[int],
    base_layers: Sequence[int],
    scores: npt.NDArray[np.float64],
    threshold: float,
    same_layers: bool = True,
) -> LayerMap:
    """Find the path and keep it with the scores; no path if cells do not mean that layers are the same."""
    path = layer_path(scores, threshold=threshold) if same_layers else ()
    return LayerMap(
        component=component,
        method=method,
        frame=frame,
        candidate_layers=tuple(candidate_layers),
        base_layers=tuple(base_layers),
        scores=tuple(
            tuple(None if math.isnan(score) else round(float(score), 2) for score in row) for row in scores
        ),
        threshold=threshold,
        path=tuple(
            (candidate_layers[row], base_layers[column])
            for row, column in enumerate(path)
            if column is not None
        ),
    )
