"""Figures of single values: tokens, vectors in space, drawn numbers."""

from __future__ import annotations

import numpy as np

from modelkin.casework.catalogue import (
    CosineCell,
    centring_after,
    centring_animation,
    centring_before,
    ridges,
    row_similarity,
    surfaces,
    synthetic_cosines,
    trajectories,
    vocabulary_mapping,
)
from modelkin.casework.studies._bench import Bench, Skipped
from modelkin.casework.studies.kinds._vectors import load_vectors
from modelkin.figures import Animation, Figure

from ._plot import Options, Plot, model_styles, role_name

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _row_similarity(bench: Bench, options: Options) -> Figure:
    a, b = options.both
    rows = bench.folder.read_csv(bench.earlier(options.data, ".csv"))
    permuted = bench.folder.read_csv(bench.earlier(options.data, "-permuted.csv"))
    return row_similarity(
        [int(row[f"{a}_id"]) for row in rows],
        [float(row["cosine"]) for row in rows],
        [float(row["cosine"]) for row in permuted if row["cosine"]],
        names=(bench.name(a), bench.name(b)),
    )


def _vocabulary_mapping(bench: Bench, options: Options) -> Figure:
    a, b = options.both
    document = bench.folder.read_json(bench.earlier(options.data))
    rows = bench.folder.read_csv(bench.earlier(options.data, "-ids.csv"))
    if not rows:
        raise Skipped("the vocabularies share no token")
    level = document["background"]["of_smaller"]
    own = {item["name"]: item["only_candidate"] for item in document["classes"] if item["only_candidate"]}
    high = document["high_ids"]["classes"] if document["high_ids"] else {}
    return vocabulary_mapping(
        ([int(row[f"id_{a}"]) for row in rows], [int(row[f"id_{b}"]) for row in rows]),
        names=(bench.name(a), bench.name(b)),
        own=own or {"none": 0},
        high=high or {"none": 0},
        background={"lowest": level["low"], "highest": level["high"]},
        overlap=document["tokens"]["of_smaller"],
        seed=bench.seed,
    )


def _centring(bench: Bench, options: Options) -> tuple[list[float], list[float]]:
    document = bench.folder.read_json(bench.earlier(options.data))
    return document["a"], document["b"]


def _before(bench: Bench, options: Options) -> Figure:
    return centring_before(*_centring(bench, options))


def _after(bench: Bench, options: Options) -> Figure:
    return centring_after(*_centring(bench, options))


def _animation(bench: Bench, options: Options) -> Animation:
    turn = max(2, round(options.steps * 20 / 45))
    return centring_animation(*_centring(bench, options), steps=options.steps, turn=turn)


def _matrices(bench: Bench, options: Options, *, equal_depth: bool = False) -> dict[str, Floats]:
    """Return the vectors of each model, layer by layer."""
    saved = load_vectors(bench, options.data)
    found = {
        alias: saved[alias, options.role].values
        for alias in options.models or bench.study.models
        if (alias, options.role) in saved
    }
    if not found:
        raise Skipped(f"there are no vectors of {role_name(options.role)}")
    width = next(iter(found.values())).shape[1]
    kept = {bench.name(alias): values for alias, values in found.items() if values.shape[1] == width}
    depth = min(len(values) for values in kept.values()) if equal_depth else None
    return {name: values[:depth] for name, values in kept.items()}


def _surfaces(bench: Bench, options: Options) -> Figure:
    found = _matrices(bench, options)
    width = next(iter(found.values())).shape[1]
    return surfaces(found, what=role_name(options.role), dimensions=min(options.dimensions, width))


def _trajectories(bench: Bench, options: Options) -> Figure:
    found = _matrices(bench, options, equal_depth=True)
    if sum(map(len, found.values())) < 4:
        raise Skipped("there are fewer than four vectors")
    return trajectories(found, what=role_name(options.role), styles=model_styles(bench))


def _ridges(bench: Bench, options: Options) -> Figure:
    saved = load_vectors(bench, options.data)
    kinds: dict[str, dict[str, Floats]] = {}
    for role in options.roles or ("attention_norm", "mlp_norm"):
        for alias in options.models or bench.study.models:
            if (alias, role) in saved:
                kinds.setdefault(role_name(role), {})[bench.name(alias)] = saved[alias, role].values
    if not kinds:
        raise Skipped("there are no vectors")
    return ridges(kinds, every=options.every, styles=model_styles(bench))


def _synthetic(bench: Bench, options: Options) -> Figure:
    document = bench.folder.read_json(bench.earlier(options.data))
    rows = [dict(zip(document["columns"], row, strict=True)) for row in document["rows"]]
    names = ("mean_1", "mean_2", "sigma", "dimension", "cosine", "spread", "positive_1", "positive_2")
    return synthetic_cosines([CosineCell(**{name: row[name] for name in names}) for row in rows])


PLOTS = (
    Plot(name="row-similarity", required=("pair",), optional=(), make=_row_similarity),
    Plot(name="vocabulary-mapping", required=("pair",), optional=(), make=_vocabulary_mapping),
    Plot(name="centring-before", required=(), optional=(), make=_before),
    Plot(name="centring-after", required=(), optional=(), make=_after),
    Plot(name="centring-animation", required=(), optional=("steps",), make=_animation),
    Plot(name="surfaces", required=(), optional=("models", "roles", "dimensions"), make=_surfaces),
    Plot(name="trajectories", required=(), optional=("models", "roles"), make=_trajectories),
    Plot(name="ridges", required=(), optional=("models", "roles", "every"), make=_ridges),
    Plot(name="synthetic-cosines", required=(), optional=(), make=_synthetic),
)
