"""Figures that hold models, layers and kinds of tensors against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from modelkin.casework.catalogue import (
    Claim,
    claimed_evidence,
    confusion,
    cosine_and_pearson,
    distribution_by_type,
    pair_matrices,
    type_summary,
)
from modelkin.casework.studies._bench import Bench, Skipped
from modelkin.casework.studies.kinds._square_forms import expected_cells, square
from modelkin.describe.measures import MEASURES, Table, find_measure
from modelkin.figures import Chance, Figure

from ._plot import (
    Curve,
    Options,
    Plot,
    chance_of,
    curve,
    filled,
    grid_of,
    load_table,
    need,
    pair_name,
    plain_layers,
    role_name,
)

_SIGNED = ("cosine", "mean-direction", "pearson", "excess-cosine", "spearman", "cosine-about-1")


def _distribution_by_type(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    name = find_measure(options.measure).name
    values: dict[str, dict[str, Sequence[float | None]]] = {}
    chance: dict[str, Chance] = {}
    reasons: dict[str, str] = {}
    for role in options.roles or table.distinct("role"):
        kind = role_name(role)
        found = {pair: _best_view(table, role, *pair, name) for pair in options.pairs}
        values[kind] = {pair_name(bench, *pair): item.values for pair, item in found.items()}
        first = next((item for item in found.values() if any(v is not None for v in item.values)), None)
        if first is None:
            part = table.where(role=role, measure=name)
            reasons[kind] = next((row.reason for row in part if row.reason), "it was not measured")
        elif name in ("pearson", "spearman"):
            chance[kind] = chance_of(first.n)
        else:
            known = [value for value in first.expected if value is not None]
            chance[kind] = Chance(label="expected if shuffled, first pair", value=float(np.mean(known)))
    if not chance:
        raise Skipped("nothing was measured")
    return distribution_by_type(
        values, measure=find_measure(options.measure).title, chance=chance, reasons=reasons
    )


def _best_view(table: Table, role: str, a: str, b: str, measure: str) -> Curve:
    """Return whole tensors, or the cut ones where only these can be compared."""
    views = ("whole", *(view for view in table.where(role=role).distinct("view") if view != "whole"))
    found = [curve(table, role, a, b, measure, view) for view in views]
    return next((item for item in found if any(value is not None for value in item.values)), found[0])


def _type_summary(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    a, b = options.both
    need(bench, a, b)
    name = find_measure(options.measure).name
    found = {
        role_name(role): _best_view(table, role, a, b, name)
        for role in options.roles or table.distinct("role")
    }
    expected = {}
    for kind, item in found.items():
        known = [value for value in item.expected if value is not None]
        expected[kind] = float(np.mean(known)) if known else None
    return type_summary(
        {kind: item.values for kind, item in found.items()},
        expected,
        measure=find_measure(options.measure).title,
        names=(bench.name(a), bench.name(b)),
    )


def _claimed_evidence(bench: Bench, options: Options) -> Figure:
    document = bench.folder.read_json(bench.earlier(options.data))
    base, evidence = document["baseline"], document["evidence"]
    keys = list(document["groups"]) if options.groups else [*base, evidence]
    claims = []
    for key in keys:
        item = document["groups"][key]
        if item["cosine"] is None or item["expected"] is None:
            raise Skipped(f"{key}: nothing was measured")
        claims.append(
            Claim(
                label=key,
                cosine=item["cosine"],
                expected=item["expected"],
                pearson=item["pearson"],
                baseline=key in base,
            )
        )
    claim = document["claim"]
    spread = claim["difference"] / claim["d"] if claim["d"] else None
    return claimed_evidence(claims, spread_of_cosine=spread)


def _cosine_and_pearson(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    a, b = options.both
    cosine, pearson = (grid_of(bench, table, options.role, a, b, name) for name in ("cosine", "pearson"))
    return cosine_and_pearson(
        filled(cosine.values),
        filled(pearson.values),
        names=(bench.name(a), bench.name(b)),
        n=int(table.where(role=options.role, model_a=a, model_b=b).column("n").max()),
        expected=filled(cosine.expected),
        layers=(plain_layers(cosine.layers_a), plain_layers(cosine.layers_b)),
    )


def _pair_matrices(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    found = {}
    for a, b in options.pairs:
        if a in bench.missing or b in bench.missing:
            continue
        found[pair_name(bench, a, b)] = filled(
            grid_of(bench, table, options.role, a, b, options.measure).values
        )
    if not found:
        raise Skipped("no pair could be measured")
    return pair_matrices(found, measure=find_measure(options.measure).title)


def _confusion(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    measure = find_measure(options.measure).name
    layer: int | Mapping[str, int]
    if options.layers_of is not None:
        layer = options.layers_of
        where = ", ".join(f"{bench.name(alias)} {number}" for alias, number in layer.items())
    elif options.layer is not None:
        layer, where = options.layer, f"layer {options.layer}"
    else:
        raise Skipped("it needs a layer")
    wanted = [alias for alias in options.models or bench.study.models if alias not in bench.missing]
    if isinstance(layer, Mapping) and not set(wanted) <= set(layer):
        raise Skipped("it needs a layer of each model")
    matrices, expected, refused = {}, {}, {}
    for role in options.roles or table.distinct("role"):
        names, cells = table.model_matrix(measure=measure, role=role, layer=layer)
        present = [alias for alias in wanted if alias in names]
        places = [names.index(alias) for alias in present]
        values = filled(cells)[np.ix_(places, places)]
        if present != wanted or not np.isfinite(values).any():
            reasons = [row.reason for row in table.where(role=role, measure=measure) if row.reason]
            refused[role_name(role)] = reasons[0] if reasons else f"no two models have {where}"
            continue
        matrices[role_name(role)] = values
        expected[role_name(role)] = expected_cells(table, measure, role, present, layer)
    if not matrices:
        raise Skipped("; ".join(dict.fromkeys(refused.values())) or "nothing was measured")
    known = {kind: cells for kind, cells in expected.items() if np.isfinite(cells).any()}
    return confusion(
        matrices,
        [bench.name(alias) for alias in wanted],
        measure=MEASURES[measure].title,
        where=where,
        signed=measure in _SIGNED,
        expected=known or None,
        refused=refused,
    )


def _within(bench: Bench, options: Options) -> Figure:
    table = load_table(bench, options)
    measure = find_measure(options.measure).name
    assert options.model is not None
    need(bench, options.model)
    matrices, expected, refused = {}, {}, {}
    layers: tuple[int, ...] = ()
    for role in options.roles or table.distinct("role"):
        grid = table.matrix(measure=measure, role=role, model_a=options.model, model_b=options.model)
        cells, found, chance = square(grid, measure)
        if not grid.values.count():
            part = table.where(role=role, measure=measure, model_a=options.model, model_b=options.model)
            refused[role_name(role)] = next((row.reason for row in part if row.reason), "not measured")
            continue
        layers = found
        matrices[role_name(role)] = cells
        if np.isfinite(np.array(chance)).any():
            expected[role_name(role)] = chance
    if not matrices:
        raise Skipped("; ".join(dict.fromkeys(refused.values())) or "nothing was measured")
    return confusion(
        matrices,
        [f"layer {layer}" for layer in layers],
        measure=MEASURES[measure].title,
        where=f"within {bench.name(options.model)}",
        signed=measure in _SIGNED,
        expected=expected or None,
        refused=refused,
    )


PLOTS = (
    Plot(
        name="distribution-by-type",
        required=("pairs",),
        optional=("roles", "measure"),
        make=_distribution_by_type,
    ),
    Plot(name="type-summary", required=("pair",), optional=("roles", "measure"), make=_type_summary),
    Plot(name="claimed-evidence", required=(), optional=("groups",), make=_claimed_evidence),
    Plot(name="cosine-and-pearson", required=("pair",), optional=("roles",), make=_cosine_and_pearson),
    Plot(name="pair-matrices", required=("pairs",), optional=("roles", "measure"), make=_pair_matrices),
    Plot(
        name="confusion",
        required=("measure",),
        optional=("models", "roles", "layer", "layers_of"),
        make=_confusion,
    ),
    Plot(name="within", required=("measure", "model"), optional=("roles",), make=_within),
)
