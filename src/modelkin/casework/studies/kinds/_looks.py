"""``projection`` and ``changes``: principal components of layers, and differences of nearly equal models."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import field

from modelkin.casework.catalogue.vectors import principal_components
from modelkin.casework.studies.bench import Bench, NotDone, said, shown
from modelkin.casework.studies.reading import NORM, Aliases, AliasPair, Roles, SavedVectors
from modelkin.casework.studies.saved import each_role, load_vectors, optional
from modelkin.casework.studies.spec import Experiment
from modelkin.describe.measures import MEASURES, Pairs, Stack, measured
from modelkin.message import say

_FRACTION_BITS = {"BF16": 7, "F16": 10, "F32": 23}
_CHANGES = ("changed-share", "mean-absolute-difference", "mean-ulps", "max-ulps", "pearson", "cosine")


class ProjectionExperiment(Experiment, tag="projection"):
    """Principal components of the layers of all models, as stored and scaled."""

    vectors: SavedVectors = field(name="from")
    models: Aliases = Aliases()
    """All of the study, if none is named."""
    roles: Roles = NORM
    """The first is taken."""

    def run(self, bench: Bench) -> None:
        """Project the layers of all models together; models of other widths are left out."""
        saved, role = load_vectors(bench, self.vectors), self.roles[0]
        wanted = self.models or tuple(bench.study.models)
        chosen = {alias: saved[alias, role] for alias in wanted if (alias, role) in saved}
        if not chosen:
            raise NotDone(say("study.no-vectors"))
        width = next(iter(chosen.values())).n
        for alias, item in list(chosen.items()):
            if item.n != width:
                bench.leave(alias, say("study.vectors-width", n=item.n, m=width))
                del chosen[alias]
        depth = min(len(item.layers) for item in chosen.values())
        if depth * len(chosen) < 4:
            raise NotDone(say("study.few-vectors"))
        matrices = {bench.name(alias): item.values[:depth] for alias, item in chosen.items()}
        found = {
            name: principal_components(matrices, scaled=scaled)
            for name, scaled in (("stored", False), ("scaled", True))
        }
        views = [
            {"view": name, "pc1": one, "pc2": two, "pc3": three, "mean_share": item.mean_share}
            for name, item in found.items()
            for one, two, three in [item.shares]
        ]
        bench.document(
            {
                "role": role,
                "models": list(chosen),
                "depth": depth,
                **{
                    name: {"shares": item.shares, "mean_share": item.mean_share, "points": dict(item.points)}
                    for name, item in found.items()
                },
            },
            tables=[shown("projection", views)],
            said=[said("projection", share=found["stored"].mean_share)],
        )


class Changes(Experiment, tag="changes"):
    """Changed values of two nearly equal models, in steps of the number format."""

    vectors: SavedVectors = field(name="from")
    pair: AliasPair
    roles: Roles = NORM

    def run(self, bench: Bench) -> None:
        """Count changed values, and measure each change in steps of the stored format."""
        saved = load_vectors(bench, self.vectors)
        rows: list[dict[str, Any]] = []
        for role, one, other, layers in each_role(bench, saved, self.pair, self.roles):
            formats = [[item.dtypes[item.layers.index(layer)] for layer in layers] for item in (one, other)]
            mine, theirs = Stack(one.at(layers), formats[0]), Stack(other.at(layers), formats[1])
            pairs = Pairs.diagonal(len(layers))
            found = {
                name.replace("-", "_"): measured(MEASURES[name], mine, theirs, pairs).values
                for name in _CHANGES
            }
            for i, layer in enumerate(layers):
                step, coarse = _steps(one.at((layer,))[0], formats[0][i])
                values = {name: optional(item[i]) for name, item in found.items()}
                last = {"one_ulp": step, "share_at_half_and_above": coarse}
                rows.append({"role": role, "layer": layer, **values, **last})
        bench.folder.rows(bench.data(".csv"), rows)
        coupled = _coupling(rows)
        bench.document(
            {
                "pair": self.pair,
                "columns": list(rows[0]),
                "rows": [list(row.values()) for row in rows],
                "changed_against_coarse": coupled,
            },
            tables=[shown("changes", rows)],
            said=[said("changes"), *([said("changes_coarse", r=coupled)] if coupled is not None else [])],
        )


def _steps(values: npt.NDArray[np.float64], dtype: str) -> tuple[float | None, float]:
    """Return one step of the format at the median value, and the share of values of at least 0.5."""
    middle = float(np.median(np.abs(values)))
    coarse = float((np.abs(values) >= 0.5).mean())
    if dtype not in _FRACTION_BITS or middle == 0.0:
        return None, coarse
    return float(2.0 ** (np.floor(np.log2(middle)) - _FRACTION_BITS[dtype])), coarse


def _coupling(rows: list[dict[str, Any]]) -> float | None:
    """Correlate the share of changed values with the share that the format stores in coarse steps."""
    known = [row for row in rows if row["changed_share"] is not None]
    pairs = np.array(
        [[row["changed_share"], row["share_at_half_and_above"]] for row in known], dtype=np.float64
    )
    if len(pairs) < 4 or (pairs.std(axis=0) == 0).any():
        return None
    return float(np.asarray(np.corrcoef(pairs.T))[0, 1])
