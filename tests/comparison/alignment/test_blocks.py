"""Best matches of units, found block by block."""

import numpy as np
import pytest

from modelkin.comparison.alignment import match_units
from modelkin.comparison.alignment import units as units_module


@pytest.mark.parametrize("elements", [64, 1000, 10**6])
@pytest.mark.parametrize("sign_free", [False, True])
def test_blocks_do_not_change_the_matches(elements, sign_free, monkeypatch):
    rng = np.random.default_rng(1)
    mine, theirs = rng.standard_normal((20, 8)), rng.standard_normal((57, 8))
    monkeypatch.setattr(units_module, "_BLOCK_ELEMENTS", elements)
    match = match_units(mine, theirs, seed=1, sign_free=sign_free)
    cosines = (mine / np.linalg.norm(mine, axis=1)[:, None]) @ (
        theirs / np.linalg.norm(theirs, axis=1)[:, None]
    ).T
    wanted = np.argmax(np.abs(cosines) if sign_free else cosines, axis=1)
    np.testing.assert_array_equal(match.places, wanted)
    np.testing.assert_allclose(match.cosines, cosines[np.arange(20), wanted], atol=1e-6)


def test_units_that_are_no_numbers_match_nothing():
    match = match_units(np.ones((2, 4)), np.full((3, 4), np.nan), seed=1)
    np.testing.assert_array_equal(match.cosines, [0, 0])
