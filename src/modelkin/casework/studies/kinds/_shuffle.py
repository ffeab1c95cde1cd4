"""``shuffle``: cosines of facing layers next to those after reordering: the distribution, not one draw."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from msgspec import Meta, field

from modelkin.casework.studies.bench import Bench, said, shown
from modelkin.casework.studies.reading import AliasPair, File, Roles, SavedVectors
from modelkin.casework.studies.saved import each_role, load_vectors, optional
from modelkin.casework.studies.spec import Experiment
from modelkin.describe.measures import MEASURES, Pairs, Stack, draws_for, measured, shuffle_draws

from .forms import CATEGORIES

PUBLISHED = (
    *("layer", "category", "cosine", "cosine_shuffled", "cosine_centered"),
    *("A_mean", "A_std", "B_mean", "B_std", "key_A", "key_B"),
)
"""Columns of the published table."""


class Shuffle(Experiment, tag="shuffle"):
    """Cosines next to those of reordered vectors, with their distribution."""

    vectors: SavedVectors = field(name="from")
    pair: AliasPair
    roles: Roles
    draws: Annotated[int, Meta(ge=2, le=10_000)] = 200
    """How often places are reordered."""
    file: File | None = None
    """A further file in published form."""

    def run(self, bench: Bench) -> None:
        """Shuffle the places of b many times, in the same way in all its layers, and measure again."""
        saved = load_vectors(bench, self.vectors)
        names = {
            (row["model"], row["role"], row["layer"]): row["tensor"]
            for row in bench.folder.read_csv(bench.earlier(self.vectors, ".csv"))
        }
        a, b = self.pair
        rows: list[dict[str, Any]] = []
        means: dict[str, dict[str, Any]] = {}
        for role, one, other, layers in each_role(bench, saved, self.pair, self.roles):
            mine, theirs = Stack(one.at(layers)), Stack(other.at(layers))
            pairs = Pairs.diagonal(len(layers))
            draws = draws_for(len(mine) * mine.n, self.draws)
            kinds = [MEASURES["cosine"], MEASURES["pearson"]]
            key = f"{role}|{a}|{b}"
            drawn = shuffle_draws(kinds, mine, theirs, pairs, draws=draws, seed=bench.seed, key=key)
            shuffled = drawn["cosine"].filled(np.nan)
            cosine, pearson, spearman = (
                measured(MEASURES[name], mine, theirs, pairs, expect=True)
                for name in ("cosine", "pearson", "spearman")
            )
            low, high = shuffled.min(axis=0), shuffled.max(axis=0)
            for i, layer in enumerate(layers):
                rows.append(
                    {
                        "layer": layer,
                        "category": CATEGORIES.get(role, role),
                        "cosine": optional(cosine.values[i]),
                        "cosine_shuffled": shuffled[:, i].mean(),
                        "cosine_centered": optional(pearson.values[i]),
                        "A_mean": mine.mean[i],
                        "A_std": mine.std[i],
                        "B_mean": theirs.mean[i],
                        "B_std": theirs.std[i],
                        "key_A": names[a, role, str(layer)],
                        "key_B": names[b, role, str(layer)],
                        "cosine_expected": optional(cosine.expected[i]),
                        "cosine_expected_sd": optional(cosine.expected_sd[i]),
                        "shuffled_low": low[i],
                        "shuffled_high": high[i],
                        "spearman": optional(spearman.values[i]),
                        "n": mine.n,
                    }
                )
            over_layers = shuffled.mean(axis=1)
            r_over_layers = drawn["pearson"].filled(np.nan).mean(axis=1)
            means[role] = {
                "cosine": float(cosine.values.mean()),
                "cosine_shuffled": float(over_layers.mean()),
                "cosine_shuffled_range": [float(over_layers.min()), float(over_layers.max())],
                "cosine_expected": float(cosine.expected.mean()),
                "pearson": float(pearson.values.mean()) if pearson.values.count() else None,
                "pearson_shuffled_range": [float(np.nanmin(r_over_layers)), float(np.nanmax(r_over_layers))],
                "draws": draws,
                "n": mine.n,
                "layers": len(layers),
            }
        bench.folder.rows(bench.data(".csv"), rows)
        if self.file is not None:
            # As published: both norms of a layer stand together.
            by_layer = sorted(rows, key=lambda row: int(row["layer"]))
            bench.folder.csv(self.file, PUBLISHED, ([row[name] for name in PUBLISHED] for row in by_layer))
        summary = [
            {
                "role": role,
                "layers": item["layers"],
                "cosine": item["cosine"],
                "cosine_shuffled": item["cosine_shuffled"],
                "shuffled_low": item["cosine_shuffled_range"][0],
                "shuffled_high": item["cosine_shuffled_range"][1],
                "expected": item["cosine_expected"],
                "pearson": item["pearson"],
                "pearson_low": item["pearson_shuffled_range"][0],
                "pearson_high": item["pearson_shuffled_range"][1],
            }
            for role, item in means.items()
        ]
        bench.document(
            {"pair": self.pair, "roles": means},
            tables=[shown("shuffle", summary)],
            said=[said("shuffle", draws=self.draws)],
        )
