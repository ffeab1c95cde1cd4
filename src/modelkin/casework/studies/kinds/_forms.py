"""Further files of a table of measures, in the forms of published analyses, so that files can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from modelkin.casework.studies.bench import Bench
from modelkin.casework.studies.folder import filled_path
from modelkin.casework.studies.reading import (
    Aliases,
    AliasPair,
    Earlier,
    LayerOf,
    Layers,
    MeasureNames,
    Roles,
    form,
)
from modelkin.casework.studies.saved import expected_cells, far_apart, square
from modelkin.describe.measures import (
    MEASURES,
    LayerMatrix,
    MeasureTable,
    distribution,
    find_measure,
    off_diagonal,
    offset_profile,
)
from modelkin.message import say
from modelkin.structs import Fields

CATEGORIES = {"attention_norm": "norm_pre", "mlp_norm": "norm_post"}
"""What published tables call roles."""
_FILE = r"[A-Za-z0-9_][A-Za-z0-9_.{}-]{0,80}(?:/[A-Za-z0-9_{][A-Za-z0-9_.{}-]{0,80}){0,4}"


class Form(Fields, tag_field="form", tag="form"):
    """A further file of a table."""

    file: Annotated[str, form("a path", _FILE)]
    """May hold ``{measure}``, ``{layer}``, ``{layers}`` and ``{model}`` where several files are written."""
    roles: Roles = ()
    """All of the table, if none is named."""

    def write(self, bench: Bench, table: MeasureTable) -> None:
        raise NotImplementedError

    def roles_of(self, table: MeasureTable) -> tuple[str, ...]:
        """Return the roles that the file is about."""
        return tuple(role for role in table.distinct("role") if not self.roles or role in self.roles)


# -- a row for each layer and tensor -------------------------------------------------------------------

Tensors = Mapping[tuple[str, str, str], Mapping[str, str]]


def _tensors(bench: Bench) -> Tensors:
    """Return what is known of each tensor, by model, role and layer as text."""
    rows = bench.folder.read_csv(bench.data("-tensors.csv"))
    return {(row["model"], row["role"], row["layer"]): row for row in rows}


def _cells(
    table: MeasureTable, role: str, view: str, a: str, b: str
) -> Iterator[tuple[int, dict[str, float | None]]]:
    """Yield facing layers with all their measures."""
    found: dict[int, dict[str, float | None]] = {}
    for row in table.where(role=role, view=view, model_a=a, model_b=b):
        if row.layer_a is not None and row.layer_a == row.layer_b:
            cells = found.setdefault(row.layer_a, {})
            cells[row.measure] = row.value
            cells[f"{row.measure} expected"], cells[f"{row.measure} sd"] = row.expected, row.expected_sd
            cells["n"] = row.n
    yield from sorted(found.items())


class Layerwise(Form, tag="layerwise"):
    """One row for each facing layer and role, with names and files of the tensors."""

    models: AliasPair
    routers: Earlier | None = None
    """Experiment of kind ``routers`` whose matched cosines are put beside."""

    def write(self, bench: Bench, table: MeasureTable) -> None:
        a, b = self.models
        tensors = _tensors(bench)
        matched: dict[int, float | None] = {}
        if self.routers is not None and bench.folder.has(path := bench.data(".json", of=self.routers)):
            matched = {row["layer"]: row["matched"] for row in bench.folder.read_json(path)["layers"]}
        rows: list[dict[str, Any]] = []
        for role in self.roles_of(table):
            for layer, cells in _cells(table, role, "whole", a, b):
                one, other = (tensors.get((name, role, str(layer)), {}) for name in (a, b))
                rows.append(
                    {
                        "layer_B": layer,
                        "layer_A": layer,
                        "category": CATEGORIES.get(role, role),
                        "cosine": cells.get("cosine"),
                        "pearson": cells.get("pearson"),
                        "aligned_expert_cosine": matched.get(layer) if role == "router" else None,
                        "bytes": one.get("bytes"),
                        "shape": one.get("shape"),
                        "key_A": one.get("tensor"),
                        "key_B": other.get("tensor"),
                        "shard_A": one.get("file"),
                        "shard_B": other.get("file"),
                        "cosine_expected": cells.get("cosine expected"),
                        "excess_cosine": cells.get("excess-cosine"),
                        "n": cells.get("n"),
                    }
                )
        bench.folder.rows(self.file, sorted(rows, key=lambda row: (row["layer_B"], row["category"])))


class SampledForm(Form, tag="sampled"):
    """One row for each layer, role and cut, with what came of it; every value counts once in n."""

    models: AliasPair

    def write(self, bench: Bench, table: MeasureTable) -> None:
        a, b = self.models
        tensors = _tensors(bench)
        rows: list[dict[str, Any]] = []
        for role in self.roles_of(table):
            part = table.where(role=role, model_a=a, model_b=b)
            cut = {row.layer_a for row in part if row.view != "whole" and row.value is not None}
            reasons = {(row.view, row.layer_a): str(row.reason) if row.reason else None for row in part}
            for view in part.distinct("view"):
                for layer, cells in _cells(part, role, view, a, b):
                    one, other = (tensors.get((name, role, str(layer)), {}) for name in (a, b))
                    reason, same = reasons[view, layer], cells.get("byte-identity")
                    cosine, expected, sd = map(cells.get, ("cosine", "cosine expected", "cosine sd"))
                    known = cosine is not None and expected is not None and sd
                    rows.append(
                        {
                            "layer": layer,
                            "tensor": role,
                            "view": view,
                            "status": _status(reason, one, other, view, layer in cut),
                            f"{a}_dtype": one.get("dtype"),
                            f"{b}_dtype": other.get("dtype"),
                            f"{a}_shape": one.get("shape"),
                            f"{b}_shape": other.get("shape"),
                            "raw_hash_equal": None if same is None else same == 1.0,
                            "cosine": cosine,
                            "rel_rmse": cells.get("relative-l2"),
                            "cosine_expected": expected,
                            "cosine_expected_sd": sd,
                            "z_cos": (cosine - expected) / sd if known else None,  # type: ignore[operator]
                            "n": cells.get("n"),
                            "note": reason or one.get("note"),
                        }
                    )
        bench.folder.rows(self.file, sorted(rows, key=lambda row: (row["layer"], row["tensor"], row["view"])))


def _status(
    reason: str | None, one: Mapping[str, str], other: Mapping[str, str], view: str, cut: bool
) -> str:
    if not one or not other:
        return "missing_in_one_repo"
    if view != "whole":
        return "truncated_to_fit"
    if reason is None:
        return "ok"
    return "shape_mismatch_but_trunc_test_ok" if cut else "shape_or_dtype_mismatch"


# -- squares -------------------------------------------------------------------------------------------


class Squares(Form, tag="squares"):
    """A file for each measure."""

    names: MeasureNames = ()
    """Measures as file names call them; several may mean one measure."""

    def measures(self, table: MeasureTable) -> Iterator[tuple[str, str]]:
        """Yield measures: what a file calls them, and what they are."""
        for name in self.names or table.distinct("measure"):
            measure = find_measure(name).name
            if measure in table.distinct("measure"):
                yield name.replace("-", "_"), measure


class Confusion(Squares, tag="confusion"):
    """Models against models, one file for each measure and layer, or for one mixed set of layers.

    A model with itself is left out: it was not measured, and nothing is written in by hand.
    """

    layers: Layers | None = None
    layers_of: LayerOf = LayerOf()

    def write(self, bench: Bench, table: MeasureTable) -> None:
        wanted: Sequence[int | Mapping[str, int]] = self.layers.numbers if self.layers else [self.layers_of]
        models = {*table.distinct("model_a"), *table.distinct("model_b")}
        if not self.layers and not models <= self.layers_of.keys():
            bench.leave(self.file, say("study.layer-of-each"))
            return
        for called, measure in self.measures(table):
            for layer in wanted:
                mats, expected = {}, {}
                present: tuple[str, ...] = ()
                for role in self.roles_of(table):
                    names, values = table.model_matrix(measure=measure, role=role, layer=layer)
                    present = present or names
                    mats[role] = values
                    expected[role] = expected_cells(table, measure, role, names, layer)
                if not any(cells.count() for cells in mats.values()):
                    bench.leave(
                        say("study.at-layer", what=called, layer=str(layer)), say("study.no-two-models")
                    )
                    continue
                mixed = None if isinstance(layer, int) else layer
                number = "_".join(f"{alias}{at}" for alias, at in mixed.items()) if mixed else layer
                reasons = {str(row.reason) for row in table.where(measure=measure) if row.value is None}
                document = {
                    "metric": called,
                    "measure": measure,
                    **({f"{alias}_layer": at for alias, at in mixed.items()} if mixed else {"layer": layer}),
                    "models": [bench.name(name) for name in present],
                    "mats": mats,
                    "expected": expected,
                    "symmetric": MEASURES[measure].symmetric,
                    "not_measured": sorted(reasons)[:20],
                }
                bench.folder.json(filled_path(self.file, measure=called, layer=number), document)


class Within(Squares, tag="within"):
    """Layers of each model against each other, one file for each measure and model."""

    models: Aliases = Aliases()

    def write(self, bench: Bench, table: MeasureTable) -> None:
        for called, measure in self.measures(table):
            for model in self.models or bench.study.models:
                mats, expected = {}, {}
                layers: tuple[int, ...] = ()
                for role in self.roles_of(table):
                    grid = table.matrix(measure=measure, role=role, model_a=model, model_b=model)
                    mats[role], layers, expected[role] = square(grid, measure)
                if not layers:
                    continue
                document = {
                    "metric": called,
                    "measure": measure,
                    "model": bench.name(model),
                    "layers": layers,
                    "params": list(mats),
                    "mats": mats,
                    "expected": expected,
                }
                numbers = "_".join(map(str, layers))
                file = filled_path(self.file, measure=called, model=model, layers=numbers)
                bench.folder.json(file, document)


# -- sums over layers ----------------------------------------------------------------------------------


class Decay(Form, tag="decay"):
    """Facing layers against all others, and the first half against the second."""

    models: AliasPair

    def write(self, bench: Bench, table: MeasureTable) -> None:
        a, b = self.models
        found: dict[str, dict[str, object]] = {}
        for role in self.roles_of(table):
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
        bench.folder.json(self.file, {"model_a": bench.name(a), "model_b": bench.name(b), "roles": found})


class StatisticsForm(Form, tag="statistics"):
    """Mean, deviation and range over layers for the first model with each of the others."""

    models: Aliases = Aliases()
    distance: Annotated[int, Meta(ge=1, le=999)] = 5
    """How far mismatched layers are apart."""

    def write(self, bench: Bench, table: MeasureTable) -> None:
        """Write it; a control that is missing is its reason."""
        found: dict[str, object] = {}
        main, *controls = self.models or bench.study.models
        for other in controls:
            gone = next((alias for alias in (other, main) if alias in bench.missing), None)
            if gone is not None:
                found[f"{main}_{other}"] = {"available": False, "reason": bench.missing[gone]}
                continue
            found[f"{main}_{other}"] = {
                "available": True,
                **{
                    CATEGORIES.get(role, role): {
                        measure: {
                            "facing": distribution(_facing(grid)),
                            "mismatched": distribution(far_apart(grid, self.distance)),
                        }
                        for measure in table.distinct("measure")
                        for grid in [table.matrix(measure=measure, role=role, model_a=main, model_b=other)]
                    }
                    for role in self.roles_of(table)
                },
            }
        bench.folder.json(self.file, {"mismatched_distance": self.distance, "pairs": found})


def _average(values: np.ma.MaskedArray[Any, Any]) -> float | None:
    return float(values.mean()) if values.count() else None


def _equal(grid: LayerMatrix) -> list[tuple[int, int]]:
    """Return the places of layers of equal number, in order."""
    return [
        (i, grid.layers_b.index(layer)) for i, layer in enumerate(grid.layers_a) if layer in grid.layers_b
    ]


def _facing(grid: LayerMatrix) -> np.ma.MaskedArray[Any, Any]:
    pairs = _equal(grid)
    return grid.values[[i for i, _ in pairs], [j for _, j in pairs]]


def _best_of_row(grid: LayerMatrix) -> dict[str, float]:
    """Count rows whose facing layer is the best: by chance one in as many as there are columns."""
    rows = _equal(grid)
    best = sum(bool(grid.values[i].argmax() == j) for i, j in rows)
    return {"rows": len(rows), "best": best, "expected": len(rows) / max(1, len(grid.layers_b))}


FORMS: tuple[type[Form], ...] = (Layerwise, SampledForm, Confusion, Within, Decay, StatisticsForm)
AnyForm = Layerwise | SampledForm | Confusion | Within | Decay | StatisticsForm
