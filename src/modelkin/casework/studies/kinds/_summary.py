"""A table of measures summed up over layers, for the report."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from modelkin.casework.studies._bench import Bench, shown_table
from modelkin.describe.matrix import MatrixResult
from modelkin.describe.measures import Table, off_diagonal, offset_profile

_SUMMED = ("cosine", "mean-direction", "pearson")


def summed_up(table: Table, aliases: list[str]) -> list[dict[str, object]]:
    """Sum up the table: for each role and pair of models the means over facing layers and over the others."""
    found: list[dict[str, object]] = []
    pairs = [*combinations(aliases, 2), *((alias, alias) for alias in aliases)]
    for role in table.distinct("role"):
        for view in table.where(role=role).distinct("view"):
            for a, b in pairs:
                part = table.where(role=role, view=view, model_a=a, model_b=b)
                for measure in part.distinct("measure") if len(part) else ():
                    grid = part.matrix(measure=measure, role=role, model_a=a, model_b=b, view=view)
                    if grid.layers_a == (None,):
                        diagonal, others = _mean(grid.values), None
                        expected = _mean(grid.expected)
                    else:
                        profile = offset_profile(grid)
                        diagonal = profile[0].mean if 0 in profile and a != b else None
                        rest = off_diagonal(grid)
                        others = rest.mean if rest else None
                        facing = np.equal.outer(np.array(grid.layers_a), np.array(grid.layers_b))
                        expected = _mean(grid.expected[facing if a != b else ~facing])
                    found.append(
                        {
                            "role": role,
                            "view": view,
                            "a": a,
                            "b": b,
                            "measure": measure,
                            "facing": diagonal,
                            "expected": expected,
                            "other_layers": others,
                            "pairs": int(grid.values.count()),
                            "n": int(part.column("n").max()),
                        }
                    )
    return found


def _mean(values: np.ma.MaskedArray[Any, Any]) -> float | None:
    return float(values.mean()) if values.count() else None


def shown_summary(
    bench: Bench, summary: list[dict[str, object]], found: MatrixResult
) -> list[dict[str, object]]:
    """Describe the tables of the report: cosines with their decomposition, other measures, baselines."""
    keyed: dict[tuple[object, ...], dict[object, dict[str, object]]] = {}
    for item in summary:
        keyed.setdefault((item["role"], item["view"], item["a"], item["b"]), {})[item["measure"]] = item
    wide = "cosine" in found.table.distinct("measure")
    rows: list[list[object]] = []
    for (role, view, a, b), items in keyed.items():
        who = bench.name(str(a)) if a == b else f"{bench.name(str(a))} | {bench.name(str(b))}"
        what = role if view == "whole" else f"{role} ({view})"
        column = "other_layers" if a == b else "facing"
        cells = [items[name][column] if name in items else None for name in _SUMMED] if wide else []
        other = [items[name]["other_layers"] if name in items and a != b else None for name in _SUMMED[::2]]
        first = next(iter(items.values()))
        rows.append([who, what, *cells, *(other if wide else ()), first["pairs"], first["n"]])
    tables = (
        [
            shown_table(
                "cosines",
                (
                    "models",
                    "role",
                    "cosine",
                    "expected",
                    "pearson",
                    "cosine_other",
                    "pearson_other",
                    "pairs",
                    "n",
                ),
                rows,
            )
        ]
        if wide
        else []
    )
    others = [item for item in summary if item["measure"] not in _SUMMED]
    if others:
        tables.append(
            shown_table(
                "other_measures",
                ("measure", "models", "role", "facing", "expected_any", "other_layers", "pairs"),
                [
                    [
                        item["measure"],
                        _who(bench, item),
                        item["role"],
                        item["facing"],
                        item["expected"],
                        item["other_layers"],
                        item["pairs"],
                    ]
                    for item in others
                ],
            )
        )
    if found.baselines:
        tables.append(
            shown_table(
                "baselines",
                ("baseline", "role", "measure", "scope", "observed", "mean", "q05", "q95", "n", "reason"),
                [
                    [
                        item.baseline,
                        item.role,
                        item.measure,
                        item.scope,
                        item.observed,
                        *(
                            (item.null.mean, item.null.q05, item.null.q95, item.null.n)
                            if item.null
                            else (None,) * 4
                        ),
                        item.reason,
                    ]
                    for item in found.baselines
                    if "offset" not in item.scope and item.measure in _SUMMED
                ],
            )
        )
    return tables


def _who(bench: Bench, item: Mapping[str, object]) -> str:
    a, b = str(item["a"]), str(item["b"])
    return bench.name(a) if a == b else f"{bench.name(a)} | {bench.name(b)}"
