"""Figures along the layers of a pair."""

from __future__ import annotations

import numpy as np

from modelkin.casework.catalogue import (
    ControlCurves,
    ShuffleCurves,
    VectorStatistics,
    changed_values,
    comprehensive,
    input_minus_post,
    intuition,
    layer_curves,
    layer_decay,
    matched_rows,
    norm_cosines,
    proof,
    shuffle_summary,
    vector_statistics,
    with_controls,
)
from modelkin.casework.studies._bench import Bench, Skipped
from modelkin.casework.studies._folder import number
from modelkin.casework.studies.kinds._vectors import both_vectors, load_vectors
from modelkin.describe.measures import Table, find_measure
from modelkin.figures import Figure

from ._plot import (
    Options,
    Plot,
    chance_of,
    curve,
    filled,
    grid_of,
    load_table,
    measured_curves,
    model_styles,
    need,
    pair_name,
    role_name,
)


def _layer_curves(bench: Bench, options: Options) -> Figure:
    found = measured_curves(bench, load_table(bench, options), options, options.measure)
    layers = next(iter(found.values())).layers
    title = find_measure(options.measure).title
    a, b = (bench.name(name) for name in options.both)
    curves = {role_name(role): item.values for role, item in found.items()}
    expected = {role_name(role): item.expected for role, item in found.items()}
    if find_measure(options.measure).name in ("pearson", "spearman"):
        # The widest range of all roles: shorter vectors scatter more.
        chance = chance_of(min(item.n for item in found.values()))
        return layer_curves(
            layers, curves, measure=title, title=f"{title} of {a} and {b} by layer", chance=chance
        )
    return layer_curves(
        layers, curves, measure=title, title=f"{title} of {a} and {b} by layer", expected=expected
    )


def _router_matches(bench: Bench, options: Options) -> Figure:
    document = bench.folder.read_json(bench.earlier(options.data))
    rows = document["layers"]
    a, b = document["pair"]
    return matched_rows(
        [row["layer"] for row in rows],
        [row["matched"] for row in rows],
        [row["null_mean"] for row in rows],
        [row["null_low"] for row in rows],
        [row["null_high"] for row in rows],
        names=(bench.name(a), bench.name(b)),
        repeats=document["draws"],
    )


def _norm_cosines(bench: Bench, options: Options) -> Figure:
    found = measured_curves(bench, load_table(bench, options), options, "cosine")
    a, b = options.both
    return norm_cosines(
        next(iter(found.values())).layers,
        {role_name(role): item.values for role, item in found.items()},
        {role_name(role): item.expected for role, item in found.items()},
        names=(bench.name(a), bench.name(b)),
        spread_of_shuffles={role_name(role): item.sd for role, item in found.items()},
    )


def _with_controls(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    a, b = options.both
    kinds = {}
    for role, main in measured_curves(bench, table, options, options.measure).items():
        controls: dict[str, tuple[float | None, ...] | str] = {}
        for control in options.controls:
            for name in (a, b):
                key = pair_name(bench, name, control)
                if control in bench.missing:
                    controls[key] = bench.missing[control]
                    continue
                item = curve(table, role, name, control, options.measure)
                place = dict(zip(item.layers, item.values, strict=True))
                values = tuple(place.get(layer) for layer in main.layers)
                known = any(value is not None for value in values)
                controls[key] = values if known else _why(table, role, name, control)
        correlation = find_measure(options.measure).name in ("pearson", "spearman")
        kinds[role_name(role)] = ControlCurves(
            layers=tuple(float(layer) for layer in main.layers),
            main=main.values,
            controls=controls,
            expected=() if correlation else main.expected,
            chance=chance_of(main.n) if correlation else None,
        )
    return with_controls(kinds, main=pair_name(bench, a, b), measure=find_measure(options.measure).title)


def _why(table: Table, role: str, a: str, b: str) -> str:
    part = table.where(role=role)
    for first, second in ((a, b), (b, a)):
        for row in part.where(model_a=first, model_b=second):
            if row.reason:
                return row.reason
    return "it was not measured"


def _comprehensive(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    cosine = measured_curves(bench, table, options, "cosine")
    pearson = measured_curves(bench, table, options, "pearson", list(cosine))
    a, b = options.both
    return comprehensive(
        next(iter(cosine.values())).layers,
        {role_name(role): item.values for role, item in cosine.items()},
        {role_name(role): item.expected for role, item in cosine.items()},
        {role_name(role): item.values for role, item in pearson.items()},
        names=(bench.name(a), bench.name(b)),
        n=min(item.n for item in cosine.values()),
    )


def _proof(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    a, b = options.both
    found = {
        name: measured_curves(bench, table, options, name) for name in ("cosine", "cosine-about-1", "pearson")
    }
    grid = grid_of(bench, table, next(iter(found["cosine"])), a, b, "cosine")
    rows, columns = (np.array(layers, dtype=np.int64) for layers in (grid.layers_a, grid.layers_b))
    apart = np.abs(columns[None, :] - rows[:, None]) == options.distance
    mismatched = filled(grid.values)[apart]
    if not np.isfinite(mismatched).any():
        raise Skipped(f"no two layers are {options.distance} apart")
    curves = {
        name: {role_name(role): item.values for role, item in items.items()} for name, items in found.items()
    }
    return proof(
        next(iter(found["cosine"].values())).layers,
        curves["cosine"],
        {role_name(role): item.expected for role, item in found["cosine"].items()},
        curves["cosine-about-1"],
        curves["pearson"],
        mismatched,
        names=(bench.name(a), bench.name(b)),
        n=min(item.n for item in found["cosine"].values()),
        distance=f"{options.distance} apart",
    )


def _layer_decay(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    a, b = options.both
    grid = grid_of(bench, table, options.role, a, b, options.measure)
    facing = curve(table, options.role, a, b, "pearson")
    if min(grid.values.shape) < 2:
        raise Skipped("there are fewer than two layers")
    return layer_decay(
        filled(grid.values),
        facing.values,
        names=(bench.name(a), bench.name(b)),
        n=facing.n,
        signed=find_measure(options.measure).name != "cosine",
    )


def _intuition(bench: Bench, options: Options) -> Figure:
    assert options.vectors is not None
    table = load_table(bench, options)
    a, b = options.both
    need(bench, a, b)
    one, other, common = both_vectors(load_vectors(bench, options.vectors), a, b, options.role)
    cosine, pearson = (curve(table, options.role, a, b, name) for name in ("cosine", "pearson"))
    known = {
        layer: value
        for layer, value in zip(cosine.layers, cosine.values, strict=True)
        if value is not None and layer in common
    }
    if not known:
        raise Skipped("nothing was measured")
    # The layer that speaks most for a relation, unless one is asked for: no other choice is less unfair.
    layer = options.layer if options.layer is not None else max(known, key=lambda item: known[item])
    if layer not in common:
        raise Skipped(f"not both models have layer {layer}")
    return intuition(
        one.at((layer,))[0],
        other.at((layer,))[0],
        names=(bench.name(a), bench.name(b)),
        layer=layer,
        layers=cosine.layers,
        cosine=cosine.values,
        pearson=pearson.values,
        expected=cosine.expected,
        sample=min(50, one.n),
        styles=model_styles(bench),
    )


def _changed_values(bench: Bench, options: Options) -> Figure:
    document = bench.folder.read_json(bench.earlier(options.data))
    rows = [dict(zip(document["columns"], row, strict=True)) for row in document["rows"]]
    rows = [row for row in rows if row["role"] == options.role]
    if not rows:
        raise Skipped("nothing was measured")
    a, b = document["pair"]
    return changed_values(
        [row["layer"] for row in rows],
        [None if row["changed_share"] is None else 100 * row["changed_share"] for row in rows],
        [row["mean_absolute_difference"] for row in rows],
        [row["mean_ulps"] for row in rows],
        one_ulp=[row["one_ulp"] for row in rows],
        names=(bench.name(a), bench.name(b)),
        what=role_name(options.role),
    )


def _shuffle_summary(bench: Bench, options: Options) -> Figure:
    document = bench.folder.read_json(bench.earlier(options.data))
    rows = bench.folder.read_csv(bench.earlier(options.data, ".csv"))
    a, b = document["pair"]
    kinds = {}
    for category in dict.fromkeys(row["category"] for row in rows):
        part = [row for row in rows if row["category"] == category]

        def column(name: str, part: list[dict[str, str]] = part) -> tuple[float | None, ...]:
            return tuple(number(row[name]) for row in part)

        kinds[{"norm_pre": "input norm", "norm_post": "post-attention norm"}.get(category, category)] = (
            ShuffleCurves(
                layers=column("layer"),
                cosine=column("cosine"),
                shuffled=column("cosine_shuffled"),
                pearson=column("cosine_centered"),
                shuffled_low=column("shuffled_low"),
                shuffled_high=column("shuffled_high"),
            )
        )
    return shuffle_summary(kinds, names=(bench.name(a), bench.name(b)), n=int(rows[0]["n"]))


def _vector_statistics(bench: Bench, options: Options) -> Figure:
    rows = bench.folder.read_csv(bench.earlier(options.data, ".csv"))
    models = {}
    for alias in options.models or bench.study.models:
        part = [row for row in rows if row["model"] == alias and row["role"] == options.role]
        if part:
            models[bench.name(alias)] = VectorStatistics(
                layers=tuple(float(row["layer"]) for row in part),
                mean=tuple(number(row["mean"]) for row in part),
                std=tuple(number(row["std"]) for row in part),
                min=tuple(number(row["minimum"]) for row in part),
                max=tuple(number(row["maximum"]) for row in part),
            )
    if not models:
        raise Skipped("there are no vectors of this role")
    return vector_statistics(models, what=role_name(options.role), styles=model_styles(bench))


def _input_minus_post(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    role = options.role
    tensors = bench.folder.read_csv(bench.earlier(options.data, "-tensors.csv"))
    pearson: dict[str, dict[int, float | None]] = {}
    for a, b in options.pairs:
        if a not in bench.missing and b not in bench.missing:
            item = curve(table, role, a, b, "pearson")
            pearson[pair_name(bench, a, b)] = dict(zip(item.layers, item.values, strict=True))
    statistics: dict[str, dict[str, dict[int, float | None]]] = {"mean": {}, "std": {}}
    for row in tensors:
        if row["role"] == role:
            for name, by_model in statistics.items():
                by_model.setdefault(bench.name(row["model"]), {})[int(row["layer"])] = number(row[name])
    everything = [*pearson.values(), *statistics["mean"].values()]
    layers = sorted({layer for by_layer in everything for layer in by_layer})
    n = max((int(row["n"]) for row in tensors if row["role"] == role), default=0)
    if not pearson or n < 3:
        raise Skipped("nothing was measured")

    def over(curves: dict[str, dict[int, float | None]]) -> dict[str, list[float | None]]:
        return {name: [values.get(layer) for layer in layers] for name, values in curves.items()}

    return input_minus_post(
        layers,
        over(statistics["mean"]),
        over(statistics["std"]),
        over(pearson),
        n=n,
        styles=model_styles(bench),
    )


PLOTS = (
    Plot(name="layer-curves", required=("pair",), optional=("roles", "measure"), make=_layer_curves),
    Plot(name="router-matches", required=(), optional=(), make=_router_matches),
    Plot(name="norm-cosines", required=("pair",), optional=("roles",), make=_norm_cosines),
    Plot(
        name="with-controls",
        required=("pair", "controls"),
        optional=("roles", "measure"),
        make=_with_controls,
    ),
    Plot(name="comprehensive", required=("pair",), optional=("roles",), make=_comprehensive),
    Plot(name="proof", required=("pair",), optional=("roles", "distance"), make=_proof),
    Plot(name="layer-decay", required=("pair",), optional=("roles", "measure"), make=_layer_decay),
    Plot(name="intuition", required=("pair", "vectors"), optional=("roles", "layer"), make=_intuition),
    Plot(name="changed-values", required=(), optional=("roles",), make=_changed_values),
    Plot(name="shuffle-summary", required=(), optional=(), make=_shuffle_summary),
    Plot(name="vector-statistics", required=(), optional=("models", "roles"), make=_vector_statistics),
    Plot(name="input-minus-post", required=("pairs",), optional=("roles",), make=_input_minus_post),
)
