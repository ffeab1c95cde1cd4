"""What number formats do to gains, against the formats themselves."""

from __future__ import annotations

import csv
from importlib import resources

import ml_dtypes
import numpy as np
import pytest

from modelkin.describe.precision import FORMATS, norm_error, pattern_loss, rounded, step_sizes

TYPES = {"BF16": ml_dtypes.bfloat16, "FP16": np.float16}


@pytest.mark.parametrize("name", FORMATS)
def test_rounding_is_that_of_the_format(name):
    rng = np.random.default_rng(1)
    values = rng.normal(size=4096) * 10.0 ** rng.integers(-4, 4, size=4096)
    wanted = values.astype(np.float32).astype(TYPES[name]).astype(np.float64)
    # From float64 a value may be nearer to one side by less than float32 can tell.
    assert np.mean(rounded(values, name) == wanted) > 0.999
    assert np.all(np.abs(rounded(values, name) - values) <= step_sizes(values, name) / 2)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("mean", "spread"), [(0.3, 0.03), (0.9, 0.05), (2.2, 0.1)])
def test_the_loss_is_what_rounding_really_adds(name, mean, spread):
    gains = np.random.default_rng(2).normal(mean, spread, 200_000)
    error = gains.astype(TYPES[name]).astype(np.float64) - gains
    assert pattern_loss(gains, name) == pytest.approx(error.var() / gains.var(), rel=0.02)


@pytest.mark.parametrize(
    ("side", "role", "median", "worst", "minus_one"),
    [
        ("a", "input", 0.0003, 0.0004, 0.0013),
        ("a", "post", 0.0006, 0.0013, 0.0004),
        ("b", "input", 0.0003, 0.0006, 0.0001),
        ("b", "post", 0.0005, 0.0024, 0.0001),
    ],
)
def test_published_gains_lose_little_to_rounding(side, role, median, worst, minus_one):
    """The table of docs/studies.md, from the published means and deviations of all layers."""
    text = resources.files("modelkin.casework.replay").joinpath("data", "norms.csv").read_text()
    rows = [row for row in csv.DictReader(text.splitlines()) if row["role"] == role]
    pattern = np.random.default_rng(0).standard_normal(20_000)
    layers = [float(row[f"mean_{side}"]) + float(row[f"std_{side}"]) * pattern for row in rows]
    found = [lost(gains) for gains in layers]
    assert len(found) == 46
    assert (round(float(np.median(found)), 4), round(max(found), 4)) == (median, worst)
    assert round(float(np.median([lost(gains, centre=1.0) for gains in layers])), 4) == minus_one


def lost(values, **options):
    found = pattern_loss(values, "BF16", **options)
    assert found is not None
    return found


def test_taking_off_one_helps_near_one_and_nowhere_else():
    rng = np.random.default_rng(3)
    near, far = rng.normal(1.0, 0.02, 4096), rng.normal(0.3, 0.02, 4096)
    assert lost(near, centre=1.0) < lost(near) / 100
    assert lost(far, centre=1.0) > lost(far)
    assert lost(far, centre=0.3) < lost(far) / 10
    assert pattern_loss(np.full(8, 0.7), "BF16") is None


@pytest.mark.parametrize("centred", [False, True])
def test_a_norm_in_full_precision_loses_only_the_last_rounding(centred):
    gain = np.random.default_rng(4).normal(0.6, 0.05, 4096)
    low, promoted = (
        norm_error(gain, "BF16", promoted=promoted, centred=centred, seed=0) for promoted in (False, True)
    )
    # An even error of half a step at most, where steps are between 1/128 and 1/256 of the value.
    assert 0.0012 < promoted < 0.0024
    assert low > 1.5 * promoted
    assert norm_error(gain, "FP16", promoted=True, centred=centred, seed=0) == pytest.approx(
        promoted / 8, rel=0.1
    )
