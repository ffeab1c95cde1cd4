"""``routers``: experts matched by their router rows, and the same search where nothing is related."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.architecture import Role
from modelkin.casework.studies._bench import Bench, Skipped, said, shown_table
from modelkin.casework.studies._node import Node
from modelkin.casework.studies._spec import Fields, Scope
from modelkin.describe.matrix import parse_layer_list
from modelkin.describe.measures import generator
from modelkin.model import Model
from modelkin.stats import best_pairing
from modelkin.tensors import TensorSlice

from ._kind import Kind
from ._reading import read_layers

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routers:
    """Options of the experiment."""

    pair: tuple[str, str]
    layers: tuple[int, ...] | None
    draws: int


def read(parts: dict[str, Node], scope: Scope) -> Routers:
    """Read the options."""
    return Routers(
        pair=scope.pair(parts["pair"]),
        layers=parse_layer_list(read_layers(parts["layers"])) if "layers" in parts else None,
        draws=parts["draws"].whole(low=1, high=1000) if "draws" in parts else 20,
    )


def run(bench: Bench, options: Routers) -> None:
    """Match the router rows of each layer; run the same search again with the dimensions of b reordered."""
    a, b = options.pair
    models = bench.available(options.pair, least=2)
    layers = _common(bench, models[a], models[b], options)
    mine, theirs = (_routers(models[name], layers) for name in (a, b))
    width = next(iter(mine.values())).shape[1]
    orders = generator(bench.seed, "routers", a, b)
    # One order for all layers: it keeps what connects the layers of a model.
    reorderings = [orders.permutation(width) for _ in range(options.draws)]
    rows = []
    for layer in layers:
        one, other = mine[layer], theirs[layer]
        found = _matched(one, other)
        null = np.array([_matched(one, other[:, order]) for order in reorderings])
        rows.append(
            {
                "layer": layer,
                "experts": len(one),
                "same_number": float((one * other).sum(axis=1).mean()),
                "matched": found,
                "null_mean": float(null.mean()),
                "null_low": float(null.min()),
                "null_high": float(null.max()),
                "null": null.tolist(),
            }
        )
    observed = float(np.mean([row["matched"] for row in rows]))
    over_layers = np.array([row["null"] for row in rows]).mean(axis=0)
    above = int((over_layers >= observed).sum())
    columns = ("layer", "experts", "same_number", "matched", "null_mean", "null_low", "null_high")
    bench.folder.csv(bench.data(".csv"), columns, [[row[name] for name in columns] for row in rows])
    bench.document(
        {
            "pair": options.pair,
            "draws": options.draws,
            "layers": rows,
            "mean": {
                "matched": observed,
                "null": [float(over_layers.min()), float(over_layers.mean()), float(over_layers.max())],
                "reruns_at_least_as_high": above,
            },
        },
        tables=[shown_table("routers", columns, [[row[name] for name in columns] for row in rows])],
        said=[
            said(
                "routers", matched=observed, null=float(over_layers.mean()), above=above, draws=options.draws
            )
        ],
    )


def _common(bench: Bench, one: Model, other: Model, options: Routers) -> tuple[int, ...]:
    found = []
    for layer in one.architecture.layers:
        if options.layers is not None and layer not in options.layers:
            continue
        entries = [model.architecture.find(Role.ROUTER, layer) for model in (one, other)]
        if entries[0] is None or entries[1] is None:
            bench.leave(f"layer {layer}", "not both models have a router there")
            continue
        shapes = [model.index[e.tensor].shape for model, e in zip((one, other), entries, strict=True) if e]
        if shapes[0] != shapes[1] or len(shapes[0]) != 2 or any(e.transposed for e in entries if e):
            bench.leave(f"layer {layer}", f"routers have the shapes {shapes[0]} and {shapes[1]}")
            continue
        found.append(layer)
    if not found:
        raise Skipped("no layer has routers of one shape in both models")
    return tuple(found)


def _routers(model: Model, layers: tuple[int, ...]) -> dict[int, Floats]:
    """Read all routers in one pass, rows divided by their lengths."""
    entries = [model.architecture.find(Role.ROUTER, layer) for layer in layers]
    arrays = model.read([TensorSlice.whole(entry.tensor) for entry in entries if entry is not None])
    found = {}
    for layer, array in zip(layers, arrays, strict=True):
        wide = np.asarray(array, dtype=np.float64)
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        if not np.isfinite(wide).all() or not lengths.all():
            raise Skipped(f"the router of layer {layer} has rows that are zero or not finite")
        found[layer] = wide / lengths
    return found


def _matched(one: Floats, other: Floats) -> float:
    table = one @ other.T
    return float(table[np.arange(len(table)), best_pairing(table)].mean())


KIND = Kind(
    name="routers",
    meaning="experts matched by their router rows, beside the same search on reordered dimensions",
    fields=Fields(required=("pair",), optional=("layers", "draws"), read=read),
    run=run,
)
