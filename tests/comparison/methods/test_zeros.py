"""Masks that two models share are not common weights, at any width; copies are found under them."""

import numpy as np
import pytest
from tests.stats.test_swap import mask, strangers

from modelkin.comparison.methods import Skipped, Tested, load_method
from modelkin.comparison.methods.axis import unit_evidence
from modelkin.comparison.methods.unit_matching import _fixed_order
from modelkin.comparison.methods.zeros import FEWEST_PAIRS, common_zeros, zeros_of

METHOD = load_method("mlp-units")
UNITS, WIDTH = 256, 256


def judged(candidate, base, **options):
    found = unit_evidence(METHOD, (candidate, base), seed=1, **options)
    assert isinstance(found, Tested)
    return found


@pytest.mark.parametrize("kind", ["0.5", "0.1", "2:4", "block"])
@pytest.mark.parametrize("sign_free", [False, True])
def test_a_common_mask_is_no_common_origin(kind, sign_free):
    candidate, base, _ = strangers(kind, (UNITS, WIDTH), 1)
    found = judged(candidate, base, sign_free=sign_free)
    assert found.log10_p > -3
    assert {"same-zeros", "zeros-alone"} & {*found.flags}


def test_a_butterfly_ties_units_to_coordinates():
    candidate, base, _ = strangers("butterfly", (UNITS, WIDTH), 1)
    assert isinstance(unit_evidence(METHOD, (candidate, base), seed=1), Skipped)


@pytest.mark.parametrize("kind", ["2:4", "0.1"])
def test_a_common_mask_is_no_common_origin_at_the_width_of_real_models(kind):
    """At 4,096 dimensions the mask alone would be called certain: p of 10^-100 and less."""
    candidate, base, _ = strangers(kind, (256, 4096), 2)
    for sign_free in (False, True):
        found = judged(candidate, base, sign_free=sign_free)
        assert found.log10_p > -3
        assert "zeros-alone" in found.flags  # it is said where most of the agreement is


@pytest.mark.parametrize("kind", ["0.5", "0.1", "2:4", "block"])
def test_a_copy_under_a_mask_is_found_beside_the_mask(kind):
    candidate, noise, _ = strangers(kind, (UNITS, WIDTH), 3)
    found = judged(candidate, candidate + noise)
    assert found.log10_p < -20
    assert found.flags == ("same-zeros",)
    assert found.detection_limit is None  # what the mask leaves is another test, with another limit


def test_a_mask_that_a_code_did_not_keep_exactly_is_still_seen():
    candidate, base, kept = strangers("0.5", (UNITS, WIDTH), 4)
    rng = np.random.default_rng(0)
    leaks = [np.where(kept, 0.0, 0.01 * rng.normal(size=kept.shape)).astype(np.float32) for _ in range(2)]
    assert judged(candidate + leaks[0], base + leaks[1], sign_free=True).log10_p > -3


def test_zeros_in_other_places_and_zeros_of_one_model_change_nothing():
    candidate, _, _ = strangers("0.5", (UNITS, WIDTH), 5)
    _, base, _ = strangers("0.5", (UNITS, WIDTH), 6)
    assert judged(candidate, base).flags == ()
    dense = np.random.default_rng(1).normal(size=candidate.shape).astype(np.float32)
    assert judged(dense, candidate).flags == ()


def test_usual_weights_have_no_mask():
    rng = np.random.default_rng(2)
    for rows in (rng.normal(size=(64, 64)), rng.laplace(size=(64, 64)), rng.standard_t(3, size=(64, 64))):
        assert zeros_of(rows.astype(np.float32)) is None


def test_where_nothing_is_left_beside_the_mask_that_is_the_answer():
    rng = np.random.default_rng(3)
    kept = np.eye(UNITS, dtype=np.float32)[rng.permutation(UNITS)]
    rows = [kept * rng.normal(size=kept.shape).astype(np.float32) for _ in range(2)]
    found = unit_evidence(METHOD, (rows[0], rows[1]), seed=1)
    assert isinstance(found, Skipped)
    assert "zero in the same places" in str(found.reason)


def test_a_mask_with_fewer_rows_brings_no_order_of_units():
    rng = np.random.default_rng(4)
    kept = mask("0.1", (UNITS, WIDTH), rng)
    rows = [rng.normal(size=kept.shape).astype(np.float32) * kept for _ in range(2)]
    reason = _fixed_order(rows[0][: UNITS // 2], rows[1])
    assert reason is not None
    assert "mask" in str(reason)


def test_units_too_few_to_be_told_beside_the_mask_are_not_tested():
    """Even a bit-equal copy could not be found among so few: that nothing was found would mean nothing."""
    for n_units, kind in ((2 * FEWEST_PAIRS - 2, Skipped), (2 * FEWEST_PAIRS, Tested)):
        candidate, _, _ = strangers("0.5", (n_units, 1024), 7)
        found = unit_evidence(METHOD, (candidate, candidate), seed=1)
        assert isinstance(found, kind)
        assert isinstance(found, Skipped) or found.log10_p <= -6


def spotted(share, size):
    """Return weights of size one, a share of which has another size."""
    rng = np.random.default_rng(3)
    rows = rng.choice([-1.0, 1.0], size=(UNITS, WIDTH)).astype(np.float32)
    rows[rng.random(rows.shape) < share] *= size
    return rows


@pytest.mark.parametrize(
    ("share", "size", "is_mask"),
    [
        (0.04, 0.0, False),
        (0.06, 0.0, True),
        (0.15, 0.01, False),
        (0.25, 0.01, True),
        (0.25, 0.035, True),
        (0.25, 0.06, False),
    ],
)
def test_a_mask_is_a_twentieth_of_zeros_or_a_fifth_of_next_to_zeros(share, size, is_mask):
    assert (zeros_of(spotted(share, size)) is not None) == is_mask


@pytest.mark.parametrize(("z", "is_common"), [(4.0, False), (6.0, True)])
def test_masks_are_the_same_from_five_deviations_on(z, is_common, monkeypatch):
    monkeypatch.setattr("modelkin.comparison.methods.zeros.cross_z", lambda *_: np.array([[z]]))
    rows = spotted(0.3, 0.0)
    assert (common_zeros(rows, rows, seed=0, sign_free=False) is not None) == is_common
