"""Squares: models against models, and layers of a model against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from modelkin.casework.studies._bench import Bench
from modelkin.describe.measures import MEASURES, LayerMatrix, Table

from ._form import Form, form_measures, form_roles

Floats = npt.NDArray[np.float64]


def confusion(bench: Bench, form: Form, table: Table) -> None:
    """Write models against models, one file for each measure and layer, or for one mixed set of layers.

    A model with itself is left out: it was not measured, and nothing is written in by hand.
    """
    wanted: Sequence[int | Mapping[str, int]] = form.layers or [form.layers_of]
    models = {*table.distinct("model_a"), *table.distinct("model_b")}
    if not form.layers and not models <= form.layers_of.keys():
        bench.leave(form.file, "it needs a layer of each model")
        return
    for called, measure in form_measures(form, table):
        for layer in wanted:
            mats, expected = {}, {}
            present: tuple[str, ...] = ()
            for role in form_roles(form, table):
                names, values = table.model_matrix(measure=measure, role=role, layer=layer)
                present = present or names
                mats[role] = values
                expected[role] = expected_cells(table, measure, role, names, layer)
            if not any(cells.count() for cells in mats.values()):
                bench.leave(f"{called}, layer {layer}", "no two models have it")
                continue
            number = layer if isinstance(layer, int) else "_".join(f"{k}{v}" for k, v in layer.items())
            reasons = {row.reason for row in table.where(measure=measure) if row.value is None}
            document = {
                "metric": called,
                "measure": measure,
                **(
                    {"layer": layer}
                    if isinstance(layer, int)
                    else {f"{k}_layer": v for k, v in layer.items()}
                ),
                "models": [bench.name(name) for name in present],
                "mats": mats,
                "expected": expected,
                "symmetric": MEASURES[measure].symmetric,
                "not_measured": sorted(reason for reason in reasons if reason)[:20],
            }
            bench.folder.json(form.file.format(measure=called, layer=number), document)


def expected_cells(
    table: Table, measure: str, role: str, names: Sequence[str], layer: int | Mapping[str, int]
) -> Floats:
    """Return what each pair of models is expected to show at a layer; NaN where that is not known."""
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


def within(bench: Bench, form: Form, table: Table) -> None:
    """Write layers of each model against each other, one file for each measure and model."""
    for called, measure in form_measures(form, table):
        for model in form.models:
            mats, expected = {}, {}
            layers: tuple[int, ...] = ()
            for role in form_roles(form, table):
                grid = table.matrix(measure=measure, role=role, model_a=model, model_b=model)
                mats[role], layers, expected[role] = square(grid, measure)
            if not layers:
                continue
            names = "_".join(map(str, layers))
            document = {
                "metric": called,
                "measure": measure,
                "model": bench.name(model),
                "layers": layers,
                "params": list(mats),
                "mats": mats,
                "expected": expected,
            }
            bench.folder.json(form.file.format(measure=called, model=model, layers=names), document)


def square(grid: LayerMatrix, measure: str) -> tuple[list[list[float]], tuple[int, ...], list[list[float]]]:
    """Turn pairs of layers into a square; what was not measured the other way round stays empty."""
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
