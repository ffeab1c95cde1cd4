"""Units that were cloned by one public map in both models."""

from __future__ import annotations

import numpy as np
import pytest

from modelkin.comparison.methods import Tested, axis, load_method
from modelkin.comparison.methods.axis import unit_evidence
from modelkin.comparison.methods.clones import TOLERATED, excess_variance

METHOD = load_method("mlp-units")
CERTAIN = -7.5
"""log10 p of one test from which a small model would be accused."""


def public_map(kind, *, n, folds):
    """Which of the first units each unit is a clone of: the same in every model."""
    first = n // folds
    rng = np.random.default_rng(7)
    if kind == "widened":  # Net2Wider: all of the small model, then clones of units drawn at random
        return np.concatenate([np.arange(first), rng.integers(0, first, n - first)])
    return rng.permutation(np.resize(np.arange(first), n))


def cloned(rng, places, *, width, noise):
    rows = rng.normal(size=(places.max() + 1, width))[places]
    return (rows + noise * rng.normal(size=rows.shape)).astype(np.float32)


def judged(candidate, base):
    found = unit_evidence(METHOD, (candidate, base), seed=0)
    assert isinstance(found, Tested)
    return found


def strangers(kind, *, n, width, folds, noise, seeds):
    places = public_map(kind, n=n, folds=folds)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        yield tuple(cloned(rng, places, width=width, noise=noise) for _ in range(2))


@pytest.mark.parametrize(
    ("kind", "folds", "noise"), [("widened", 8, 0.1), ("widened", 8, 0.5), ("shuffled", 16, 0.05)]
)
def test_strangers_whose_units_were_cloned_alike_are_not_related(kind, folds, noise, monkeypatch):
    pairs = list(strangers(kind, n=160, width=96, folds=folds, noise=noise, seeds=range(150)))
    assert min(judged(*pair).log10_p for pair in pairs) > CERTAIN
    monkeypatch.setattr(axis, "given_clones", lambda test, *_, **__: test)
    assert min(judged(*pair).log10_p for pair in pairs) < CERTAIN


@pytest.mark.parametrize(("n", "width"), [(688, 256), (512, 4096)])
def test_strangers_cloned_alike_are_not_related_at_width(n, width):
    pairs = strangers("widened", n=n, width=width, folds=8, noise=0.1, seeds=range(8))
    scattered = []
    for pair in pairs:
        found = judged(*pair)
        scattered.append(found.z)
        assert found.log10_p > CERTAIN
        assert excess_variance(*pair, seed=0) > 4.0
    assert np.std(scattered) > 1.5


@pytest.mark.parametrize("share", [0.3, 0.6, 1.0])
def test_copies_of_a_widened_model_are_found(share):
    places = public_map("widened", n=160, folds=8)
    rng = np.random.default_rng(1)
    base, other = (cloned(rng, places, width=96, noise=0.1) for _ in range(2))
    assert judged(share * base + (1.0 - share) * other, base).log10_p < CERTAIN


@pytest.mark.parametrize(("n", "width"), [(64, 48), (160, 96), (512, 1024), (512, 4096)])
def test_units_that_were_not_cloned_have_no_groups(n, width):
    rng = np.random.default_rng(3)
    spectrum = np.arange(1, width + 1) ** -0.5  # directions that all units share
    one, two = (rng.normal(size=(n, width)) * spectrum for _ in range(2))
    assert excess_variance(one, two, seed=0) < TOLERATED
    for share in (0.05, 0.2, 0.5):
        assert excess_variance(share * one + (1.0 - share) * two, one, seed=0) < TOLERATED


@pytest.mark.parametrize("shared", [0.2, 0.4])
def test_a_weak_copy_keeps_its_p_value(shared):
    rng = np.random.default_rng(5)
    base, other = rng.normal(size=(2, 160, 96)).astype(np.float32)
    found = judged(shared * base + other, base)
    assert not {"same-groups", "groups-alone"} & {*found.flags}
    assert found.log10_p < -3.0
