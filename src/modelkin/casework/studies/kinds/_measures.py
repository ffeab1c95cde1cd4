"""``measures``: any measure over any roles and layers of the models, with baselines; see `matrix`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from modelkin.casework.studies._bench import Bench, Skipped, said
from modelkin.casework.studies._node import Node
from modelkin.casework.studies._spec import Fields, Scope
from modelkin.describe.matrix import (
    BASELINES,
    KnownRelation,
    MatrixOptions,
    MatrixResult,
    matrix,
)
from modelkin.describe.measures import (
    PAIRINGS,
    LayerPairing,
)
from modelkin.document.numbers import runs_text
from modelkin.errors import UsageError
from modelkin.model import Model

from ._form import Form
from ._forms import FORMS, read_form
from ._kind import Kind
from ._reading import read_layers, read_measures, read_roles
from ._summary import shown_summary, summed_up

_LAYER = re.compile(r"layer \d+")
TENSOR_COLUMNS = (
    "model",
    "role",
    "layer",
    "tensor",
    "file",
    "dtype",
    "bytes",
    "shape",
    "n",
    "mean",
    "std",
    "minimum",
    "maximum",
    "norm",
    "p99",
    "rho",
    "reason",
    "note",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Options of the experiment."""

    models: tuple[str, ...]
    roles: tuple[str, ...]
    measures: tuple[str, ...]
    layers: str | None
    layers_of: Mapping[str, str]
    pairs: tuple[LayerPairing, ...]
    baselines: tuple[str, ...]
    truncation: bool
    mtp: bool
    sample: int
    draws: int
    write: tuple[Form, ...]


def read(parts: dict[str, Node], scope: Scope) -> Measures:
    """Read the options."""
    usual = MatrixOptions()
    pairs = parts["pairs"].choices(PAIRINGS) if "pairs" in parts else usual.pairs
    own = parts["layers_of"].fields(optional=tuple(scope.models)) if "layers_of" in parts else {}
    return Measures(
        models=scope.aliases(parts.get("models")),
        roles=read_roles(parts["roles"]),
        measures=read_measures(parts["measures"]) if "measures" in parts else usual.measures,
        layers=read_layers(parts["layers"]) if "layers" in parts else None,
        layers_of={alias: read_layers(node) for alias, node in own.items()},
        pairs=tuple(item for item in PAIRINGS if item in pairs),
        baselines=parts["baselines"].choices(tuple(BASELINES), least=0) if "baselines" in parts else (),
        truncation=parts["truncation"].flag() if "truncation" in parts else False,
        mtp=parts["mtp"].flag() if "mtp" in parts else False,
        sample=parts["sample"].whole(low=16, high=2**28) if "sample" in parts else usual.sample,
        draws=parts["draws"].whole(low=1, high=10_000) if "draws" in parts else usual.draws,
        write=tuple(read_form(node, scope) for node in parts["write"].items(most=20))
        if "write" in parts
        else (),
    )


def run(bench: Bench, options: Measures) -> None:
    """Measure, and write table, tensors, baselines, and the files in other forms that are asked for."""
    models = bench.available(options.models, least=1 if options.pairs == ("within",) else 2)
    try:
        found = matrix(models, _matrix_options(bench, options, models))
    except UsageError as error:
        raise Skipped(str(error)) from error
    if not found.table.values.count():
        reasons = dict.fromkeys(str(reason) for reason in found.table.distinct("reason") if reason)
        bench.leave("everything", "; ".join(list(reasons)[:3]) or "no layers face each other")
    bench.folder.table(bench.data(".csv"), found.table)
    bench.folder.csv(bench.data("-tensors.csv"), TENSOR_COLUMNS, _tensor_rows(found, models))
    _leave_missing(bench, found)
    bench.document(
        {
            "models": found.models,
            "pairs": options.pairs,
            "baselines": found.baselines,
            "notes": found.notes,
            "summary": (summary := summed_up(found.table, list(models))),
        },
        tables=shown_summary(bench, summary, found),
        said=[said("identity")] if "cosine" in found.table.distinct("measure") else [],
    )
    for form in options.write:
        FORMS[form.form](bench, form, found.table)


def _matrix_options(bench: Bench, options: Measures, models: Mapping[str, Model]) -> MatrixOptions:
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
        measures=options.measures,
        roles=options.roles,
        layers=options.layers,
        layers_of={alias: text for alias, text in options.layers_of.items() if alias in models},
        pairs=options.pairs,
        baselines=options.baselines,
        groups=groups if "groups" in options.baselines else {},
        known=known,
        truncation=options.truncation,
        mtp=options.mtp,
        sample=options.sample,
        draws=options.draws,
        seed=bench.seed,
        fetch=bench.fetch,
    )


def _tensor_rows(found: MatrixResult, models: Mapping[str, Model]) -> list[list[object]]:
    rows = []
    for item in found.tensors:
        info = models[item.model].index.get(item.tensor)  # none for a difference of two
        row = {
            **asdict(item),
            "shape": "x".join(map(str, item.shape)),
            "file": info.file if info is not None else None,
            "bytes": info.n_bytes if info is not None else None,
        }
        rows.append([row[name] for name in TENSOR_COLUMNS])
    return rows


def _leave_missing(bench: Bench, found: MatrixResult) -> None:
    """Record why pairs were not measured, once for each role, pair of models and reason."""
    table = found.table
    told = (table.distinct("measure")[0], "cv-difference", "mean-ulps") if len(table) else ()
    gaps: dict[tuple[str, ...], list[int]] = {}
    for row in table.where(measure=told) if told else ():
        if row.value is None:
            # Layers that a shallower model lacks are told together.
            reason = _LAYER.sub("such layer", str(row.reason))
            key = row.role, row.model_a, row.model_b, row.view, row.measure, reason
            gaps.setdefault(key, []).append(-1 if row.layer_a is None else row.layer_a)
    for (role, a, b, view, measure, reason), layers in gaps.items():
        cut = "" if view == "whole" else f", {view}"
        numbers = runs_text(sorted({layer for layer in layers if layer >= 0}))
        where = f", layers {numbers}" if numbers else ""
        bench.leave(f"{role}{cut}, {measure} of {a} and {b}{where}", reason)


KIND = Kind(
    name="measures",
    meaning="measures over roles and layers of models, with baselines",
    fields=Fields(
        required=("roles",),
        optional=(
            "models",
            "measures",
            "layers",
            "layers_of",
            "pairs",
            "baselines",
            "truncation",
            "mtp",
            "sample",
            "draws",
            "write",
        ),
        read=read,
    ),
    run=run,
)
