"""The effect in token tables is what was mixed in, and its interval contains it: planted values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tests.places import ZOO
from tests.support.amount import every

import modelkin as mk
from modelkin.stats import AxisOptions, DetectionLimit, axis_test, detection_limit

TABLES = {"head": "lm_head.weight", "embedding": "model.embed_tokens.weight"}
NAMES = ("base", "twin-1", "twin-2", "order-1", "order-2", "corpus-1")
OPTIONS = AxisOptions(n_permutations=99, n_bootstrap=599, whole_effect=True)


def table(name, component):
    with mk.open_model(str(ZOO / name)) as model:
        return np.asarray(model.tensor(TABLES[component], rows=slice(0, 512)), np.float64)


def measured(candidate, base, options=OPTIONS):
    """Units are residual dimensions, as in the methods of token tables."""
    return axis_test(candidate=candidate.T, base=base.T, exchangeable=True, seed=0, options=options)


def planted(base, other, share):
    other = other * np.linalg.norm(base) / np.linalg.norm(other)
    return share * base + math.sqrt(1 - share**2) * other


@pytest.mark.parametrize("share", every(2, [0.1, 0.3, 0.6, 0.9]))
@pytest.mark.parametrize("component", list(TABLES))
def test_the_interval_holds_the_planted_value(component, share):
    """At a level of 99 %, less than 34 of 36 has a chance of 1 in 2,000 (binomial)."""
    tables = {name: table(name, component) for name in NAMES}
    rng = np.random.default_rng(0)
    held = 0
    for first, second in list(itertools.permutations(NAMES, 2))[:18]:
        noise = rng.standard_normal(tables[first].shape)
        for other in (tables[second], noise):
            held += share in measured(planted(tables[first], other, share), tables[first]).interval
    assert held >= 34


def test_the_mean_over_units_of_norm_one_is_not_what_was_planted_in_a_head():
    """This is why the effect of token tables is that of the whole: few directions hold most of a head."""
    base, rng = table("base", "head"), np.random.default_rng(0)
    mixed = planted(base, rng.standard_normal(base.shape), 0.6)
    by_units = measured(mixed, base, AxisOptions(n_permutations=99, n_bootstrap=999))
    assert 0.6 not in by_units.interval
    assert by_units.log10_p == measured(mixed, base).log10_p


def wide_head(rng, dimensions=1024, tokens=256):
    """Nine tenths of the energy in one direction over tokens, dimensions of very unequal size."""
    sizes = rng.lognormal(0.0, 0.6, dimensions)
    common = np.outer(rng.uniform(0.5, 1.5, tokens), 3.0 * rng.standard_normal(dimensions))
    return (common + rng.standard_normal((tokens, dimensions))) * sizes


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_the_interval_holds_at_the_widths_of_published_models(share):
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(5):
        base = wide_head(rng)
        held += share in measured(planted(base, wide_head(rng), share), base).interval
    assert held == 5


def test_what_is_planted_at_the_detection_limit_is_found():
    rng = np.random.default_rng(2)
    for _ in range(2):
        base, other = wide_head(rng), wide_head(rng)
        alone = measured(other, base)
        limit = detection_limit(n_units=1024, standard_error=alone.standard_error, log10_alpha=-8.0)
        assert isinstance(limit, DetectionLimit)
        assert measured(planted(base, other, limit.effect), base).log10_p < -8
