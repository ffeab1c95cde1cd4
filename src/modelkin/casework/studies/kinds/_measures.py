"""``measures``: any measure over any roles and layers of the models, with baselines; see `matrix`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from modelkin.casework.studies.bench import Bench, NotDone, said, shown
from modelkin.casework.studies.reading import Aliases, BaselineName, Layers, LayersOf, MeasureNames, Roles
from modelkin.casework.studies.spec import Experiment
from modelkin.describe.matrix import KnownRelation, MatrixOptions, MatrixResult, matrix, wanted_by_matrix
from modelkin.describe.measures import (
    PAIRINGS,
    LayerPairing,
    MeasureTable,
    measured_mean,
    off_diagonal,
    offset_profile,
)
from modelkin.document.numbers import runs_text
from modelkin.errors import UsageError
from modelkin.message import Message, joined, say, told
from modelkin.model import Model
from modelkin.tensors import TensorSlice

from .forms import AnyForm

_OF_ONE_LAYER = {
    "matrix-no-layer": "study.no-such-layer",
    "matrix-layer-not-chosen": "study.layers-not-chosen",
}
_USUAL = MatrixOptions()
_SUMMED = ("cosine", "mean-direction", "pearson")
TENSOR_COLUMNS = (
    *("model", "role", "layer", "tensor", "file", "dtype", "bytes", "shape", "n", "mean", "std"),
    *("minimum", "maximum", "norm", "p99", "rho", "reason", "note"),
)


class Measures(Experiment, tag="measures"):
    """Measures over roles and layers of models, with baselines."""

    roles: Roles
    models: Aliases = Aliases()
    """All of the study, if none is named."""
    measures: MeasureNames = _USUAL.measures  # type: ignore[assignment]  # names that are known
    layers: Layers | None = None
    """Of every model; all, if nothing is said."""
    layers_of: LayersOf = LayersOf()
    """Of single models."""
    pairs: Annotated[tuple[LayerPairing, ...], Meta(min_length=1, max_length=64)] = _USUAL.pairs
    """Which layers face each other."""
    baselines: Annotated[tuple[BaselineName, ...], Meta(max_length=64)] = ()
    truncation: bool = False
    """Cut the larger tensor where sizes differ."""
    mtp: bool = False
    """Multi-token prediction layers too."""
    sample: Annotated[int, Meta(ge=16, le=2**28)] = _USUAL.sample
    """Values read of a tensor."""
    windows: Annotated[int, Meta(ge=0, le=1000)] = _USUAL.windows
    """Windows of so many values each, at the places of the published probe; none, if nothing is said."""
    draws: Annotated[int, Meta(ge=1, le=10_000)] = _USUAL.draws
    """Reorderings of the baseline ``shuffle``."""
    write: Annotated[tuple[AnyForm, ...], Meta(max_length=20)] = ()
    """Further files, in published forms."""

    def run(self, bench: Bench) -> None:
        """Measure, and write table, tensors, baselines, and the requested files in other forms."""
        wanted = self.models or tuple(bench.study.models)
        models = bench.available(wanted, least=1 if set(self.pairs) == {"within"} else 2)
        pairs = tuple(item for item in PAIRINGS if item in self.pairs)
        try:
            found = matrix(models, self._options(bench, models, pairs))
        except UsageError as error:
            raise NotDone(told(error)) from error
        if not found.table.values.count():
            reasons = [reason for reason in found.table.distinct("reason") if reason][:3]
            bench.leave(say("study.everything"), joined(reasons or [say("study.no-facing-layers")]))
        bench.folder.table(bench.data(".csv"), found.table)
        bench.folder.csv(bench.data("-tensors.csv"), TENSOR_COLUMNS, _tensor_rows(found, models))
        _leave_missing(bench, found)
        summary = _summed_up(found.table, list(models))
        bench.document(
            {
                "models": found.models,
                "pairs": pairs,
                "baselines": found.baselines,
                "notes": found.notes,
                "summary": summary,
            },
            tables=[*_summary_tables(bench, summary, found), *_baseline_tables(found)],
            said=[said("identity")] if "cosine" in found.table.distinct("measure") else [],
        )
        for form in self.write:
            form.write(bench, found.table)

    def wanted(self, bench: Bench) -> Mapping[str, Sequence[TensorSlice]]:
        """Return the slices that are measured."""
        models = bench.available(self.models or tuple(bench.study.models), least=1)
        pairs = tuple(item for item in PAIRINGS if item in self.pairs)
        try:
            return wanted_by_matrix(models, self._options(bench, models, pairs))
        except UsageError as error:
            raise NotDone(told(error)) from error

    def _options(
        self, bench: Bench, models: Mapping[str, Model], pairs: tuple[LayerPairing, ...]
    ) -> MatrixOptions:
        known = tuple(
            KnownRelation(
                relation="independent" if item.relation == "independent" else "derived",
                model_a=item.models[0],
                model_b=item.models[1],
            )
            for item in bench.study.relations
            if set(item.models) <= set(models)
        )
        groups = {
            group: members
            for group, all_members in bench.study.groups.items()
            if (members := tuple(alias for alias in all_members if alias in models))
        }
        return MatrixOptions(
            measures=self.measures,
            roles=self.roles,
            layers=self.layers,
            layers_of={alias: text for alias, text in self.layers_of.items() if alias in models},
            pairs=pairs,
            baselines=self.baselines,
            groups=groups if "groups" in self.baselines else {},
            known=known,
            truncation=self.truncation,
            mtp=self.mtp,
            sample=self.sample,
            windows=self.windows,
            draws=self.draws,
            seed=bench.seed,
            fetch=bench.fetch,
        )


def _tensor_rows(found: MatrixResult, models: Mapping[str, Model]) -> list[list[object]]:
    rows = []
    for item in found.tensors:
        info = models[item.model].index.get(item.tensor)  # none for a difference of two
        row = {
            **asdict(item),
            "reason": None if item.reason is None else str(item.reason),
            "note": str(item.note),
            "shape": "x".join(map(str, item.shape)),
            "file": info.file if info is not None else None,
            "bytes": info.n_bytes if info is not None else None,
        }
        rows.append([row[name] for name in TENSOR_COLUMNS])
    return rows


def _leave_missing(bench: Bench, found: MatrixResult) -> None:
    """Record why pairs were not measured, once per role, pair of models and reason."""
    table = found.table
    told = (table.distinct("measure")[0], "cv-difference", "mean-ulps") if len(table) else ()
    gaps: dict[tuple[str, str, str, str, str, Message], list[int]] = {}
    for row in table.where(measure=told) if told else ():
        if row.value is None:
            reason = row.reason or say("study.nothing-measured")
            if reason.code in _OF_ONE_LAYER:  # layers that a shallower model lacks are reported together
                reason = say(_OF_ONE_LAYER[reason.code], model=reason["model"])
            key = row.role, row.model_a, row.model_b, row.view, row.measure, reason
            gaps.setdefault(key, []).append(-1 if row.layer_a is None else row.layer_a)
    for (role, a, b, view, measure, reason), layers in gaps.items():
        cut = "" if view == "whole" else f", {view}"
        numbers = runs_text(sorted({layer for layer in layers if layer >= 0}))
        what = f"{role}{cut}, {measure}"
        where = (
            say("study.of-pair-layers", what=what, a=a, b=b, layers=numbers)
            if numbers
            else say("study.of-pair", what=what, a=a, b=b)
        )
        bench.leave(where, reason)


# -- summed up over layers, for the report -------------------------------------------------------------


def _summed_up(table: MeasureTable, aliases: list[str]) -> list[dict[str, Any]]:
    """Summarise the table: per role and pair of models, the means over facing layers and over the others."""
    found: list[dict[str, Any]] = []
    pairs = [*combinations(aliases, 2), *((alias, alias) for alias in aliases)]
    for role in table.distinct("role"):
        for view in table.where(role=role).distinct("view"):
            for a, b in pairs:
                part = table.where(role=role, view=view, model_a=a, model_b=b)
                for measure in part.distinct("measure") if len(part) else ():
                    grid = part.matrix(measure=measure, role=role, model_a=a, model_b=b, view=view)
                    if grid.layers_a == (None,):
                        diagonal, others = measured_mean(grid.values), None
                        expected = measured_mean(grid.expected)
                    else:
                        profile = offset_profile(grid)
                        diagonal = profile[0].mean if 0 in profile and a != b else None
                        rest = off_diagonal(grid)
                        others = rest.mean if rest else None
                        facing = np.equal.outer(np.array(grid.layers_a), np.array(grid.layers_b))
                        expected = measured_mean(grid.expected[facing if a != b else ~facing])
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


def _summary_tables(
    bench: Bench, summary: Sequence[dict[str, Any]], found: MatrixResult
) -> list[dict[str, object]]:
    """Describe the tables of the report: cosines with their decomposition, then other measures."""
    keyed: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for item in summary:
        keyed.setdefault((item["role"], item["view"], item["a"], item["b"]), {})[item["measure"]] = item
    rows = []
    for (role, view, a, b), items in keyed.items():
        column = "other_layers" if a == b else "facing"
        one = {name: items[name][column] if name in items else None for name in _SUMMED}
        other = {name: items[name]["other_layers"] if name in items and a != b else None for name in _SUMMED}
        first = next(iter(items.values()))
        rows.append(
            {
                "models": bench.names(a, b),
                "role": role if view == "whole" else f"{role} ({view})",
                "cosine": one["cosine"],
                "expected": one["mean-direction"],
                "pearson": one["pearson"],
                "cosine_other": other["cosine"],
                "pearson_other": other["pearson"],
                "pairs": first["pairs"],
                "n": first["n"],
            }
        )
    tables = [shown("cosines", rows)] if "cosine" in found.table.distinct("measure") else []
    others = [
        {**item, "models": bench.names(item["a"], item["b"]), "expected_any": item["expected"]}
        for item in summary
        if item["measure"] not in _SUMMED
    ]
    if others:
        columns = ("measure", "models", "role", "facing", "expected_any", "other_layers", "pairs")
        tables.append(shown("other_measures", others, columns))
    return tables


def _baseline_tables(found: MatrixResult) -> list[dict[str, object]]:
    columns = ("baseline", "role", "measure", "scope", "observed", "mean", "q05", "q95", "n", "reason")
    rows = [
        {
            **asdict(item),
            **(asdict(item.null) if item.null else {}),
            "scope": item.scope,
            "reason": item.reason,
        }
        for item in found.baselines
        if item.scope.code != "scope.offset" and item.measure in _SUMMED
    ]
    return [shown("baselines", rows, columns)] if found.baselines else []
