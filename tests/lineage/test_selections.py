"""Ways of choosing differences from a base are told apart by what they predict; merges are made here."""

import numpy as np
import pytest

from modelkin.lineage.patterns import Sparse, fit_dropped
from modelkin.lineage.selections import fit_banded, fit_by_variance, fit_stock


def there(found: Sparse | None) -> Sparse:
    assert found is not None
    return found


N, ROW = 16_000, 100
WEIGHTS = (0.6, 0.4)


@pytest.fixture(scope="module")
def tasks():
    rng = np.random.default_rng(5)
    common = rng.standard_normal(N)
    return [0.5 * common + rng.standard_normal(N) for _ in WEIGHTS]


def ranked(task, row):
    """Return ranks from 0 to 1 within rows."""
    rows = np.abs(task).reshape(-1, row)
    return (np.argsort(np.argsort(rows, axis=1), axis=1) / (row - 1)).reshape(-1)


def summed(chosen, *, rescaled=None):
    parts: list[np.ndarray] = []
    for weight, task in zip(WEIGHTS, chosen, strict=True):
        scale = 1.0 if rescaled is None else np.abs(rescaled[len(parts)]).sum() / np.abs(task).sum()
        parts.append(weight * scale * task)
    return np.sum(parts, axis=0)


def drawn(tasks, epsilon, density=0.5):
    rng = np.random.default_rng(9)
    chances = [(density - epsilon) + 2 * epsilon * ranked(task, ROW) for task in tasks]
    kept = [np.where(rng.random(N) < chance, task, 0) for chance, task in zip(chances, tasks, strict=True)]
    return summed(kept, rescaled=tasks)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.3])
def test_a_chance_that_rises_with_size_is_measured(tasks, epsilon):
    found = there(fit_dropped(drawn(tasks, epsilon), tasks))
    assert found.epsilon == pytest.approx(epsilon, abs=0.02)
    assert found.uneven < 0.04
    assert found.explained > 0.999
    assert found.weights == pytest.approx(WEIGHTS, abs=0.01)
    assert found.densities == pytest.approx((0.5, 0.5), abs=0.02)


def band(tasks, low, high):
    kept = [np.where((ranked(task, N) >= low) & (ranked(task, N) < 1 - high), task, 0) for task in tasks]
    return summed(kept)


def test_dropping_the_smallest_and_the_largest_is_seen(tasks):
    found = there(fit_banded(band(tasks, 0.4, 0.02), tasks))
    assert found.explained > 0.99
    assert found.gamma == pytest.approx(0.02, abs=0.002)
    assert found.densities == pytest.approx((0.58, 0.58), abs=0.01)
    assert found.weights == pytest.approx(WEIGHTS, abs=0.01)
    assert not found.elected


def test_keeping_the_largest_is_no_band(tasks):
    assert fit_banded(band(tasks, 0.4, 0.0), tasks) is None


def test_what_a_rule_chose_is_not_taken_for_chance(tasks):
    assert there(fit_dropped(band(tasks, 0.4, 0.0), tasks)).uneven > 0.1
    assert there(fit_dropped(band(tasks, 0.3, 0.05), tasks)).uneven > 0.1


def selected(tasks, share):
    stacked = np.stack(tasks)
    variance = stacked.var(axis=0)
    held = np.where(variance >= np.quantile(variance, 1 - share), stacked, 0)
    energies = np.square(held).mean(axis=1)
    agreeing = np.sign(held) == np.where(held.sum(axis=0) >= 0, 1, -1)
    weight = (energies / energies.sum())[:, None] * agreeing
    return (weight * held).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-9)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_differences_in_which_parents_vary_are_predicted_without_a_fit(tasks, share):
    found = there(fit_by_variance(selected(tasks, share), tasks))
    assert found.explained > 0.99
    assert found.densities[0] == pytest.approx(share, abs=0.01)
    assert there(fit_by_variance(drawn(tasks, 0.0), tasks)).explained < 0.9


def test_the_ratio_of_model_stock_follows_from_the_angle(tasks):
    first, second = tasks
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    ratio = 2 * cosine / (1 + cosine)
    found = there(fit_stock(ratio * (first + second) / 2, tasks))
    assert found.explained == pytest.approx(1)
    assert sum(found.weights) == pytest.approx(ratio)
    assert there(fit_stock(0.8 * (first + second) / 2, tasks)).explained < 0.9
