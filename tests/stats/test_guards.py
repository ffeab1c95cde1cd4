"""Units that were repeated in both models are seen, however they were repeated."""

import numpy as np
import pytest

from modelkin.stats import AxisOptions, AxisTest, axis_test

OPTIONS = AxisOptions(n_permutations=99, n_bootstrap=99)
REPEATS = {
    "each twice": lambda rows: np.repeat(rows, 2, axis=0),
    "all twice": lambda rows: np.tile(rows, (2, 1)),
    "each four times": lambda rows: np.repeat(rows[::2], 4, axis=0),
}


@pytest.mark.parametrize("repeat", REPEATS)
def test_repeated_units_are_flagged_and_p_has_the_floor_of_shifts(repeat):
    for seed in range(25):
        mine, theirs = np.random.default_rng(seed).normal(size=(2, 64, 48))
        found = axis_test(
            candidate=REPEATS[repeat](mine),
            base=REPEATS[repeat](theirs),
            exchangeable=True,
            seed=1,
            options=OPTIONS,
        )
        assert isinstance(found, AxisTest)
        assert "duplicated-blocks" in found.flags
        assert found.log10_p >= -np.log10(found.n_units) - 1e-9


def test_one_model_that_repeats_its_units_is_no_obstacle():
    """The other model's order is arbitrary, which is enough."""
    mine, theirs = np.random.default_rng(1).normal(size=(2, 128, 48))
    found = axis_test(
        candidate=np.repeat(mine[::2], 2, axis=0), base=theirs, exchangeable=True, seed=1, options=OPTIONS
    )
    assert isinstance(found, AxisTest)
    assert found.flags == ()


@pytest.mark.parametrize("reach", [1.0, 3.0, 8.0])
@pytest.mark.parametrize(("n_units", "n_features"), [(160, 96), (512, 1024)])
def test_units_that_change_smoothly_along_their_number_accuse_nobody(n_units, n_features, reach):
    """As after sorting by likeness: z of unrelated models is several times as wide, and p has a floor."""
    distances = np.subtract.outer(np.arange(n_units), np.arange(n_units))
    blur = np.exp(-((distances / reach) ** 2) / 2).astype(np.float32)
    for seed in range(4):
        mine, theirs = blur @ np.random.default_rng(seed).normal(size=(2, n_units, n_features)).astype(
            np.float32
        )
        found = axis_test(candidate=mine, base=theirs, exchangeable=True, seed=1, options=OPTIONS)
        assert isinstance(found, AxisTest)
        assert "shift-dispersion" in found.flags
        assert found.log10_p >= -np.log10(found.n_units) - 1e-9
