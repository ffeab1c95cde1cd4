"""Figures of baselines: many pairs of models, groups, and layers within models."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from modelkin.casework.catalogue import (
    Measured,
    experiments_summary,
    group_means,
    layer_pairs,
    layer_range,
    measure_comparison,
    model_matrix,
)
from modelkin.casework.studies._bench import Bench, Skipped
from modelkin.casework.studies._spec import RELATIONS
from modelkin.casework.studies.kinds._square_forms import expected_cells
from modelkin.describe.measures import Table, find_measure
from modelkin.figures import Figure

from ._plot import (
    Options,
    Plot,
    curve,
    filled,
    load_table,
    model_styles,
    pair_name,
    plain_layers,
    role_name,
)

Cells = dict[str, tuple[float | None, ...]]


def _pair_cells(bench: Bench, options: Options, table: Table) -> tuple[list[str], Cells, Cells]:
    """Return labels, cosines and expectations of pairs of layers within models."""
    values, expected = {}, {}
    for alias in options.models or bench.study.models:
        if alias in bench.missing:
            continue
        cells = {
            (row.layer_a, row.layer_b): row
            for row in table.where(measure="cosine", role=options.role, model_a=alias, model_b=alias)
        }
        rows = [cells.get(pair) for pair in options.layer_pairs]
        if any(row is not None and row.value is not None for row in rows):
            values[bench.name(alias)] = tuple(row.value if row else None for row in rows)
            expected[bench.name(alias)] = tuple(row.expected if row else None for row in rows)
    if not values:
        raise Skipped("no model has these layers")
    return [f"{i} and {j}" for i, j in options.layer_pairs], values, expected


def _layer_pairs(bench: Bench, options: Options) -> Figure:
    labels, values, expected = _pair_cells(bench, options, load_table(bench, options))
    return layer_pairs(
        labels,
        values,
        expected,
        title=f"{role_name(options.role)}: cosines of layers within each model",
        zoom=options.zoom,
        styles=model_styles(bench),
    )


Square = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _model_cells(bench: Bench, options: Options, table: Table) -> tuple[list[str], Square, Square]:
    """Return aliases, values and expectations of models against models at one layer."""
    if options.layer is None:
        raise Skipped("it needs a layer")
    measure = find_measure(options.measure).name
    names, cells = table.model_matrix(measure=measure, role=options.role, layer=options.layer)
    wanted = [alias for alias in options.models or bench.study.models if alias in names]
    places = [names.index(alias) for alias in wanted]
    values = filled(cells)[np.ix_(places, places)]
    has = np.asarray(np.isfinite(values).any(axis=1))
    kept = [alias for alias, there in zip(wanted, has.tolist(), strict=True) if there]
    if len(kept) < 2:
        raise Skipped(f"no two models have layer {options.layer}")
    expected = expected_cells(table, measure, options.role, kept, options.layer)
    return kept, values[np.ix_(has, has)], expected


def _model_matrix(bench: Bench, options: Options) -> Figure:
    kept, values, expected = _model_cells(bench, options, load_table(bench, options))
    groups = [bench.study.models[alias].group or "other" for alias in kept]
    related = [(bench.name(a), bench.name(b)) for a, b in combinations(kept, 2) if _relatives(bench, a, b)]
    return model_matrix(
        [bench.name(alias) for alias in kept],
        values,
        measure=find_measure(options.measure).title,
        title=f"{role_name(options.role)}, layer {options.layer}",
        expected=expected,
        groups=groups if options.groups else None,
        related=related,
    )


def _relatives(bench: Bench, a: str, b: str) -> bool:
    """Say whether two models are known to be related; no pair of them belongs into a baseline."""
    relation = bench.study.relation_of(a, b)
    return relation is not None and relation.relation in RELATIONS[:2]


def _range_cells(
    bench: Bench, options: Options, table: Table
) -> tuple[list[int], dict[str, list[float | None]], list[float | None]]:
    """Return layers, a curve for each pair of strangers, and the mean of their expectations."""
    layers = list(options.layers) or plain_layers(table.distinct("layer_a"))
    curves: dict[str, list[float | None]] = {}
    expected: list[list[float]] = [[] for _ in layers]
    aliases = [alias for alias in options.models or bench.study.models if alias not in bench.missing]
    for a, b in combinations(aliases, 2):
        if _relatives(bench, a, b):
            continue
        item = curve(table, options.role, a, b, options.measure)
        place = {layer: at for at, layer in enumerate(item.layers)}
        values = [item.values[place[layer]] if layer in place else None for layer in layers]
        if any(value is not None for value in values):
            curves[pair_name(bench, a, b)] = values
            for at, layer in enumerate(layers):
                if layer in place and (chance := item.expected[place[layer]]) is not None:
                    expected[at].append(chance)
    if not curves:
        raise Skipped("no pair has these layers")
    return layers, curves, [float(np.mean(many)) if many else None for many in expected]


def _layer_range(bench: Bench, options: Options) -> Figure:
    layers, curves, expected = _range_cells(bench, options, load_table(bench, options))
    main = pair_name(bench, *options.pair) if options.pair else None
    return layer_range(
        layers,
        curves,
        measure=find_measure(options.measure).title,
        expected=expected,
        highlight=main if main in curves else None,
    )


Groups = dict[str, dict[str, float | None]]


def _group_cells(bench: Bench, options: Options, table: Table) -> tuple[Groups, Groups]:
    """Return pairs by group: inside each and between them; known relatives belong to none."""
    kept, values, expected = _model_cells(bench, options, table)
    found: Groups = {}
    chance: Groups = {}
    for (i, a), (j, b) in combinations(enumerate(kept), 2):
        groups = [bench.study.models[alias].group for alias in (a, b)]
        if None in groups or _relatives(bench, a, b) or not np.isfinite(values[i, j]):
            continue
        order = list(bench.study.groups)
        name = " x ".join(sorted((str(group) for group in groups), key=order.index))
        found.setdefault(name, {})[pair_name(bench, a, b)] = float(values[i, j])
        chance.setdefault(name, {})[pair_name(bench, a, b)] = float(expected[i, j])
    if not found:
        raise Skipped("no pair of models with groups was measured")
    return found, chance


def _group_means(bench: Bench, options: Options) -> Figure:
    found, chance = _group_cells(bench, options, load_table(bench, options))
    return group_means(found, chance, measure=find_measure(options.measure).title)


def _measure_comparison(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    layer = options.layer
    pairs = {}
    for a, b in options.pairs:
        item = _measured(table, options.role, a, b, layer, layer)
        if item is not None:
            pairs[pair_name(bench, a, b)] = item
    within = {}
    for alias in options.models:
        for i, j in options.layer_pairs:
            item = _measured(table, options.role, alias, alias, i, j)
            if item is not None:
                within[f"{bench.name(alias)}, {i} and {j}"] = item
    panels = {f"pairs, layer {layer}": pairs, "within models": within}
    if options.random is not None:
        rows = bench.folder.read_json(bench.earlier(options.random))["rows"]
        panels["independent normal vectors"] = {
            row["what"]: Measured(cosine=row["cosine"], pearson=row["pearson"], expected=row["closed_form"])
            for row in rows
        }
    shown = {title: items for title, items in panels.items() if items}
    if not shown:
        raise Skipped("nothing was measured")
    return measure_comparison(shown)


def _measured(table: Table, role: str, a: str, b: str, i: int | None, j: int | None) -> Measured | None:
    found = {}
    for first, second, one, other in ((a, b, i, j), (b, a, j, i)):
        for row in table.where(
            role=role, view="whole", model_a=first, model_b=second, layer_a=one, layer_b=other
        ):
            found[row.measure] = row
    if "cosine" not in found or found["cosine"].value is None:
        return None
    pearson = found.get("pearson")
    return Measured(
        cosine=found["cosine"].value,
        pearson=pearson.value if pearson else None,
        expected=found["cosine"].expected,
    )


def _experiments_summary(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    kept, values, expected = _model_cells(bench, options, table)
    few = replace(options, models=options.pair) if options.pair else options
    return experiments_summary(
        _pair_cells(bench, few, table),
        ([bench.name(alias) for alias in kept], values, expected),
        _range_cells(bench, options, table),
        _group_cells(bench, options, table),
    )


PLOTS = (
    Plot(
        name="layer-pairs",
        required=("layer_pairs",),
        optional=("models", "roles", "zoom"),
        make=_layer_pairs,
    ),
    Plot(
        name="model-matrix",
        required=("layer",),
        optional=("models", "roles", "measure", "groups"),
        make=_model_matrix,
    ),
    Plot(
        name="layer-range",
        required=(),
        optional=("models", "roles", "measure", "layers", "pair"),
        make=_layer_range,
    ),
    Plot(name="group-means", required=("layer",), optional=("models", "roles", "measure"), make=_group_means),
    Plot(
        name="measure-comparison",
        required=("pairs", "layer"),
        optional=("models", "roles", "layer_pairs", "random"),
        make=_measure_comparison,
    ),
    Plot(
        name="experiments-summary",
        required=("layer", "layer_pairs"),
        optional=("models", "roles", "layers", "pair"),
        make=_experiments_summary,
    ),
)
