"""Units that were repeated in both models are seen, however they were repeated."""

import math

import numpy as np
import pytest

from modelkin.stats import AxisOptions, AxisTest, NotTestable, axis_test, joint_features

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


def gains_on_an_axis(n_units, *, seed, copied, reach=0.0):
    """Test nine vectors of gains that have most of their pattern in common, as layers of one model have."""
    models = []
    for number in (0, 0 if copied else 1):
        rng = np.random.default_rng([seed, number])
        gains = math.sqrt(0.7) * rng.normal(size=n_units) + math.sqrt(0.3) * rng.normal(size=(9, n_units))
        if reach:
            away = np.minimum(np.arange(n_units), n_units - np.arange(n_units))
            blur = np.fft.rfft(np.exp(-((away / reach) ** 2) / 2))
            gains = np.fft.irfft(np.fft.rfft(gains, axis=1) * blur, n_units, axis=1)
        models.append(list(gains))
    joint = joint_features(candidate=models[0], base=models[1])
    assert not isinstance(joint, NotTestable)
    options = AxisOptions(unit_rows=False, n_permutations=99, n_bootstrap=99)
    found = axis_test(candidate=joint.candidate, base=joint.base, exchangeable=True, seed=1, options=options)
    assert isinstance(found, AxisTest)
    return found


@pytest.mark.more
@pytest.mark.parametrize("n_units", [48, 96, 128])
def test_the_scatter_of_equal_models_has_a_wider_limit(n_units):
    """Opposite shifts have the same value, so there are half as many: the limit is four errors of theirs."""
    equal = [gains_on_an_axis(n_units, seed=seed, copied=True).shift for seed in range(100)]
    assert [shift.limit for shift in equal] == pytest.approx([1.0 + 4.0 / math.sqrt(n_units)] * 100)
    assert sum(shift.sd > shift.limit for shift in equal) <= 3
    others = [gains_on_an_axis(n_units, seed=seed, copied=False).shift for seed in range(100)]
    plain = max(1.3, 1.0 + 4.0 / math.sqrt(2.0 * n_units))
    assert np.mean([shift.limit for shift in others]) < plain + 0.02
    assert sum(shift.sd > shift.limit for shift in others) <= 1


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("n_units", [48, 96, 256])
def test_gains_like_their_neighbours_are_ordered_in_copies_and_strangers(n_units, copied):
    found = [gains_on_an_axis(n_units, seed=seed, copied=copied, reach=3.0) for seed in range(20)]
    assert sum("shift-dispersion" in test.flags for test in found) >= 19
