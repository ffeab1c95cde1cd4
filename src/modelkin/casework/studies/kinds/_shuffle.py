"""``shuffle``: cosines of facing layers beside those after reordering: the distribution, not one draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modelkin.casework.studies._bench import Bench, Skipped, said, shown_table
from modelkin.casework.studies._folder import FILE
from modelkin.casework.studies._node import Node
from modelkin.casework.studies._spec import Fields, Scope
from modelkin.describe.measures import MEASURES, Pairs, Stack, draws_for, measured, shuffle_draws

from ._kind import Kind
from ._reading import read_roles
from ._vectors import both_vectors, load_vectors

_CATEGORIES = {"attention_norm": "norm_pre", "mlp_norm": "norm_post"}
COLUMNS = (
    "layer",
    "category",
    "cosine",
    "cosine_shuffled",
    "cosine_centered",
    "A_mean",
    "A_std",
    "B_mean",
    "B_std",
    "key_A",
    "key_B",
    "cosine_expected",
    "cosine_expected_sd",
    "shuffled_low",
    "shuffled_high",
    "spearman",
    "n",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Options of the experiment."""

    vectors: str
    pair: tuple[str, str]
    roles: tuple[str, ...]
    draws: int
    file: str | None


def read(parts: dict[str, Node], scope: Scope) -> Shuffle:
    """Read the options."""
    return Shuffle(
        vectors=scope.experiment(parts["from"]),
        pair=scope.pair(parts["pair"]),
        roles=read_roles(parts["roles"]),
        draws=parts["draws"].whole(low=2, high=10_000) if "draws" in parts else 200,
        file=parts["file"].text(form=FILE, what="a path") if "file" in parts else None,
    )


def run(bench: Bench, options: Shuffle) -> None:
    """Shuffle the places of b many times, in the same way in all its layers, and measure again."""
    saved = load_vectors(bench, options.vectors)
    names = {
        (row["model"], row["role"], row["layer"]): row["tensor"]
        for row in bench.folder.read_csv(bench.earlier(options.vectors, ".csv"))
    }
    a, b = options.pair
    rows: list[list[object]] = []
    means: dict[str, dict[str, object]] = {}
    for role in options.roles:
        try:
            one, other, layers = both_vectors(saved, a, b, role)
        except Skipped as skipped:
            bench.leave(role, str(skipped))
            continue
        mine, theirs = Stack(one.at(layers)), Stack(other.at(layers))
        pairs = Pairs.diagonal(len(layers))
        draws = draws_for(mine, options.draws)
        kinds = [MEASURES["cosine"], MEASURES["pearson"]]
        drawn = shuffle_draws(kinds, mine, theirs, pairs, draws=draws, seed=bench.seed, key=f"{role}|{a}|{b}")
        shuffled = drawn["cosine"].filled(np.nan)
        found = {
            name: measured(MEASURES[name], mine, theirs, pairs, expect=True)
            for name in ("cosine", "pearson", "spearman")
        }
        cosine, pearson = found["cosine"], found["pearson"]
        low, high = shuffled.min(axis=0), shuffled.max(axis=0)
        for i, layer in enumerate(layers):
            rows.append(
                [
                    layer,
                    _CATEGORIES.get(role, role),
                    _at(cosine.values, i),
                    shuffled[:, i].mean(),
                    _at(pearson.values, i),
                    mine.mean[i],
                    mine.std[i],
                    theirs.mean[i],
                    theirs.std[i],
                    names[a, role, str(layer)],
                    names[b, role, str(layer)],
                    _at(cosine.expected, i),
                    _at(cosine.expected_sd, i),
                    low[i],
                    high[i],
                    _at(found["spearman"].values, i),
                    mine.n,
                ]
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
    if not rows:
        raise Skipped("no role could be compared")
    bench.folder.csv(bench.data(".csv"), COLUMNS, rows)
    if options.file is not None:
        bench.folder.csv(options.file, COLUMNS, rows)
    bench.document(
        {"pair": options.pair, "roles": means},
        tables=[
            shown_table(
                "shuffle",
                (
                    "role",
                    "layers",
                    "cosine",
                    "cosine_shuffled",
                    "shuffled_low",
                    "shuffled_high",
                    "expected",
                    "pearson",
                    "pearson_low",
                    "pearson_high",
                ),
                [
                    [
                        role,
                        item["layers"],
                        item["cosine"],
                        item["cosine_shuffled"],
                        *item["cosine_shuffled_range"],  # type: ignore[misc]
                        item["cosine_expected"],
                        item["pearson"],
                        *item["pearson_shuffled_range"],
                    ]
                    for role, item in means.items()
                ],
            )
        ],
        said=[said("shuffle", draws=options.draws)],
    )


def _at(values: np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]], i: int) -> float | None:
    return None if np.ma.is_masked(values[i]) else float(values[i])


KIND = Kind(
    name="shuffle",
    meaning="cosines beside those of reordered vectors, with their distribution",
    fields=Fields(required=("from", "pair", "roles"), optional=("draws", "file"), read=read),
    run=run,
)
