"""Forms that sum up a table over layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from modelkin.casework.studies.bench import Bench
from modelkin.casework.studies.reading import AliasPair, Controls, DrawnVectors, NamesOf
from modelkin.casework.studies.saved import far_apart
from modelkin.describe.measures import MeasureTable

from .form import CATEGORIES, Form, facing, facing_values


def _mean(values: Sequence[float] | np.ma.MaskedArray[Any, Any]) -> float | None:
    known = np.ma.compressed(np.ma.masked_invalid(values)) if len(values) else np.zeros(0)
    return float(known.mean()) if known.size else None


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


class Decay(Form, tag="decay"):
    """Facing layers against all others, the first half against the second; cosines averaged over roles."""

    models: AliasPair

    def write(self, bench: Bench, table: MeasureTable) -> None:
        a, b = self.models
        roles = self.roles_of(table)
        grids = [table.matrix(measure="cosine", role=role, model_a=a, model_b=b) for role in roles]
        both = np.ma.mean(np.ma.stack([grid.values for grid in grids]), axis=0)
        first = grids[0]
        equal = np.equal.outer(np.array(first.layers_a), np.array(first.layers_b))
        by_layer = [
            (layer, value)
            for layer, value in zip(
                [layer for layer in first.layers_a if layer in first.layers_b], both[equal], strict=True
            )
            if value is not np.ma.masked
        ]
        values = [float(value) for _, value in by_layer]
        half = len(values) // 2
        diagonal, rest = _mean(values), _mean(both[~equal])
        early, late = _mean(values[:half]), _mean(values[half:])
        correlations = [value for role in roles for value in facing_values(table, "pearson", role, a, b)]
        bench.folder.json(
            self.file,
            {
                "diagonal_mean": diagonal,
                "off_diagonal_mean": rest,
                "diagonal_dominance": _less(diagonal, rest),
                "early_layers_sim": early,
                "late_layers_sim": late,
                "decay": _less(early, late),
                "pearson_mean": _mean(correlations),
                "layerwise_similarity": [{"layer": layer, "sim": float(value)} for layer, value in by_layer],
            },
        )


class MatchedLayers(Form, tag="matched-layers"):
    """Facing layers next to layers that are some distance apart: cosines, cosines about one, correlations.

    The published control compared norms before attention with norms after it; here both have one role.
    """

    models: AliasPair
    distance: Annotated[int, Meta(ge=1, le=999)] = 5
    """How far mismatched layers are apart."""

    def write(self, bench: Bench, table: MeasureTable) -> None:
        a, b = self.models
        found: dict[str, dict[str, list[float]]] = {"facing": {}, "apart": {}}
        for measure in ("cosine", "cosine-about-1", "pearson"):
            for role in self.roles_of(table):
                grid = table.matrix(measure=measure, role=role, model_a=a, model_b=b)
                found["facing"].setdefault(measure, []).extend(facing(grid).compressed().tolist())
                apart = far_apart(grid, self.distance)
                found["apart"].setdefault(measure, []).extend(apart[np.isfinite(apart)].tolist())
        same, apart_ones = found["facing"], found["apart"]
        bench.folder.json(
            self.file,
            {
                "matched_layers": {
                    "cosine_mean": _mean(same["cosine"]),
                    "cosine_std": _std(same["cosine"]),
                    "centered_cosine_mean": _mean(same["cosine-about-1"]),
                    "centered_cosine_std": _std(same["cosine-about-1"]),
                    "pearson_mean": _mean(same["pearson"]),
                },
                "control_mismatched": {
                    "cosine_mean": _mean(apart_ones["cosine"]),
                    "centered_cosine_mean": _mean(apart_ones["cosine-about-1"]),
                },
            },
        )


def _std(values: Sequence[float]) -> float | None:
    return float(np.std(values)) if len(values) else None


def _summed(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return dict.fromkeys(("mean", "std", "min", "max"))
    return {"mean": _mean(values), "std": _std(values), "min": min(values), "max": max(values)}


class WithControl(Form, tag="with-control"):
    """Cosines over facing layers of the pair, and of its second model with each control.

    A control that could not be read has no numbers.
    """

    models: AliasPair
    controls: Controls = Controls()
    names: NamesOf = NamesOf()
    """What the keys call the models: their aliases, if nothing is said."""

    def write(self, bench: Bench, table: MeasureTable) -> None:
        a, b = self.models
        called = {alias: self.names.get(alias, alias) for alias in (a, b, *self.controls)}
        pairs = {f"{called[a]}_vs_{called[b]}": (a, b)}
        pairs |= {f"{called[b]}_vs_{called[control]}_CONTROL": (b, control) for control in self.controls}
        document = {
            key: {
                CATEGORIES.get(role, role): _summed(facing_values(table, "cosine", role, *pair))
                for role in self.roles_of(table)
            }
            for key, pair in pairs.items()
        }
        bench.folder.json(self.file, document)


class Overview(Form, tag="overview"):
    """Cosines over facing layers of each role, and of random vectors."""

    models: AliasPair
    random: DrawnVectors
    """Experiment of kind ``random-vectors``; its first row is taken."""

    def write(self, bench: Bench, table: MeasureTable) -> None:
        document: dict[str, Any] = {}
        for role in self.roles_of(table):
            values = facing_values(table, "cosine", role, *self.models)
            document[CATEGORIES.get(role, role)] = {**_summed(values), "count": len(values)}
        drawn = bench.folder.read_json(bench.earlier(self.random))["rows"][0]
        document["random_baseline"] = {
            "cosine_mean": drawn["cosine"],
            "cosine_std": drawn["cosine_sd"],
            "cosine_max": drawn["cosine_max"],
            "pearson_mean": drawn["pearson"],
            "pearson_std": drawn["pearson_sd"],
        }
        bench.folder.json(self.file, document)
