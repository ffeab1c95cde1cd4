"""Maps of the residual stream: learned on some rows, checked on others."""

import numpy as np
import pytest

from modelkin.comparison.alignment import Frame, find_frame
from modelkin.comparison.alignment.residual import polar_factor
from modelkin.message import say

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(600, 32)).astype(np.float32)
ORDER = RNG.permutation(32)
SIGNS = RNG.choice([-1.0, 1.0], 32).astype(np.float32)
TURN = polar_factor(RNG.normal(size=(32, 32))).astype(np.float32)

MAPS = {
    "identity": lambda rows: rows,
    "permutation": lambda rows: rows[:, ORDER],
    "signed-permutation": lambda rows: rows[:, ORDER] * SIGNS,
    "rotation": lambda rows: rows @ TURN,
}


def frame_of(candidate, base):
    found = find_frame(candidate, base, learned_from=say("embedding-rows"), seed=1)
    assert isinstance(found, Frame)
    return found


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_the_simplest_map_that_fits_is_found_and_undoes_the_change(kind, noise):
    base = MAPS[kind](ROWS)
    found = frame_of(ROWS + noise * np.random.default_rng(4).normal(size=ROWS.shape), base)
    assert found.kind == kind
    assert found.fit > 0.85
    assert abs(found.chance) < 0.1
    np.testing.assert_allclose(found.apply(ROWS[:5]), base[:5], atol=0.01 if noise == 0 else 1.5)


def test_rows_of_strangers_fit_no_better_than_chance():
    found = frame_of(ROWS, np.random.default_rng(5).normal(size=ROWS.shape))
    assert found.fit < 0.1


def test_the_check_is_on_rows_that_were_not_fitted():
    """As many rows as dimensions can be fitted whatever they are; the fit must not say so."""
    few = ROWS[:70]
    found = frame_of(few, np.random.default_rng(6).normal(size=few.shape))
    assert found.fit < 0.2


def test_a_narrower_model_keeps_the_places_it_has():
    kept = np.sort(np.random.default_rng(7).permutation(32)[:20])
    found = frame_of(ROWS[:, kept], ROWS)
    assert found.kind == "permutation"
    assert found.widths == (20, 32)
    mapped = found.apply(ROWS[:5, kept])
    np.testing.assert_allclose(mapped[:, kept], ROWS[:5, kept])
    assert not mapped[:, np.setdiff1d(np.arange(32), kept)].any()


def test_rows_that_cannot_be_used_are_left_out():
    base = ROWS @ TURN
    candidate = ROWS.copy()
    candidate[::3] = 0
    candidate[1] = np.nan
    base[2] = np.inf
    found = frame_of(candidate, base)
    assert found.kind == "rotation"
    assert found.fit > 0.99
    assert found.n_rows == 199


def test_too_few_rows_are_refused_with_a_reason():
    assert "only 63 usable rows" in str(
        find_frame(ROWS[:63], ROWS[:63], learned_from=say("embedding-rows"), seed=1)
    )
    with pytest.raises(ValueError, match="expected 600 rows"):
        find_frame(ROWS, ROWS[:10], learned_from=say("embedding-rows"), seed=1)
