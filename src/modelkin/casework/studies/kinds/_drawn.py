"""``random-vectors``, ``synthetic-cosines`` and ``centring``: what vectors without any relation show."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modelkin.casework.studies._bench import Bench, Skipped, said, shown_table
from modelkin.casework.studies._node import Node
from modelkin.casework.studies._spec import Fields, Scope
from modelkin.describe.measures import gaussian_cosine, generator

from ._kind import Kind
from ._reading import read_roles
from ._vectors import both_vectors, load_vectors

Floats = npt.NDArray[np.float64]
MOST_VALUES = 2**31
"""Numbers that one experiment may draw."""
_CHUNK = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomVectors:
    """Options of ``random-vectors``."""

    dimension: int
    trials: int
    normal: tuple[tuple[float, float], ...]
    """Mean and standard deviation of both vectors."""
    vectors: str | None
    """Experiment whose vectors' means and deviations are taken too."""
    pairs: tuple[tuple[str, str], ...]
    role: str
    layer: int


def read_random(parts: dict[str, Node], scope: Scope) -> RandomVectors:
    """Read the options."""
    normal = []
    for item in parts["normal"].items(most=20) if "normal" in parts else []:
        both = item.items(most=2, least=2)
        normal.append((both[0].number(low=-1e6, high=1e6), both[1].number(low=0, high=1e6)))
    options = RandomVectors(
        dimension=parts["dimension"].whole(low=3, high=10**6),
        trials=parts["trials"].whole(low=2, high=10**6) if "trials" in parts else 1000,
        normal=tuple(normal),
        vectors=scope.experiment(parts["from"]) if "from" in parts else None,
        pairs=tuple(scope.pair(item) for item in parts["pairs"].items(most=40)) if "pairs" in parts else (),
        role=read_roles(parts["roles"])[0] if "roles" in parts else "attention_norm",
        layer=parts["layer"].whole(low=0, high=9_999) if "layer" in parts else 10,
    )
    if options.dimension * options.trials * max(1, len(options.normal) + len(options.pairs)) > MOST_VALUES:
        parts["dimension"].fail(f"at most {MOST_VALUES:,} numbers to be drawn in all")
    return options


def run_random(bench: Bench, options: RandomVectors) -> None:
    """Draw pairs of independent normal vectors: with given means, and with those of the data."""
    rows: list[dict[str, object]] = []
    for mean, std in options.normal:
        rows.append(
            _drawn(
                bench, f"N({mean:g}, {std:g})", (mean, std), (mean, std), options.dimension, options.trials
            )
        )
    saved = load_vectors(bench, options.vectors) if options.vectors and options.pairs else {}
    for a, b in options.pairs:
        name = f"{bench.name(a)} | {bench.name(b)}"
        try:
            one, other, common = both_vectors(saved, a, b, options.role)
            if options.layer not in common:
                raise Skipped(f"not both models have layer {options.layer}")
        except Skipped as skipped:
            bench.leave(name, str(skipped))
            continue
        first, second = one.at((options.layer,))[0], other.at((options.layer,))[0]
        row = _drawn(
            bench,
            f"{name}, {options.layer}",
            (first.mean(), first.std()),
            (second.mean(), second.std()),
            one.n,
            options.trials,
        )
        row["measured"] = _cosine(first[None], second[None])[0]
        row["measured_pearson"] = _pearson(first[None], second[None])[0]
        rows.append(row)
    columns = (
        "what",
        "n",
        "trials",
        "cosine",
        "cosine_sd",
        "closed_form",
        "pearson",
        "pearson_sd",
        "l2",
        "l2_sd",
        "measured",
        "measured_pearson",
    )
    cells = [[row.get(name) for name in columns] for row in rows]
    bench.folder.csv(bench.data(".csv"), columns, cells)
    bench.document(
        {"rows": rows},
        tables=[shown_table("random_vectors", columns, cells)],
        said=[said("random_vectors")],
    )


def _drawn(
    bench: Bench, what: str, one: tuple[float, float], other: tuple[float, float], n: int, trials: int
) -> dict[str, object]:
    random = generator(bench.seed, "random-vectors", what)
    cosine, pearson, l2 = [], [], []
    step = max(1, _CHUNK // n)
    for begin in range(0, trials, step):
        size = min(step, trials - begin)
        a, b = (random.standard_normal((size, n)) * std + mean for mean, std in (one, other))
        cosine.append(_cosine(a, b))
        pearson.append(_pearson(a, b))
        l2.append(np.linalg.norm(a - b, axis=1))
    found = {
        name: np.concatenate(parts) for name, parts in (("cosine", cosine), ("pearson", pearson), ("l2", l2))
    }
    return {
        "what": what,
        "n": n,
        "trials": trials,
        **{name: float(values.mean()) for name, values in found.items()},
        **{f"{name}_sd": float(values.std(ddof=1)) for name, values in found.items()},
        "closed_form": float(gaussian_cosine(one[0], other[0], one[1], other[1])),
    }


def _cosine(a: Floats, b: Floats) -> Floats:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(axis=1) / np.where(lengths > 0, lengths, np.nan), dtype=np.float64)


def _pearson(a: Floats, b: Floats) -> Floats:
    return _cosine(a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True))


# -- synthetic cosines ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthetic:
    """Options of ``synthetic-cosines``."""

    means: tuple[tuple[float, float], ...]
    sigmas: tuple[float, ...]
    dimensions: tuple[int, ...]
    trials: int


def read_synthetic(parts: dict[str, Node], scope: Scope) -> Synthetic:
    """Read the options."""
    means = []
    for item in parts["means"].items(most=12, least=1):
        both = item.items(most=2, least=2)
        means.append((both[0].number(low=-1e6, high=1e6), both[1].number(low=-1e6, high=1e6)))
    options = Synthetic(
        means=tuple(means),
        sigmas=tuple(item.number(low=1e-9, high=1e6) for item in parts["sigmas"].items(most=20, least=1)),
        dimensions=tuple(
            item.whole(low=2, high=10**6) for item in parts["dimensions"].items(most=12, least=1)
        ),
        trials=parts["trials"].whole(low=2, high=10**6) if "trials" in parts else 10_000,
    )
    drawn = 2 * options.trials * sum(options.dimensions) * len(options.means) * len(options.sigmas)
    if drawn > MOST_VALUES:
        parts["trials"].fail(f"at most {MOST_VALUES:,} numbers to be drawn in all")
    return options


def run_synthetic(bench: Bench, options: Synthetic) -> None:
    """Draw many pairs for each mean, sigma and dimension, beside the closed form."""
    rows: list[list[object]] = []
    for mean_1, mean_2 in options.means:
        for sigma in options.sigmas:
            for dimension in options.dimensions:
                rows.append(_cell(bench, (mean_1, mean_2), sigma, dimension, options.trials))
    columns = (
        "mean_1",
        "mean_2",
        "sigma",
        "dimension",
        "trials",
        "cosine",
        "spread",
        "minimum",
        "maximum",
        "positive_1",
        "positive_2",
        "closed_form",
    )
    bench.folder.csv(bench.data(".csv"), columns, rows)
    largest = max(abs(float(row[5]) - float(row[11])) for row in rows)  # type: ignore[arg-type]
    bench.document(
        {"columns": columns, "rows": rows, "largest_difference": largest},
        tables=[shown_table("synthetic", columns, rows)],
        said=[said("synthetic", largest=largest)],
    )


def _cell(
    bench: Bench, means: tuple[float, float], sigma: float, dimension: int, trials: int
) -> list[object]:
    random = generator(bench.seed, "synthetic", repr((means, sigma, dimension)))
    cosines, positive = [], np.zeros(2)
    step = max(1, _CHUNK // dimension)
    for begin in range(0, trials, step):
        size = min(step, trials - begin)
        a, b = (random.standard_normal((size, dimension)) * sigma + mean for mean in means)
        cosines.append(_cosine(a, b))
        positive += [(a > 0).sum(), (b > 0).sum()]
    found = np.concatenate(cosines)
    shares = positive / (trials * dimension)
    closed = float(gaussian_cosine(means[0], means[1], sigma, sigma))
    return [
        *means,
        sigma,
        dimension,
        trials,
        float(found.mean()),
        float(found.std()),
        float(found.min()),
        float(found.max()),
        *(float(share) for share in shares),
        closed,
    ]


# -- centring ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Centring:
    """Options of ``centring``."""

    a: tuple[float, ...]
    b: tuple[float, ...]


def read_centring(parts: dict[str, Node], scope: Scope) -> Centring:
    """Read the options."""
    both = [
        tuple(item.number(low=-1e6, high=1e6) for item in parts[name].items(most=10_000, least=3))
        for name in ("a", "b")
    ]
    if len(both[0]) != len(both[1]):
        parts["b"].fail("as many numbers as in a")
    return Centring(a=both[0], b=both[1])


def run_centring(bench: Bench, options: Centring) -> None:
    """Write both vectors, their cosine, and what is left after the means are taken off."""
    a, b = np.array([options.a]), np.array([options.b])
    cosine, pearson = float(_cosine(a, b)[0]), float(_pearson(a, b)[0])
    angles = [math.degrees(math.acos(max(-1.0, min(1.0, value)))) for value in (cosine, pearson)]
    bench.document(
        {"a": options.a, "b": options.b, "cosine": cosine, "pearson": pearson, "angles": angles},
        tables=[
            shown_table(
                "centring",
                ("view", "similarity", "angle"),
                [["raw", cosine, angles[0]], ["centred", pearson, angles[1]]],
            )
        ],
        said=[said("centring")],
    )


RANDOM = Kind(
    name="random-vectors",
    meaning="independent normal vectors, with given means or those of the data",
    fields=Fields(
        required=("dimension",),
        optional=("trials", "normal", "from", "pairs", "roles", "layer"),
        read=read_random,
    ),
    run=run_random,
)
SYNTHETIC = Kind(
    name="synthetic-cosines",
    meaning="cosines of independent normal vectors over means, sigmas and dimensions",
    fields=Fields(required=("means", "sigmas", "dimensions"), optional=("trials",), read=read_synthetic),
    run=run_synthetic,
)
CENTRING = Kind(
    name="centring",
    meaning="two vectors before and after their means are taken off",
    fields=Fields(required=("a", "b"), optional=(), read=read_centring),
    run=run_centring,
)
