"""What experiments and figures read back from saved data: vectors of models, and squares of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.describe.measures import MEASURES, LayerMatrix, MeasureTable
from modelkin.message import say

from .bench import Bench, NotDone

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Saved:
    """Vectors that were saved: the layers of one role of one model."""

    layers: tuple[int, ...]
    values: Floats
    dtypes: tuple[str, ...]

    @property
    def n(self) -> int:
        """Length of the vectors."""
        return int(self.values.shape[1])

    def at(self, layers: Sequence[int]) -> Floats:
        """Return the vectors of some layers, in this order."""
        return self.values[[self.layers.index(layer) for layer in layers]]


AllSaved = Mapping[tuple[str, str], Saved]
"""By alias and role."""


def load_vectors(bench: Bench, experiment: str) -> AllSaved:
    """Read saved vectors."""
    document = bench.folder.read_json(bench.earlier(experiment))["vectors"]
    arrays = bench.folder.read_arrays(bench.earlier(experiment, ".npz"))
    return {
        (item["model"], item["role"]): Saved(
            tuple(item["layers"]), arrays[key].astype(np.float64), tuple(item["dtypes"])
        )
        for key, item in document.items()
    }


def both_vectors(saved: AllSaved, a: str, b: str, role: str) -> tuple[Saved, Saved, tuple[int, ...]]:
    """Return the vectors of two models and the layers that both have."""
    for alias in (a, b):
        if (alias, role) not in saved:
            raise NotDone(say("study.no-vectors-for", model=alias, role=role))
    one, other = saved[a, role], saved[b, role]
    if one.n != other.n:
        raise NotDone(say("study.vector-lengths", n=one.n, m=other.n))
    common = tuple(layer for layer in one.layers if layer in other.layers)
    if not common:
        raise NotDone(say("study.no-common-layer"))
    return one, other, common


def each_role(
    bench: Bench, saved: AllSaved, pair: tuple[str, str], roles: Sequence[str]
) -> Iterator[tuple[str, Saved, Saved, tuple[int, ...]]]:
    """Yield each role that both models have, with their vectors and common layers."""
    kept = 0
    for role in roles:
        try:
            one, other, layers = both_vectors(saved, *pair, role)
        except NotDone as skipped:
            bench.leave(role, skipped.reason)
            continue
        kept += 1
        yield role, one, other, layers
    if not kept:
        raise NotDone(say("study.no-role"))


def far_apart(grid: LayerMatrix, distance: int) -> Floats:
    """Return the values of layers that are this far apart, either way; NaN if nothing was measured."""
    rows, columns = (
        np.array([-1 if layer is None else layer for layer in layers])
        for layers in (grid.layers_a, grid.layers_b)
    )
    values = np.asarray(grid.values.filled(np.nan), dtype=np.float64)
    apart: Floats = values[np.abs(columns[None, :] - rows[:, None]) == distance]
    return apart


def expected_cells(
    table: MeasureTable, measure: str, role: str, names: Sequence[str], layer: int | Mapping[str, int]
) -> Floats:
    """Return what each pair of models is expected to show at a layer; NaN if unknown."""
    cells = np.full((len(names), len(names)), np.nan)
    for row in table.where(measure=measure, role=role, view="whole"):
        if row.model_a not in names or row.model_b not in names or row.expected is None:
            continue
        both = [layer if isinstance(layer, int) else layer.get(name) for name in (row.model_a, row.model_b)]
        if [row.layer_a, row.layer_b] == both and row.model_a != row.model_b:
            i, j = names.index(row.model_a), names.index(row.model_b)
            cells[i, j] = row.expected
            if MEASURES[measure].symmetric:
                cells[j, i] = row.expected
    return cells


def square(grid: LayerMatrix, measure: str) -> tuple[list[list[float]], tuple[int, ...], list[list[float]]]:
    """Turn pairs of layers into a square matrix; what was not measured in reverse stays empty."""
    layers = tuple(sorted({layer for layer in (*grid.layers_a, *grid.layers_b) if layer is not None}))
    place = {layer: at for at, layer in enumerate(layers)}
    filled = []
    for values in (grid.values, grid.expected):
        cells = np.full((len(layers), len(layers)), np.nan)
        for i, first in enumerate(grid.layers_a):
            for j, second in enumerate(grid.layers_b):
                if first is not None and second is not None and not np.ma.is_masked(values[i, j]):
                    cells[place[first], place[second]] = values[i, j]
                    if MEASURES[measure].symmetric:
                        cells[place[second], place[first]] = values[i, j]
        filled.append(cells.tolist())
    return filled[0], layers, filled[1]


def optional(value: object) -> float | None:
    """Return a number, or None if it is masked."""
    return None if np.ma.is_masked(value) else float(value)  # type: ignore[arg-type]
