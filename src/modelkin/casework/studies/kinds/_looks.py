"""``projection`` and ``changes``: principal components of layers, and what differs in near equal models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.casework.catalogue import principal_components
from modelkin.casework.studies._bench import Bench, Skipped, said, shown_table
from modelkin.casework.studies._node import Node
from modelkin.casework.studies._spec import Fields, Scope
from modelkin.describe.measures import MEASURES, Pairs, Stack, measured

from ._kind import Kind
from ._reading import read_roles
from ._vectors import both_vectors, load_vectors

_FRACTION_BITS = {"BF16": 7, "F16": 10, "F32": 23}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Options of ``projection``."""

    vectors: str
    models: tuple[str, ...]
    role: str


def read_projection(parts: dict[str, Node], scope: Scope) -> Look:
    """Read the options."""
    return Look(
        vectors=scope.experiment(parts["from"]),
        models=scope.aliases(parts.get("models")),
        role=read_roles(parts["roles"])[0] if "roles" in parts else "attention_norm",
    )


def run_projection(bench: Bench, options: Look) -> None:
    """Project the layers of all models together, as stored and scaled; models of other widths stay out."""
    saved = load_vectors(bench, options.vectors)
    chosen = {alias: saved[alias, options.role] for alias in options.models if (alias, options.role) in saved}
    if not chosen:
        raise Skipped("there are no vectors")
    width = next(iter(chosen.values())).n
    for alias, item in list(chosen.items()):
        if item.n != width:
            bench.leave(alias, f"its vectors have {item.n} values, not {width}: padding would invent values")
            del chosen[alias]
    depth = min(len(item.layers) for item in chosen.values())
    if depth * len(chosen) < 4:
        raise Skipped("there are fewer than four vectors")
    matrices = {bench.name(alias): item.values[:depth] for alias, item in chosen.items()}
    found = {
        name: principal_components(matrices, scaled=scaled)
        for name, scaled in (("stored", False), ("scaled", True))
    }
    bench.document(
        {
            "role": options.role,
            "models": list(chosen),
            "depth": depth,
            **{
                name: {"shares": item.shares, "mean_share": item.mean_share, "points": dict(item.points)}
                for name, item in found.items()
            },
        },
        tables=[
            shown_table(
                "projection",
                ("view", "pc1", "pc2", "pc3", "mean_share"),
                [[name, *item.shares, item.mean_share] for name, item in found.items()],
            )
        ],
        said=[said("projection", share=found["stored"].mean_share)],
    )


# -- changes -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Options of ``changes``."""

    vectors: str
    pair: tuple[str, str]
    roles: tuple[str, ...]


def read_changes(parts: dict[str, Node], scope: Scope) -> Changes:
    """Read the options."""
    return Changes(
        vectors=scope.experiment(parts["from"]),
        pair=scope.pair(parts["pair"]),
        roles=read_roles(parts["roles"]) if "roles" in parts else ("attention_norm",),
    )


def run_changes(bench: Bench, options: Changes) -> None:
    """Count changed values, and measure each change in steps of the stored format."""
    saved = load_vectors(bench, options.vectors)
    a, b = options.pair
    rows: list[list[object]] = []
    for role in options.roles:
        try:
            one, other, layers = both_vectors(saved, a, b, role)
        except Skipped as skipped:
            bench.leave(role, str(skipped))
            continue
        formats = [[item.dtypes[item.layers.index(layer)] for layer in layers] for item in (one, other)]
        mine, theirs = Stack(one.at(layers), formats[0]), Stack(other.at(layers), formats[1])
        pairs = Pairs.diagonal(len(layers))
        found = {
            name: measured(MEASURES[name], mine, theirs, pairs)
            for name in (
                "changed-share",
                "mean-absolute-difference",
                "mean-ulps",
                "max-ulps",
                "pearson",
                "cosine",
            )
        }
        for i, layer in enumerate(layers):
            step, coarse = _steps(one.at((layer,))[0], formats[0][i])
            values = {name: item.values[i] for name, item in found.items()}
            cells = [None if np.ma.is_masked(value) else float(value) for value in values.values()]
            rows.append([role, layer, *cells, step, coarse])
    if not rows:
        raise Skipped("no role could be compared")
    columns = (
        "role",
        "layer",
        "changed_share",
        "mean_absolute_difference",
        "mean_ulps",
        "max_ulps",
        "pearson",
        "cosine",
        "one_ulp",
        "share_at_half_and_above",
    )
    bench.folder.csv(bench.data(".csv"), columns, rows)
    coupled = _coupling(rows)
    bench.document(
        {"pair": options.pair, "columns": columns, "rows": rows, "changed_against_coarse": coupled},
        tables=[shown_table("changes", columns, rows)],
        said=[said("changes"), *([said("changes_coarse", r=coupled)] if coupled is not None else [])],
    )


def _steps(values: npt.NDArray[np.float64], dtype: str) -> tuple[float | None, float]:
    """Return one step of the format at the middle value, and the share of values from 0.5 on."""
    middle = float(np.median(np.abs(values)))
    coarse = float((np.abs(values) >= 0.5).mean())
    if dtype not in _FRACTION_BITS or middle == 0.0:
        return None, coarse
    return float(2.0 ** (np.floor(np.log2(middle)) - _FRACTION_BITS[dtype])), coarse


def _coupling(rows: list[list[object]]) -> float | None:
    """Correlate the share of changed values with the share that the format stores in coarse steps."""
    pairs = np.array([[row[2], row[9]] for row in rows if row[2] is not None], dtype=np.float64)
    if len(pairs) < 4 or (pairs.std(axis=0) == 0).any():
        return None
    return float(np.asarray(np.corrcoef(pairs.T))[0, 1])


PROJECTION = Kind(
    name="projection",
    meaning="principal components of the layers of all models, as stored and scaled",
    fields=Fields(required=("from",), optional=("models", "roles"), read=read_projection),
    run=run_projection,
)
CHANGES = Kind(
    name="changes",
    meaning="changed values of two near equal models, in steps of the number format",
    fields=Fields(required=("from", "pair"), optional=("roles",), read=read_changes),
    run=run_changes,
)
