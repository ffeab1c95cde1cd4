"""All pairs of blocks at once give what the axis test gives for each of them."""

import math

import numpy as np
import pytest

from modelkin.stats import AxisOptions, AxisTest, axis_test, cross_z

OPTIONS = AxisOptions(n_permutations=99, n_bootstrap=99)


def z_of(candidate, base):
    found = axis_test(candidate=candidate, base=base, exchangeable=True, seed=1, options=OPTIONS)
    assert isinstance(found, AxisTest)
    return found.z


def blocks(seed, n, *, units=24, features=16):
    return list(np.random.default_rng(seed).normal(size=(n, units, features)).astype(np.float32))


def test_every_cell_is_the_z_of_the_axis_test():
    mine, theirs = blocks(1, 3), blocks(2, 2)
    theirs[1] = mine[0] + 0.5 * theirs[1]
    found = cross_z(mine, theirs)
    expected = [[z_of(a, b) for b in theirs] for a in mine]
    assert found == pytest.approx(np.array(expected), rel=1e-4, abs=1e-4)
    assert found[0, 1] > 10


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_units_that_cannot_be_used_are_left_out_as_there(bad):
    mine, theirs = blocks(3, 1), blocks(4, 1)
    mine[0][:9] = bad
    theirs[0][4:12] = bad
    assert cross_z(mine, theirs)[0, 0] == pytest.approx(z_of(mine[0], theirs[0]), rel=1e-4)


def test_units_of_zeros_in_the_same_places_do_not_look_alike():
    """Centred with the others they would be equal rows in equal places."""
    rng = np.random.default_rng(5)
    cells = []
    for _ in range(200):
        mine, theirs = rng.normal(size=(2, 1, 64, 8))
        mine[:, :45] = theirs[:, :45] = 0
        cells.append(cross_z(mine, theirs)[0, 0])
    assert 0.85 < np.std(cells) < 1.15


def test_blocks_without_variation_have_no_z():
    (mine,), (theirs,) = blocks(6, 1), blocks(7, 1)
    few = theirs.copy()
    few[3:] = 0
    found = cross_z([mine, np.zeros_like(mine)], [theirs, np.ones_like(mine), few])
    assert not math.isnan(found[0, 0])
    assert np.isnan(found[0, 2])
    assert np.isnan(found[1]).all()


def test_blocks_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match="one shape"):
        cross_z(blocks(1, 1), blocks(1, 1, units=25))


def test_z_of_strangers_has_mean_zero_and_unit_spread():
    found = cross_z(blocks(8, 40), blocks(9, 40))
    assert abs(found.mean()) < 4.3 / 40
    assert abs(found.std() - 1) < 0.1
