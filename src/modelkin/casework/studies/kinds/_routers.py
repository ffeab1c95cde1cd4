"""``routers``: experts matched by their router rows, and the same search where nothing is related."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from modelkin.architecture import Role
from modelkin.casework.studies.bench import Bench, NotDone, said, shown
from modelkin.casework.studies.reading import AliasPair, Layers
from modelkin.casework.studies.spec import Experiment
from modelkin.describe.measures import generator
from modelkin.message import say
from modelkin.model import Model
from modelkin.stats import best_pairing
from modelkin.tensors import Array, TensorSlice

Floats = npt.NDArray[np.float64]


class Routers(Experiment, tag="routers"):
    """Experts matched by their router rows, next to the same search on reordered dimensions."""

    pair: AliasPair
    layers: Layers | None = None
    """All, if nothing is said."""
    draws: Annotated[int, Meta(ge=1, le=1000)] = 20
    """How often the search is run on reordered dimensions."""

    def run(self, bench: Bench) -> None:
        """Match the router rows of each layer, and search again with the dimensions of b reordered."""
        a, b = self.pair
        models = bench.available(self.pair, least=2)
        layers = _common(bench, models[a], models[b], self.layers)
        mine, theirs = (_routers(models[name], layers) for name in (a, b))
        width = next(iter(mine.values())).shape[1]
        orders = generator(bench.seed, "routers", a, b)
        # One order for all layers: it keeps what connects the layers of a model.
        reorderings = [orders.permutation(width) for _ in range(self.draws)]
        rows = []
        for layer in layers:
            one, other = _directions(mine[layer], layer), _directions(theirs[layer], layer)
            null = np.array([_matched(one, other[:, order]) for order in reorderings])
            rows.append(
                {
                    "layer": layer,
                    "experts": len(one),
                    "same_number": float((one * other).sum(axis=1).mean()),
                    "matched": _matched(one, other),
                    "null_mean": float(null.mean()),
                    "null_low": float(null.min()),
                    "null_high": float(null.max()),
                    "null": null.tolist(),
                }
            )
        observed = float(np.mean([row["matched"] for row in rows]))
        over_layers = np.array([row["null"] for row in rows]).mean(axis=0)
        above = int((over_layers >= observed).sum())
        summary = [{name: value for name, value in row.items() if name != "null"} for row in rows]
        bench.folder.rows(bench.data(".csv"), summary)
        bench.document(
            {
                "pair": self.pair,
                "draws": self.draws,
                "layers": rows,
                "mean": {
                    "matched": observed,
                    "null": [float(over_layers.min()), float(over_layers.mean()), float(over_layers.max())],
                    "reruns_at_least_as_high": above,
                },
            },
            tables=[shown("routers", summary)],
            said=[
                said(
                    "routers", matched=observed, null=float(over_layers.mean()), above=above, draws=self.draws
                )
            ],
        )

    def wanted(self, bench: Bench) -> Mapping[str, Sequence[TensorSlice]]:
        """Return the routers of all layers that both models have."""
        a, b = self.pair
        models = bench.available(self.pair, least=2)
        layers = _common(bench, models[a], models[b], self.layers)
        return {alias: _slices(model, layers) for alias, model in models.items()}


def _common(bench: Bench, one: Model, other: Model, wanted: Layers | None) -> tuple[int, ...]:
    found = []
    for layer in one.architecture.layers:
        if wanted is not None and layer not in wanted.numbers:
            continue
        entries = [model.architecture.find(Role.ROUTER, layer) for model in (one, other)]
        if entries[0] is None or entries[1] is None:
            bench.leave(say("study.layer", n=layer), say("study.no-router"))
            continue
        shapes = [model.index[e.tensor].shape for model, e in zip((one, other), entries, strict=True) if e]
        if shapes[0] != shapes[1] or len(shapes[0]) != 2 or any(e.transposed for e in entries if e):
            a, b = map(str, shapes)
            bench.leave(say("study.layer", n=layer), say("study.router-shapes", a=a, b=b))
            continue
        found.append(layer)
    if not found:
        raise NotDone(say("study.no-routers"))
    return tuple(found)


def _routers(model: Model, layers: tuple[int, ...]) -> dict[int, Array]:
    """Read all routers in one pass."""
    return dict(zip(layers, model.read(_slices(model, layers)), strict=True))


def _slices(model: Model, layers: tuple[int, ...]) -> list[TensorSlice]:
    entries = [model.architecture.find(Role.ROUTER, layer) for layer in layers]
    return [TensorSlice.whole(entry.tensor) for entry in entries if entry is not None]


def _directions(router: Array, layer: int) -> Floats:
    """Return the rows of a router divided by their lengths."""
    wide = np.asarray(router, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    if not np.isfinite(wide).all() or not lengths.all():
        raise NotDone(say("study.router-rows", n=layer))
    return np.asarray(wide / lengths)


def _matched(one: Floats, other: Floats) -> float:
    table = one @ other.T
    return float(table[np.arange(len(table)), best_pairing(table)].mean())
