"""Pairs of unrelated "models" that look alike in the ways real ones do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from modelkin.stats import AxisOptions, AxisTest, NotTestable, axis_test, joint_features

Rows = npt.NDArray[np.float64]
Pair = tuple[Rows, Rows]
# Small enough for single-threaded matrix products: threads only slow products of this size down.
N_UNITS, N_FEATURES = 96, 24


def gaussian(rng: np.random.Generator) -> Pair:
    return rng.standard_normal((N_UNITS, N_FEATURES)), rng.standard_normal((N_UNITS, N_FEATURES))


def shared_dictionary(rng: np.random.Generator) -> Pair:
    """Units of both models are made of the same few strong features, as trained models are."""
    features = rng.standard_normal((16, N_FEATURES))

    def model() -> Rows:
        strength = 2.0 * rng.standard_exponential((N_UNITS, 16)) * (rng.random((N_UNITS, 16)) < 0.2)
        return strength @ features + rng.standard_normal((N_UNITS, N_FEATURES))

    return model(), model()


def heavy_tailed(rng: np.random.Generator) -> Pair:
    """Entries without a variance."""
    return rng.standard_t(2, (N_UNITS, N_FEATURES)), rng.standard_t(2, (N_UNITS, N_FEATURES))


def outlier_features(rng: np.random.Generator) -> Pair:
    """Three features are fifty times as large as the rest, in both models."""
    scale = np.ones(N_FEATURES)
    scale[:3] = 50.0
    return tuple(rng.standard_normal((N_UNITS, N_FEATURES)) * scale for _ in range(2))  # type: ignore[return-value]


def outlier_units(rng: np.random.Generator) -> Pair:
    """Three units of each model, at unrelated places, are thirty times as large in a common direction."""

    def model() -> Rows:
        rows = rng.standard_normal((N_UNITS, N_FEATURES))
        rows[rng.choice(N_UNITS, 3, replace=False)] += 30.0
        return rows

    return model(), model()


def ternary(rng: np.random.Generator) -> Pair:
    """Values -1, 0 and 1 only: ties everywhere, and zero units."""
    return tuple(  # type: ignore[return-value]
        np.sign(rng.standard_normal((N_UNITS, 4))) * (rng.random((N_UNITS, 4)) < 0.5) for _ in range(2)
    )


def dependent_layers(rng: np.random.Generator) -> Pair:
    """Norm gains of 46 layers that drift slowly with depth: lag-one correlation 0.9 within each model."""

    def gains() -> list[Rows]:
        layer = rng.standard_normal(N_UNITS)
        layers = []
        for depth in range(46):
            layer = 0.9 * layer + np.sqrt(1.0 - 0.81) * rng.standard_normal(N_UNITS)
            layers.append(0.02 * (depth + 1) * (1.0 + 0.1 * layer))
        return layers

    features = joint_features(candidate=gains(), base=gains())
    assert not isinstance(features, NotTestable)
    return features.candidate, features.base


def aligned(rng: np.random.Generator) -> Pair:
    """The base's residual stream is rotated onto the candidate's by embeddings of shared meaning."""
    meaning = rng.standard_normal((200, N_FEATURES))
    embeddings = [meaning @ rng.standard_normal((N_FEATURES, N_FEATURES)) for _ in range(2)]
    left, _, right = np.linalg.svd(embeddings[1].T @ embeddings[0])
    first, second = shared_dictionary(rng)
    return first, second @ (left @ right)


QUICK = AxisOptions(n_permutations=999, n_bootstrap=99)


@dataclass(frozen=True, slots=True)
class Null:
    """A kind of unrelated pair and how it is tested."""

    draw: Callable[[np.random.Generator], Pair]
    options: AxisOptions = QUICK

    def tests(self, n_pairs: int, seed: int) -> list[AxisTest]:
        rng = np.random.default_rng(seed)
        done = []
        for k in range(n_pairs):
            candidate, base = self.draw(rng)
            test = axis_test(candidate=candidate, base=base, exchangeable=True, seed=k, options=self.options)
            assert isinstance(test, AxisTest)
            done.append(test)
        return done


_RAW = replace(QUICK, unit_rows=False)
NULLS = {
    "normal": Null(gaussian),
    "normal, squared cosines": Null(gaussian, replace(QUICK, sign_free=True)),
    "shared feature dictionary": Null(shared_dictionary),
    "shared dictionary, squared cosines": Null(shared_dictionary, replace(QUICK, sign_free=True)),
    "shared dictionary, one-sided": Null(shared_dictionary, replace(QUICK, alternative="greater")),
    "heavy tails (t, 2 degrees)": Null(heavy_tailed, _RAW),
    "outlier features": Null(outlier_features),
    "outlier units": Null(outlier_units, _RAW),
    "outlier units, ranks": Null(outlier_units, replace(_RAW, rank_normalise=True)),
    "values -1, 0, 1": Null(ternary),
    "46 dependent layers, joint": Null(dependent_layers, _RAW),
    "aligned by embeddings": Null(aligned),
}
