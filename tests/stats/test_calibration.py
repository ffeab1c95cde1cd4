"""Under true nulls the tests reject no more often than they say, and guards catch nulls that are not."""

import math

import numpy as np
import pytest
from tests.stats.nulls import NULLS, QUICK, Pair, Rows, dependent_layers, shared_dictionary

from modelkin.stats import (
    AxisOptions,
    AxisTest,
    DetectionLimit,
    NotTestable,
    axis_test,
    detection_limit,
    joint_features,
    needed_z,
)

PAIRS = 150


def most(n: int, p: float) -> int:
    """A binomial count of n at probability p exceeds this only once in a million."""
    chances = [math.comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(n + 1)]
    tail = np.cumsum(chances[::-1])[::-1]
    return int(np.argmax(tail < 1e-6)) - 1


def run(candidate: Rows, base: Rows, options: AxisOptions = QUICK, seed: int = 0) -> AxisTest:
    result = axis_test(candidate=candidate, base=base, exchangeable=True, seed=seed, options=options)
    assert isinstance(result, AxisTest)
    return result


@pytest.mark.parametrize("name", NULLS)
def test_unrelated_pairs_are_rejected_at_most_at_the_nominal_rate(name):
    results = NULLS[name].tests(PAIRS, seed=2)
    drawn = np.array([result.log10_p_monte_carlo for result in results])
    used = np.array([result.log10_p for result in results])
    bound = np.array([result.log10_p_tail for result in results])
    matched = np.array([result.n_matched for result in results])
    for alpha in (0.5, 0.1, 0.05, 0.01):
        for logs in (drawn, used, bound):
            assert np.sum(logs <= math.log10(alpha)) <= most(PAIRS, alpha)
    for k in (2, 3, 4, 5):
        assert np.sum(matched >= k) <= most(PAIRS, 1.0 / math.factorial(k))


def test_monte_carlo_p_values_are_uniform():
    p = np.sort([10.0**result.log10_p_monte_carlo for result in NULLS["normal"].tests(400, seed=3)])
    distance = np.max(np.abs(p - (np.arange(400) + 0.5) / 400))
    # Chance below one in a million by the bound of Dvoretzky, Kiefer, Wolfowitz and Massart.
    assert distance < math.sqrt(math.log(2e6) / 800)


def test_dependent_layers_do_not_become_significant():
    rng = np.random.default_rng(4)
    naive, joint = [], []
    for _ in range(120):
        candidate, base = dependent_layers(rng)
        n_units, n_layers = base.shape
        correlations = [np.corrcoef(candidate[:, k], base[:, k])[0, 1] for k in range(n_layers)]
        naive.append(np.mean(correlations) * math.sqrt(n_layers * n_units))
        joint.append(run(candidate, base, NULLS["46 dependent layers, joint"].options).z)
    assert np.std(naive) > 2.0, "layers taken as independent: far too many large z"
    assert 0.75 < np.std(joint) < 1.3


def test_the_published_mean_correlation_of_dependent_layers_is_not_evidence():
    # Mean r of 0.013 over 46 layers and 4096 dimensions: z = 5.5 if the layers were independent.
    rng = np.random.default_rng(5)

    def gains() -> list[Rows]:
        own = rng.standard_normal((46, 4096))
        return list(1.0 + 0.1 * (math.sqrt(0.8) * rng.standard_normal(4096) + math.sqrt(0.2) * own))

    candidate, base = gains(), gains()
    # Mix in just so much of the base that the mean correlation is the published one.
    gap = 0.0126 - np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(candidate, base, strict=True)])
    candidate = [a + gap * (b - 1.0) for a, b in zip(candidate, base, strict=True)]
    mean = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(candidate, base, strict=True)])
    np.testing.assert_allclose(mean, 0.0126, atol=5e-4)
    assert mean * math.sqrt(46 * 4096) > 5.0
    features = joint_features(candidate=candidate, base=base)
    assert not isinstance(features, NotTestable)
    options = AxisOptions(unit_rows=False, n_permutations=9_999, n_bootstrap=99)
    result = run(features.candidate, features.base, options)
    assert abs(result.z) < 2.0
    assert result.log10_p > -1.0


# Guards ----------------------------------------------------------------------------------------------


def repeated(
    rng: np.random.Generator, blocks: int = 8, n: int = 128, d: int = 24, noise: float = 0.3
) -> Rows:
    """Units initialised alike in each of several blocks, as by one seed per device, then trained a little."""
    return np.tile(rng.standard_normal((n // blocks, d)), (blocks, 1)) + noise * rng.standard_normal((n, d))


def test_repeated_initialisation_is_caught():
    rng = np.random.default_rng(6)
    results = [run(repeated(rng), repeated(rng)) for _ in range(60)]
    assert np.std([result.z for result in results]) > 2.0
    assert np.std([result.z_deflated for result in results]) < 1.4
    assert all("duplicated-blocks" in result.flags for result in results)
    assert sum("shift-dispersion" in result.flags for result in results) > 50
    assert sum(result.log10_p <= -2.0 for result in results) <= most(60, 0.01)


def test_repeats_in_one_model_only_are_harmless():
    rng = np.random.default_rng(7)
    results = [run(repeated(rng), rng.standard_normal((128, 24))) for _ in range(60)]
    assert not any("duplicated-blocks" in result.flags for result in results)
    assert np.std([result.z for result in results]) < 1.4


def test_units_sorted_in_both_models_are_refused_a_p_value():
    rng = np.random.default_rng(8)
    direction = rng.standard_normal(24)

    def model(is_sorted: bool) -> Rows:
        size = rng.standard_exponential(128)
        if is_sorted:
            size = np.sort(size)
        return size[:, None] * direction + 0.3 * rng.standard_normal((128, 24))

    both = run(model(True), model(True))
    assert both.z > 5.0
    assert "sorted" in both.flags
    assert both.log10_p == 0.0
    one = run(model(True), model(False))
    assert "sorted" not in one.flags


def test_guards_stay_silent_for_relatives_and_for_strangers():
    rng = np.random.default_rng(9)
    flagged = 0
    for k in range(80):
        candidate, base = shared_dictionary(rng)
        if k % 2:
            candidate = base + 0.5 * rng.standard_normal(base.shape)
        flagged += bool(run(candidate, base).flags)
    assert flagged <= 1


# Power -----------------------------------------------------------------------------------------------


def planted(rng: np.random.Generator, n: int, d: int, cosine: float) -> Pair:
    base = rng.standard_normal((n, d))
    return cosine * base + math.sqrt(1.0 - cosine**2) * rng.standard_normal((n, d)), base


def test_the_detection_limit_is_where_the_power_is():
    rng = np.random.default_rng(10)
    n, d, runs = 96, 24, 150
    limit = detection_limit(n_units=n, standard_error=1.0 / math.sqrt(n * d), log10_alpha=-6.0, power=0.9)
    assert isinstance(limit, DetectionLimit)
    found = np.sum([run(*planted(rng, n, d, limit.effect)).log10_p <= -6.0 for _ in range(runs)])
    # 0.9 is planned; the noise of a row's cosine is not quite that of the null.
    assert 0.75 * runs < found <= runs
    found = np.sum([run(*planted(rng, n, d, 0.6 * limit.effect)).log10_p <= -6.0 for _ in range(runs)])
    assert found < 0.2 * runs


def test_the_detection_limit_of_a_test_uses_its_own_noise():
    rng = np.random.default_rng(11)
    result = run(*shared_dictionary(rng))
    limit = detection_limit(n_units=result.n_units, standard_error=result.standard_error)
    assert isinstance(limit, DetectionLimit)
    assert limit.effect == pytest.approx(limit.z * result.standard_error)
    # Shared features make the null wider than independent entries would.
    assert result.standard_error > 1.05 / math.sqrt(96 * 24)
    few, many = (needed_z(n_units=n, log10_alpha=-6.0) for n in (64, 4096))
    assert isinstance(few, float)
    assert isinstance(many, float)
    assert 5.5 < many < few < 6.5


def test_too_few_units_for_a_threshold_have_no_detection_limit():
    limit = detection_limit(n_units=8, standard_error=0.1)
    assert str(limit) == "not testable: 8 units have too few orders for p < 10^-6"


def test_nonsense_has_no_power():
    with pytest.raises(ValueError, match="standard_error: expected a positive number"):
        detection_limit(n_units=100, standard_error=0.0)
    with pytest.raises(ValueError, match="power: expected a chance"):
        detection_limit(n_units=100, standard_error=0.1, power=1.0)
    with pytest.raises(ValueError, match="log10_alpha: expected a finite number below 0"):
        needed_z(n_units=100, log10_alpha=0.5)


def test_the_interval_holds_the_true_effect():
    rng = np.random.default_rng(12)
    options = AxisOptions(n_permutations=99, n_bootstrap=999, level=0.95)
    held = sum(0.2 in run(*planted(rng, 96, 24, 0.2), options).interval for _ in range(150))
    assert held >= 150 - most(150, 0.08), "a bootstrap of 96 units is slightly narrow"
