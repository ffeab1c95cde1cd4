"""The exact test against all orders counted one by one, its invariances, and what it finds."""

import math
import tracemalloc
from dataclasses import replace
from itertools import permutations
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelkin.message import say
from modelkin.stats import (
    AxisOptions,
    AxisTest,
    NotTestable,
    axis_test,
    joint_features,
    log10_normal_tail,
)
from modelkin.stats.matching import order_of_matches
from modelkin.stats.ranks import normal_scores, ranks, spearman
from modelkin.stats.shifts import ShiftSums, draw_orders, permutation_part
from modelkin.stats.similarity import Similarity

QUICK = AxisOptions(n_permutations=999, n_bootstrap=199)
RAW = replace(QUICK, unit_rows=False)
Rows = npt.NDArray[Any]


def run(candidate: Rows, base: Rows, options: AxisOptions = QUICK, seed: int = 0) -> AxisTest:
    result = axis_test(candidate=candidate, base=base, exchangeable=True, seed=seed, options=options)
    assert isinstance(result, AxisTest)
    return result


def related(rng: np.random.Generator, n: int, d: int, cosine: float) -> tuple[Rows, Rows]:
    base = rng.standard_normal((n, d))
    return cosine * base + math.sqrt(1.0 - cosine**2) * rng.standard_normal((n, d)), base


def all_statistics(candidate: Rows, base: Rows, options: AxisOptions) -> Rows:
    """The trace statistic of every order, straight from its definition."""
    a, b = (np.array(rows, dtype=np.float64) for rows in (candidate, base))
    if options.unit_rows:
        a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (a, b))
    similarity = a @ b.T
    if options.sign_free:
        similarity = similarity**2
    centred = similarity - similarity.mean(0) - similarity.mean(1)[:, None] + similarity.mean()
    n = len(a)
    return np.array([sum(centred[i, order[i]] for i in range(n)) for order in permutations(range(n))])


# Against brute force ---------------------------------------------------------------------------------

LOG10_256_FACTORIAL = math.lgamma(257.0) / math.log(10.0)
MODES = [QUICK, RAW, replace(QUICK, sign_free=True), replace(QUICK, alternative="greater")]


@pytest.mark.parametrize("options", MODES, ids=["cosine", "raw", "squared", "one-sided"])
@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_mean_variance_and_p_agree_with_all_orders(n, options):
    rng = np.random.default_rng(n)
    candidate, base = related(rng, n, 3, 0.5)
    values = all_statistics(candidate, base, options)
    result = run(candidate, base, options)
    np.testing.assert_allclose(values.mean(), 0.0, atol=1e-12)
    np.testing.assert_allclose(result.statistic, values[0], rtol=1e-10)
    np.testing.assert_allclose(result.sigma, values.std(), rtol=1e-10)
    if options.alternative == "greater":
        p = np.mean(values >= values[0] - 1e-12)
    else:
        p = np.mean(np.abs(values) >= abs(values[0]) - 1e-12)
    assert result.exact
    np.testing.assert_allclose(10.0**result.log10_p_monte_carlo, p, rtol=1e-12)
    np.testing.assert_allclose(10.0**result.log10_p, p, rtol=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.floats(0.0, 1.0), st.sampled_from([1.0, 1.5, 3.0]))
def test_the_tail_bound_is_never_below_the_exact_p(seed, cosine, power):
    rng = np.random.default_rng(seed)
    candidate, base = related(rng, 6, 3, cosine)
    candidate, base = (np.sign(rows) * np.abs(rows) ** power for rows in (candidate, base))
    values = all_statistics(candidate, base, RAW)
    exact = np.mean(np.abs(values) >= abs(values[0]) - 1e-12)
    assert 10.0 ** run(candidate, base, RAW).log10_p_tail >= exact - 1e-12


def test_drawn_orders_agree_with_all_orders():
    rng = np.random.default_rng(9)
    candidate, base = related(rng, 9, 4, 0.4)
    drawn = run(candidate, base, replace(RAW, n_permutations=200_000))
    a, b = candidate - candidate.mean(0), base - base.mean(0)
    entries = a @ b.T
    orders = np.array(list(permutations(range(9))))
    values = entries[np.arange(9), orders].sum(axis=1)
    exact = np.mean(np.abs(values) >= abs(np.trace(entries)) - 1e-12)
    assert not drawn.exact
    np.testing.assert_allclose(10.0**drawn.log10_p_monte_carlo, exact, rtol=0.02)


def sums_over_shifts(similarity: Similarity, orders: Rows) -> Rows:
    entries = similarity.rows(slice(None))
    n = len(entries)
    places = (np.arange(n)[:, None] + np.arange(n)) % n
    return np.array([entries[np.arange(n)[:, None], order[places]].sum(axis=0) for order in orders])


def test_both_ways_of_summing_over_shifts_agree():
    rng = np.random.default_rng(4)
    orders = draw_orders(61, n_permutations=300, rng=rng)
    products = Similarity.of_products(*related(rng, 61, 3, 0.2))
    fourier = ShiftSums(products, orders)
    np.testing.assert_allclose(fourier.sums, sums_over_shifts(products, orders), atol=1e-10)

    squares = Similarity.of_squares(*related(rng, 61, 3, 0.2))
    blocks = ShiftSums(squares, orders)
    for start in range(0, 61, 20):
        rows = slice(start, min(start + 20, 61))
        blocks.add(rows, squares.rows(rows))
    np.testing.assert_allclose(blocks.sums, sums_over_shifts(squares, orders), atol=1e-10)


# What it finds ---------------------------------------------------------------------------------------


def test_a_copy_reaches_the_smallest_p_there_is():
    rng = np.random.default_rng(1)
    base = rng.standard_normal((256, 64)).astype(np.float32)
    result = run(base + 0.1 * rng.standard_normal(base.shape).astype(np.float32), base)
    assert result.n_matched == 256
    np.testing.assert_allclose(result.log10_p_matching, -LOG10_256_FACTORIAL)
    # Bonferroni over four parts is all that is lost.
    np.testing.assert_allclose(result.log10_p, -LOG10_256_FACTORIAL + math.log10(4.0))
    assert result.log10_p_tail == pytest.approx(-LOG10_256_FACTORIAL + math.log10(2.0))
    assert 0.98 < result.effect <= 1.0


def test_a_weak_relation_is_proved_far_below_what_drawing_can_resolve():
    candidate, base = related(np.random.default_rng(2), 512, 400, 0.03)
    result = run(candidate, base)
    assert 12.0 < result.z < 15.0
    assert result.n_matched < 12
    assert result.log10_p_monte_carlo == -math.log10(result.n_permutations + 1)
    assert result.log10_p_tail < -25.0
    assert result.log10_p < -25.0
    # The bound costs a few powers of ten against the extrapolated normal tail, and is never below it here.
    assert log10_normal_tail(result.z) < result.log10_p_tail < 0.8 * log10_normal_tail(result.z)


def test_a_copy_with_half_of_the_signs_flipped_has_the_effect_of_a_copy():
    rng = np.random.default_rng(4)
    candidate, base = related(rng, 200, 50, 0.9)
    signs = np.where(rng.random(200) < 0.5, -1.0, 1.0)[:, None]
    result, plain = run(candidate * signs, base), run(candidate, base)
    assert result.up_to_sign
    assert not plain.up_to_sign
    assert result.effect == pytest.approx(plain.effect**2, abs=0.03)
    assert result.interval.low > 0.7


def test_a_sign_flipped_copy_is_found_as_a_strong_negative():
    candidate, base = related(np.random.default_rng(3), 200, 50, 0.9)
    result = run(-candidate, base)
    assert result.z < -20.0
    assert result.effect < -0.85
    assert result.n_matched == 200
    assert result.log10_p < -300.0
    one_sided = run(-candidate, base, replace(QUICK, alternative="greater"))
    parts = (one_sided.log10_p_monte_carlo, one_sided.log10_p_tail, one_sided.log10_p_matching)
    assert parts == (0.0, 0.0, 0.0)
    assert one_sided.log10_p_extrapolated == 0.0


def test_units_with_arbitrary_signs_are_found_by_squared_cosines_only():
    rng = np.random.default_rng(4)
    candidate, base = related(rng, 200, 50, 0.8)
    flipped = candidate * rng.choice([-1.0, 1.0], 200)[:, None]
    assert abs(run(flipped, base).z) < 5.0
    assert run(flipped, base, replace(QUICK, sign_free=True)).log10_p < -100.0


def test_shared_directions_and_hubs_are_not_evidence():
    rng = np.random.default_rng(5)
    common = 5.0 * rng.standard_normal(40)
    a, b = rng.standard_normal((2, 300, 40)) + common
    assert np.mean(np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)) > 0.9
    result = run(a, b)
    assert abs(result.z) < 4.0
    assert result.log10_p > -2.0


def test_one_coinciding_outlier_fools_the_normal_tail_but_not_the_bound():
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((2, 400, 20))
    a[17] += 200.0
    b[17] += 200.0
    plain = run(a, b, RAW)
    assert plain.z > 15.0
    assert plain.log10_p_extrapolated < -50.0
    # Two outliers meet by chance once in 400 orders; no rigorous p may be much smaller.
    assert plain.log10_p > -3.5
    assert plain.log10_p_tail > -2.7
    ranked = run(a, b, replace(RAW, rank_normalise=True))
    assert abs(ranked.z) < 4.0
    assert ranked.log10_p_extrapolated > -4.0


def test_the_effect_is_the_share_of_what_is_common():
    rng = np.random.default_rng(7)
    for cosine in (0.05, 0.3, 0.9):
        candidate, base = related(rng, 400, 200, cosine)
        np.testing.assert_allclose(run(candidate, base).effect, cosine, atol=0.02)
        squared = run(candidate, base, replace(QUICK, sign_free=True))
        np.testing.assert_allclose(squared.effect, cosine**2, atol=0.03)


def test_identical_units_have_an_effect_of_one_whatever_their_common_direction():
    rng = np.random.default_rng(8)
    base = rng.standard_normal((50, 10)) + 4.0
    np.testing.assert_allclose(run(3.0 * base, base).effect, 1.0, rtol=1e-12)
    np.testing.assert_allclose(run(3.0 * base, base, RAW).effect, 1.0, rtol=1e-12)


def test_z_is_effect_over_standard_error_and_close_to_its_prediction():
    candidate, base = related(np.random.default_rng(9), 300, 100, 0.05)
    result = run(candidate, base)
    np.testing.assert_allclose(result.z, result.effect / result.standard_error, rtol=1e-12)
    np.testing.assert_allclose(result.standard_error, 1.0 / math.sqrt(300 * 100), rtol=0.05)


# Invariances -----------------------------------------------------------------------------------------


def test_reordering_both_models_together_changes_nothing_that_is_not_about_order():
    rng = np.random.default_rng(10)
    candidate, base = related(rng, 80, 30, 0.2)
    order = rng.permutation(80)
    before, after = run(candidate, base), run(candidate[order], base[order])
    for name in ("z", "effect", "n_matched", "log10_p_tail", "log10_p_matching"):
        np.testing.assert_allclose(getattr(before, name), getattr(after, name), rtol=1e-9)


def test_a_common_rotation_of_features_changes_nothing():
    rng = np.random.default_rng(11)
    candidate, base = related(rng, 80, 30, 0.2)
    rotation, _ = np.linalg.qr(rng.standard_normal((30, 30)))
    before, after = run(candidate, base), run(candidate @ rotation, base @ rotation)
    np.testing.assert_allclose([before.z, before.log10_p], [after.z, after.log10_p], rtol=1e-9)


def test_scaling_units_changes_nothing_when_they_are_scaled_to_one():
    rng = np.random.default_rng(12)
    candidate, base = related(rng, 80, 30, 0.2)
    scale = np.exp(rng.standard_normal(80))[:, None]
    np.testing.assert_allclose(run(candidate * scale, base).z, run(candidate, base).z, rtol=1e-9)


def test_candidate_and_base_can_be_swapped():
    candidate, base = related(np.random.default_rng(13), 80, 30, 0.2)
    one, other = run(candidate, base), run(base, candidate)
    np.testing.assert_allclose([one.z, one.effect], [other.z, other.effect], rtol=1e-9)


def test_the_same_seed_gives_the_same_result():
    candidate, base = related(np.random.default_rng(14), 40, 10, 0.1)
    assert run(candidate, base, seed=3) == run(candidate, base, seed=3)
    assert run(candidate, base, seed=3).seed == 3
    assert run(candidate, base, seed=3) != run(candidate, base, seed=4)


def test_half_precision_gives_the_same_answer_as_double():
    candidate, base = related(np.random.default_rng(15), 100, 30, 0.3)
    narrow = run(candidate.astype(np.float16), base.astype(np.float16))
    np.testing.assert_allclose(narrow.z, run(candidate, base).z, rtol=2e-3)


# What cannot be tested -------------------------------------------------------------------------------


def test_an_axis_with_a_meaning_is_refused():
    rows = np.eye(10)
    result = axis_test(candidate=rows, base=rows, exchangeable=False, seed=0)
    assert isinstance(result, NotTestable)
    assert "not exchangeable" in str(result)


def test_too_few_units_are_not_testable():
    rng = np.random.default_rng(16)
    result = axis_test(candidate=rng.random((3, 5)), base=rng.random((3, 5)), exchangeable=True, seed=0)
    assert isinstance(result, NotTestable)
    assert str(result.reason) == "3 usable units of 3; at least 4 are needed"


def test_zero_and_broken_units_are_left_out_and_counted():
    candidate, base = related(np.random.default_rng(17), 60, 10, 0.5)
    expected = run(candidate[3:], base[3:], RAW)
    candidate[0], base[1], candidate[2] = 0.0, 0.0, np.nan
    result = run(candidate, base, RAW)
    assert (result.n_units, result.n_excluded) == (57, 3)
    np.testing.assert_allclose(result.z, expected.z, rtol=1e-12)


def test_equal_units_are_not_testable():
    rng = np.random.default_rng(18)
    result = axis_test(candidate=np.ones((20, 5)), base=rng.random((20, 5)), exchangeable=True, seed=0)
    assert isinstance(result, NotTestable)
    assert str(result.reason) == "candidate: all units are equal"
    # Gains of one sign and one feature: scaled to norm 1, nothing is left of them.
    result = axis_test(candidate=rng.random((20, 1)), base=rng.random((20, 1)), exchangeable=True, seed=0)
    assert isinstance(result, NotTestable)
    assert str(result.reason) == "the units of one model do not differ from each other"


def test_no_field_of_a_result_is_ever_nan():
    rng = np.random.default_rng(19)
    for n in (4, 8, 9, 30):
        result = run(rng.standard_normal((n, 2)), rng.standard_normal((n, 2)))
        numbers = [getattr(result, name) for name in AxisTest.__slots__]
        assert all(math.isfinite(number) for number in numbers if isinstance(number, float))


def test_shapes_that_do_not_fit_are_refused():
    rng = np.random.default_rng(20)
    with pytest.raises(ValueError, match="base: expected 10 units"):
        axis_test(candidate=rng.random((10, 3)), base=rng.random((9, 3)), exchangeable=True, seed=0)
    with pytest.raises(ValueError, match="base: expected 3 features"):
        axis_test(candidate=rng.random((10, 3)), base=rng.random((10, 4)), exchangeable=True, seed=0)
    with pytest.raises(ValueError, match="candidate: expected a matrix"):
        axis_test(candidate=rng.random(10), base=rng.random((10, 4)), exchangeable=True, seed=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alternative": "less"}, "alternative: expected one of"),
        ({"sign_free": True, "unit_rows": False}, "sign_free: expected unit_rows"),
        ({"n_permutations": 5}, "expected at least 99"),
        ({"level": 1.0}, "level: expected a share"),
    ],
)
def test_wrong_options_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        AxisOptions(**wrong)


def test_the_repr_is_short():
    candidate, base = related(np.random.default_rng(21), 40, 10, 0.1)
    assert len(repr(run(candidate, base))) < 120


# Order -----------------------------------------------------------------------------------------------


def test_the_order_statistic_has_its_exact_variance_even_with_hubs():
    places = np.array([2, 2, 0, 5, 5, 5, 1])
    rng = np.random.default_rng(0)
    result = order_of_matches(places, 6, n_permutations=999, rng=rng)
    at = np.arange(7) - 3.0
    values = np.array([at @ np.array(order)[places] for order in permutations(range(6))])
    np.testing.assert_allclose(result.z, (at @ places) / values.std(), rtol=1e-12)
    np.testing.assert_allclose(result.rho, np.corrcoef(np.arange(7), places)[0, 1], rtol=1e-12)
    np.testing.assert_allclose(10.0**result.log10_p, np.mean(values >= at @ places - 1e-9))


def test_one_hub_for_all_says_nothing_about_order():
    result = order_of_matches(
        np.zeros(20, dtype=np.intp), 20, n_permutations=999, rng=np.random.default_rng(0)
    )
    assert (result.rho, result.z, result.log10_p) == (0.0, 0.0, 0.0)


# Joint features --------------------------------------------------------------------------------------


def joint(candidate: Any, base: Any, rank_normalise: bool = True) -> Any:
    features = joint_features(candidate=candidate, base=base, rank_normalise=rank_normalise)
    assert not isinstance(features, NotTestable)
    return features


def test_the_effect_of_joint_features_is_the_mean_correlation():
    rng = np.random.default_rng(25)
    base = 1.0 + 0.1 * rng.standard_normal((5, 300))
    candidate = 2.0 + base + 0.2 * rng.standard_normal((5, 300))
    features = joint(candidate, base, rank_normalise=False)
    mean = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(candidate, base, strict=True)])
    np.testing.assert_allclose(run(features.candidate, features.base, RAW).effect, mean, rtol=1e-9)


def test_constant_gains_are_skipped_with_a_reason():
    rng = np.random.default_rng(26)
    varied = rng.random((3, 20))
    features = joint([varied[0], np.ones(20), varied[1]], varied)
    assert features.used == (0, 2)
    assert [(k, str(reason)) for k, reason in features.skipped] == [
        (1, "candidate: all values are equal (1)")
    ]
    nothing = joint_features(candidate=[np.ones(20)], base=[varied[0]])
    assert isinstance(nothing, NotTestable)
    assert str(nothing.reason) == "candidate: all values are equal (1)"
    broken = joint_features(candidate=[varied[1]], base=[np.full(20, np.inf)])
    assert isinstance(broken, NotTestable)
    assert str(broken.reason) == "base: not all values are finite"
    assert joint_features(candidate=[], base=[]) == NotTestable(reason=say("no-vectors"))


def test_joint_features_must_fit():
    with pytest.raises(ValueError, match="base: expected 1 vectors"):
        joint_features(candidate=[np.arange(4.0)], base=[])
    with pytest.raises(ValueError, match="vectors 0: expected one length"):
        joint_features(candidate=[np.arange(4.0)], base=[np.arange(5.0)])


def test_normal_scores_keep_order_and_share_ties():
    np.testing.assert_array_equal(ranks(np.array([3.0, 1.0, 3.0, 7.0])), [2.5, 1.0, 2.5, 4.0])
    scores = normal_scores(np.array([[3.0, 5.0], [1.0, 5.0], [3.0, 5.0], [1e9, 5.0]]))
    assert scores[1, 0] < scores[0, 0] == scores[2, 0] < scores[3, 0]
    np.testing.assert_allclose([scores[:, 0].mean(), scores[:, 0].std()], [0.0, 1.0], atol=1e-12)
    assert (scores[:, 1] == 0.0).all()
    np.testing.assert_allclose(
        spearman(np.array([1.0, 2, 2, 5, 3]), np.array([2.0, 2, 1, 9, 4])), 0.7631578947368421
    )


def test_the_observed_order_counts_even_if_rounding_would_lose_it():
    sums = np.array([[1.0 - 1e-12, 0.0, 0.5, -2.0]])
    part = permutation_part(sums, statistic=1.0, tolerance=0.0, alternative="greater")
    assert 10.0**part.log10_p == pytest.approx(1 / 4)
    part = permutation_part(sums, statistic=1.0, tolerance=0.0, alternative="two-sided")
    assert 10.0**part.log10_p == pytest.approx(2 / 4)


def test_brain_floats_and_infinities_are_taken_as_they_are():
    candidate, base = related(np.random.default_rng(30), 50, 12, 0.5)
    narrow = candidate.astype(ml_dtypes.bfloat16), base.astype(ml_dtypes.bfloat16)
    np.testing.assert_allclose(run(*narrow).z, run(candidate, base).z, rtol=2e-2)
    candidate[4, 2], base[9, 1] = np.inf, -np.inf
    assert run(candidate, base).n_excluded == 2


def test_memory_does_not_grow_with_the_square_of_the_units():
    rng = np.random.default_rng(31)
    candidate, base = rng.standard_normal((2, 6000, 4)).astype(np.float32)
    tracemalloc.start()
    run(candidate, base)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The similarity itself would take 144 MB.
    assert peak < 80e6
