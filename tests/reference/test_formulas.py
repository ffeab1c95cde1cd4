"""The formulas of published methods on numbers known from elsewhere."""

import math
from importlib import import_module

import numpy as np
import pytest

from modelkin.message import Message
from modelkin.reference import tails
from modelkin.reference.awm import STRANGERS_MEAN, STRANGERS_SPREAD, centred_gram, match_columns
from modelkin.reference.catalogue import load_reference_cards
from modelkin.reference.curves import correlation, stretched
from modelkin.reference.mdir import log10_trace_bound
from modelkin.reference.spectra import aligned, product_spectrum
from modelkin.stats import best_pairing

stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("t", [-3.0, 0.0, 0.5, 2.0, 30.0, 400.0])
@pytest.mark.parametrize("degrees", [3, 158, 11_006])
def test_students_tail_is_that_of_scipy(t, degrees):
    expected = stats.t.logsf(t, degrees) / math.log(10)
    if expected > -300:
        assert tails.student_log10_sf(t, degrees) == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_fishers_sum_is_that_of_scipy():
    found = [-0.3, -2.0, -1.1, -0.05]
    total = -2 * math.log(10) * sum(found)
    expected = stats.chi2.logsf(total, 8) / math.log(10)
    assert tails.fisher_log10_p(found) == pytest.approx(expected, rel=1e-9)
    assert tails.fisher_log10_p([0.0, 0.0]) == 0.0


def test_spearman_of_random_orders_is_uniform():
    rng = np.random.default_rng(1)
    found = [10 ** tails.spearman_log10_p(np.arange(80), rng.permutation(80)) for _ in range(400)]
    assert stats.kstest(found, "uniform").pvalue > 0.001


def test_spearman_is_never_below_one_over_all_orders():
    n = 12
    near = np.arange(n)
    near[:2] = 1, 0
    floor = -math.lgamma(n + 1) / math.log(10)
    assert tails.spearman_log10_p(np.arange(n), np.arange(n)) == floor
    assert tails.spearman_log10_p(np.arange(n), near) >= floor


def without_scipy(monkeypatch):
    real = import_module

    def refused(name, *rest):
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(tails, "import_module", refused)


@pytest.mark.parametrize("shape", [(30, 30), (20, 30), (30, 20)])
def test_pairs_are_the_same_with_and_without_scipy(monkeypatch, shape):
    gain = np.random.default_rng(2).standard_normal(shape)
    fast = tails.assigned(gain)
    without_scipy(monkeypatch)
    slow = tails.assigned(gain)
    np.testing.assert_array_equal(fast, slow)
    if shape[0] == shape[1]:
        np.testing.assert_array_equal(fast, best_pairing(gain))


def test_many_rows_without_scipy_are_a_reason_and_not_hours(monkeypatch):
    without_scipy(monkeypatch)
    found = tails.assigned(np.zeros((2000, 3)))
    assert isinstance(found, Message)
    assert "modelkin[bench]" in str(found)


def test_columns_are_matched_with_their_signs():
    draws = np.random.default_rng(7)
    columns = draws.standard_normal((200, 12))
    order, signs = draws.permutation(12), draws.choice([-1.0, 1.0], size=12)
    found = match_columns(columns[:, order] * signs, columns)
    assert not isinstance(found, Message)
    np.testing.assert_array_equal(found.base[np.argsort(found.candidate)], order)
    np.testing.assert_array_equal(found.signs, signs)


def ucka(first: np.ndarray, second: np.ndarray) -> float:
    """Return the unbiased CKA of two matrices whose columns are the samples."""
    return float(np.vdot(centred_gram(first), centred_gram(second)))


def test_unbiased_cka_of_independent_matrices_is_zero_on_average():
    draws = np.random.default_rng(3)
    found = [ucka(draws.standard_normal((8, 40)), draws.standard_normal((8, 40))) for _ in range(300)]
    spread = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found)) < 4 * spread
    assert spread < 0.01


def test_the_level_of_awm_is_its_weakest_child():
    assert load_reference_cards()["awm"].level == pytest.approx(STRANGERS_MEAN + 12.1 * STRANGERS_SPREAD)


@pytest.mark.parametrize("n", [6, 8, 10])
def test_the_bound_of_traces_holds_for_random_orthogonal_matrices(n):
    """As the note on MDIR claims for n = 6 to 10: never below the frequency of such a trace."""
    draws = np.random.default_rng(n)
    raw = draws.standard_normal((20_000, n, n))
    q, r = np.linalg.qr(raw)
    q = q * np.sign(np.einsum("kii->ki", r))[:, None, :]
    traces = np.einsum("kii->k", q) / n
    for share in (0.1, 0.2, 0.3, 0.4):
        frequency = float(np.mean(traces >= share))
        assert 10 ** log10_trace_bound(share, n, searched=False) >= frequency - 3 * math.sqrt(
            max(frequency, 1e-4) / 20_000
        )


def test_the_bound_needs_a_matched_share_of_six_percent_at_width_4096():
    """The published remark: below about 0.065 a search over permutations finds nothing."""
    assert log10_trace_bound(0.060, 4096, searched=True) == 0.0
    assert log10_trace_bound(0.070, 4096, searched=True) < -23


def test_spectra_of_products_are_those_of_the_products():
    draws = np.random.default_rng(4)
    first, second = (draws.standard_normal((10, 24)).astype(np.float32) for _ in range(2))
    expected = np.linalg.svd(first.T @ second, compute_uv=False)[:10]
    np.testing.assert_allclose(product_spectrum(first, second), expected, rtol=1e-4)


def test_the_path_of_layers_skips_what_was_inserted():
    distances = np.ones((3, 5))
    for mine, theirs in ((0, 0), (1, 2), (2, 4)):
        distances[mine, theirs] = 0.0
    cost, path = aligned(distances, 0.01)
    assert cost == pytest.approx(0.02)
    assert path == [(0, 0), (1, 2), (2, 4)]
    assert aligned(distances.T, 0.01)[1] == [(0, 0), (2, 1), (4, 2)]


def test_smooth_curves_of_strangers_correlate_far_too_often():
    """The known false alarm of curves: 48 points of a random walk count for far fewer."""
    draws = np.random.default_rng(5)
    walks = draws.standard_normal((2, 2000, 48)).cumsum(axis=2)
    found = np.array([correlation(a, b) or 0.0 for a, b in zip(*walks, strict=True)])
    share = float(np.mean(found > 0.7))
    assert 0.05 < share < 0.12  # 0.08 was published; independent points would give 1e-8


def test_curves_are_stretched_to_one_length():
    np.testing.assert_allclose(stretched(np.array([0.0, 1.0, 4.0]), 5), [0.0, 0.5, 1.0, 2.5, 4.0])
    assert correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0, 8.0])) == pytest.approx(1.0)
    assert correlation(np.ones(4), np.arange(4.0)) is None


def test_a_copy_has_the_distance_that_awm_publishes_for_fine_tunes():
    """About 355 in its table for SFT and RL; 12.1 for a score of 3.8 %, its weakest child."""
    assert pytest.approx(355.8, abs=0.05) == (1.0 - STRANGERS_MEAN) / STRANGERS_SPREAD
    assert pytest.approx(12.1, abs=0.2) == (0.038 - STRANGERS_MEAN) / STRANGERS_SPREAD


@pytest.mark.parametrize(("spread", "published"), [(1.0, 0.27), (2.0, 0.06)])
def test_scaled_rope_pairs_lower_awm_as_was_reported(spread, published):
    """Rows times factors a have a CKA of (sum a^2) / sqrt(n sum a^4) with the old ones; 2,048 pairs."""
    draws = np.random.default_rng(6)
    found = []
    for _ in range(40):
        factors = np.exp(spread * draws.standard_normal(2048))
        found.append(np.sum(factors**2) / math.sqrt(2048 * np.sum(factors**4)))
    assert np.quantile(found, 0.02) < published < np.quantile(found, 0.98)
    rows = draws.standard_normal((512, 128))
    factors = np.exp(draws.standard_normal(512))
    expected = np.sum(factors**2) / math.sqrt(512 * np.sum(factors**4))
    assert ucka(rows * factors[:, None], rows) == pytest.approx(expected, abs=0.05)
