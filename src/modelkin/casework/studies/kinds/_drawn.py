"""``random-vectors``, ``synthetic-cosines`` and ``centring``: what vectors without any relation show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta, field

from modelkin.casework.studies.bench import Bench, NotDone, said, shown
from modelkin.casework.studies.reading import NORM, AliasPair, LayerNumber, Roles, SavedVectors
from modelkin.casework.studies.saved import both_vectors, load_vectors
from modelkin.casework.studies.spec import Experiment
from modelkin.describe.measures import gaussian_cosine, generator
from modelkin.message import say
from modelkin.structs import Refused

Floats = npt.NDArray[np.float64]
Normal = tuple[float, float]
"""Mean and standard deviation."""
MOST_VALUES = 2**31
"""Most numbers that one experiment may draw."""
_CHUNK = 2**20
Number = Annotated[float, Meta(ge=-1e6, le=1e6)]
Trials = Annotated[int, Meta(ge=2, le=10**6)]
Vector = Annotated[tuple[Number, ...], Meta(min_length=3, max_length=10_000)]


class RandomVectors(Experiment, tag="random-vectors"):
    """Independent normal vectors, with given means or those of the data."""

    dimension: Annotated[int, Meta(ge=3, le=10**6)]
    trials: Trials = 1000
    """Pairs of vectors that are drawn."""
    normal: Annotated[
        tuple[tuple[Number, Annotated[float, Meta(ge=0, le=1e6)]], ...], Meta(max_length=20)
    ] = ()
    """Mean and standard deviation of both vectors."""
    vectors: SavedVectors | None = field(name="from", default=None)
    """Experiment whose vectors' means and deviations are also used."""
    pairs: Annotated[tuple[AliasPair, ...], Meta(max_length=40)] = ()
    roles: Roles = NORM
    """The first is taken."""
    layer: LayerNumber = 10

    def __post_init__(self) -> None:
        if self.dimension * self.trials * max(1, len(self.normal) + len(self.pairs)) > MOST_VALUES:
            raise Refused(say("part.drawn", most=MOST_VALUES), self.dimension, inside="dimension")

    def run(self, bench: Bench) -> None:
        """Draw pairs of independent normal vectors: with given means, and with those of the data."""
        rows: list[dict[str, Any]] = []
        for mean, std in self.normal:
            one = (mean, std)
            rows.append(_drawn(bench, f"N({mean:g}, {std:g})", one, one, self.dimension, self.trials))
        saved = load_vectors(bench, self.vectors) if self.vectors and self.pairs else {}
        for a, b in self.pairs:
            try:
                mine, theirs, common = both_vectors(saved, a, b, self.roles[0])
                if self.layer not in common:
                    raise NotDone(say("study.no-layer-in-both", n=self.layer))
            except NotDone as skipped:
                bench.leave(bench.names(a, b), skipped.reason)
                continue
            first, second = mine.at((self.layer,))[0], theirs.at((self.layer,))[0]
            what = f"{bench.names(a, b)}, {self.layer}"
            one, other = ((float(item.mean()), float(item.std())) for item in (first, second))
            row = _drawn(bench, what, one, other, mine.n, self.trials)
            row["pair"] = [a, b]
            row["measured"] = _cosine(first[None], second[None])[0]
            row["measured_pearson"] = _pearson(first[None], second[None])[0]
            rows.append(row)
        columns = (
            *("what", "n", "trials", "cosine", "cosine_sd", "closed_form", "pearson", "pearson_sd"),
            *("l2", "l2_sd", "measured", "measured_pearson"),
        )
        cells = [{name: row.get(name) for name in columns} for row in rows]
        bench.folder.csv(bench.data(".csv"), columns, (list(row.values()) for row in cells))
        bench.document(
            {"rows": rows}, tables=[shown("random_vectors", cells, columns)], said=[said("random_vectors")]
        )


def _draws(
    random: np.random.Generator, one: Normal, other: Normal, n: int, trials: int
) -> Iterator[tuple[Floats, Floats]]:
    """Draw pairs of vectors, as many at a time as fit."""
    step = max(1, _CHUNK // n)
    for begin in range(0, trials, step):
        size = min(step, trials - begin)
        a, b = (random.standard_normal((size, n)) * std + mean for mean, std in (one, other))
        yield a, b


def _drawn(bench: Bench, what: str, one: Normal, other: Normal, n: int, trials: int) -> dict[str, Any]:
    random = generator(bench.seed, "random-vectors", what)
    parts = [
        (_cosine(a, b), _pearson(a, b), np.linalg.norm(a - b, axis=1))
        for a, b in _draws(random, one, other, n, trials)
    ]
    names = ("cosine", "pearson", "l2")
    found = {
        name: np.concatenate(values) for name, values in zip(names, zip(*parts, strict=True), strict=True)
    }
    return {
        "what": what,
        "n": n,
        "trials": trials,
        **{name: float(values.mean()) for name, values in found.items()},
        **{f"{name}_sd": float(values.std(ddof=1)) for name, values in found.items()},
        "cosine_max": float(found["cosine"].max()),
        "closed_form": float(gaussian_cosine(one[0], other[0], one[1], other[1])),
    }


def _cosine(a: Floats, b: Floats) -> Floats:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(axis=1) / np.where(lengths > 0, lengths, np.nan), dtype=np.float64)


def _pearson(a: Floats, b: Floats) -> Floats:
    return _cosine(a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True))


class SyntheticCosines(Experiment, tag="synthetic-cosines"):
    """Cosines of independent normal vectors over means, sigmas and dimensions."""

    means: Annotated[tuple[tuple[Number, Number], ...], Meta(min_length=1, max_length=12)]
    """Of the first and of the second vector."""
    sigmas: Annotated[tuple[Annotated[float, Meta(ge=1e-9, le=1e6)], ...], Meta(min_length=1, max_length=20)]
    dimensions: Annotated[tuple[Annotated[int, Meta(ge=2, le=10**6)], ...], Meta(min_length=1, max_length=12)]
    trials: Trials = 10_000
    """Pairs of vectors that are drawn for each."""

    def __post_init__(self) -> None:
        if 2 * self.trials * sum(self.dimensions) * len(self.means) * len(self.sigmas) > MOST_VALUES:
            raise Refused(say("part.drawn", most=MOST_VALUES), self.trials, inside="trials")

    def run(self, bench: Bench) -> None:
        """Draw many pairs for each mean, sigma and dimension, next to the closed form."""
        rows = [
            self._row(bench, means, sigma, dimension)
            for means, sigma, dimension in product(self.means, self.sigmas, self.dimensions)
        ]
        bench.folder.rows(bench.data(".csv"), rows)
        largest = max(abs(row["cosine"] - row["closed_form"]) for row in rows)
        bench.document(
            {
                "columns": list(rows[0]),
                "rows": [list(row.values()) for row in rows],
                "largest_difference": largest,
            },
            tables=[shown("synthetic", rows)],
            said=[said("synthetic", largest=largest)],
        )

    def _row(self, bench: Bench, means: tuple[float, float], sigma: float, dimension: int) -> dict[str, Any]:
        random = generator(bench.seed, "synthetic", repr((means, sigma, dimension)))
        one, other = ((mean, sigma) for mean in means)
        cosines, positive = [], np.zeros(2)
        for a, b in _draws(random, one, other, dimension, self.trials):
            cosines.append(_cosine(a, b))
            positive += [(a > 0).sum(), (b > 0).sum()]
        found = np.concatenate(cosines)
        shares = positive / (self.trials * dimension)
        return {
            "mean_1": means[0],
            "mean_2": means[1],
            "sigma": sigma,
            "dimension": dimension,
            "trials": self.trials,
            "cosine": float(found.mean()),
            "spread": float(found.std()),
            "minimum": float(found.min()),
            "maximum": float(found.max()),
            "positive_1": float(shares[0]),
            "positive_2": float(shares[1]),
            "closed_form": float(gaussian_cosine(means[0], means[1], sigma, sigma)),
        }


class CentringExperiment(Experiment, tag="centring"):
    """Two vectors before and after their means are subtracted."""

    a: Vector
    b: Vector

    def __post_init__(self) -> None:
        if len(self.a) != len(self.b):
            raise Refused(say("part.as-many"), list(self.b), inside="b")

    def run(self, bench: Bench) -> None:
        """Write both vectors, their cosine, and what is left after the means are subtracted."""
        a, b = np.array([self.a]), np.array([self.b])
        cosine, pearson = float(_cosine(a, b)[0]), float(_pearson(a, b)[0])
        angles = [math.degrees(math.acos(max(-1.0, min(1.0, value)))) for value in (cosine, pearson)]
        views = [
            {"view": view, "similarity": value, "angle": angle}
            for view, value, angle in zip(("raw", "centred"), (cosine, pearson), angles, strict=True)
        ]
        bench.document(
            {"a": self.a, "b": self.b, "cosine": cosine, "pearson": pearson, "angles": angles},
            tables=[shown("centring", views)],
            said=[said("centring")],
        )
