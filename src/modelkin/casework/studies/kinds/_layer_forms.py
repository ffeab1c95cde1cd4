"""Sums over layers: facing against other layers, and means with their range."""

from __future__ import annotations

from typing import Any

import numpy as np

from modelkin.casework.studies._bench import Bench
from modelkin.describe.measures import LayerMatrix, Table, distribution, off_diagonal, offset_profile

from ._form import CATEGORIES, Form, form_roles


def decay(bench: Bench, form: Form, table: Table) -> None:
    """Write facing layers against all others, and the first half against the second."""
    a, b = form.models[:2]
    found: dict[str, dict[str, object]] = {}
    for role in form_roles(form, table):
        for measure in ("cosine", "mean-direction", "pearson", "excess-cosine"):
            if measure not in table.distinct("measure"):
                continue
            grid = table.matrix(measure=measure, role=role, model_a=a, model_b=b)
            facing = _facing(grid)
            half = len(facing) // 2
            early, late = _average(facing[:half]), _average(facing[half:])
            on, off = distribution(facing), off_diagonal(grid)
            found.setdefault(role, {})[measure] = {
                "diagonal": on,
                "off_diagonal": off,
                "diagonal_minus_off": on.mean - off.mean if on and off else None,
                "early": early,
                "late": late,
                "early_minus_late": early - late if early is not None and late is not None else None,
                "best_of_row": _best_of_row(grid),
                "by_offset": {str(k): item.mean for k, item in sorted(offset_profile(grid).items())},
                "facing": facing,
            }
    bench.folder.json(form.file, {"model_a": bench.name(a), "model_b": bench.name(b), "roles": found})


def _average(values: np.ma.MaskedArray[Any, Any]) -> float | None:
    return float(values.mean()) if values.count() else None


def _best_of_row(grid: LayerMatrix) -> dict[str, float]:
    """Count rows whose facing layer is the best: by chance one in as many as there are columns."""
    rows = [
        (i, grid.layers_b.index(layer)) for i, layer in enumerate(grid.layers_a) if layer in grid.layers_b
    ]
    best = sum(bool(grid.values[i].argmax() == j) for i, j in rows)
    return {"rows": len(rows), "best": best, "expected": len(rows) / max(1, len(grid.layers_b))}


def statistics(bench: Bench, form: Form, table: Table) -> None:
    """Write mean, deviation and range over layers for each pair; a control that is missing is its reason."""
    found: dict[str, object] = {}
    main, *controls = form.models
    for other in controls:
        name = f"{main}_{other}"
        if other in bench.missing or main in bench.missing:
            gone = other if other in bench.missing else main
            found[name] = {"available": False, "reason": bench.missing[gone]}
            continue
        found[name] = {
            "available": True,
            **{
                CATEGORIES.get(role, role): {
                    measure: {
                        "facing": distribution(_facing(grid)),
                        "mismatched": _at(grid, form.distance),
                    }
                    for measure in table.distinct("measure")
                    for grid in [table.matrix(measure=measure, role=role, model_a=main, model_b=other)]
                }
                for role in form_roles(form, table)
            },
        }
    bench.folder.json(form.file, {"mismatched_distance": form.distance, "pairs": found})


def _facing(grid: LayerMatrix) -> np.ma.MaskedArray[Any, Any]:
    """Return layers of equal number, in order."""
    pairs = [
        (i, grid.layers_b.index(layer)) for i, layer in enumerate(grid.layers_a) if layer in grid.layers_b
    ]
    return grid.values[[i for i, _ in pairs], [j for _, j in pairs]]


def _at(grid: LayerMatrix, distance: int) -> object:
    """Sum up layers of one role that are so far apart, either way."""
    rows, columns = (
        np.array([-1 if n is None else n for n in layers]) for layers in (grid.layers_a, grid.layers_b)
    )
    return distribution(grid.values[np.abs(columns[None, :] - rows[:, None]) == distance])
