"""The published measurements of the dispute, as far as they can be fed without weights.

Each test is one of the cases on which public analyses went wrong, with the expected answer.
"""

import math

import numpy as np
import pytest

from modelkin.comparison.methods import Effect, Likeness, Tested, count_equal
from modelkin.comparison.verdict import Conclusion, decide, load_rule
from modelkin.message import say
from modelkin.stats import AxisOptions, NotTestable, axis_test, cosine_decomposition, joint_features


def vectors(*, rho, pearson, n=4096, seed=0):
    """Make two vectors with given mean-direction fractions and an exact correlation."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    a = (a - a.mean()) / a.std()
    b = rng.normal(size=n)
    b = b - b.mean() - a * (a @ b) / n
    b = b / b.std()
    mixed = pearson * a + math.sqrt(1 - pearson**2) * b
    return tuple(
        rho_side + math.sqrt(1 - rho_side**2) * values
        for rho_side, values in zip(rho, (a, mixed), strict=True)
    )


def verdict_of(*tests):
    return decide(list(tests), load_rule(), candidate="B", base="A", stage="standard")


def evidence(component, *, z, log10_p, effect, half_width, matched=1, n=4096):
    return Tested(
        method="m",
        version="1",
        component=component,
        axis="residual",
        null=say("null-residual"),
        z=z,
        log10_p=log10_p,
        effect=Effect(value=effect, low=effect - half_width, high=effect + half_width),
        n=n,
        n_matched=matched,
        detection_limit=0.02,
        statistic=1.0,
    )


@pytest.mark.parametrize(
    ("case", "product", "pearson", "cosine"),
    [
        ("V1 input norms", 0.9492, 0.0126, 0.949),
        ("V2 post-attention norms", 0.98651, -0.0019, 0.986),
        ("V9 layer 0 against layer 0", 0.139, -0.013, 0.127),
        ("V10 random gains of 1 ± 0.01", 0.9999, 0.0, 0.9999),
    ],
)
def test_the_published_cosines_are_explained_by_the_mean_direction(case, product, pearson, cosine):
    rho = math.sqrt(product)
    a, b = vectors(rho=(rho, rho), pearson=pearson)
    parts = cosine_decomposition(candidate=a, base=b)
    assert parts.cosine == pytest.approx(cosine, abs=2e-3)
    assert parts.mean_direction_part == pytest.approx(product, abs=1e-6)
    joint = joint_features(candidate=[a], base=[b])
    assert not isinstance(joint, NotTestable)
    found = axis_test(
        candidate=joint.candidate,
        base=joint.base,
        exchangeable=True,
        seed=0,
        options=AxisOptions(unit_rows=False, n_permutations=999),
    )
    assert not isinstance(found, NotTestable)
    assert found.log10_p > -2, case


def test_v3_a_naive_z_of_2_9_on_four_million_values_is_no_evidence():
    assert (
        verdict_of(evidence("attention", z=2.9, log10_p=-2.4, effect=0.001, half_width=0.0009)).conclusion
        is Conclusion.NO_EVIDENCE
    )


def test_v4_a_significant_but_negligible_router_is_no_evidence():
    assert (
        verdict_of(evidence("router", z=5.9, log10_p=-8.7, effect=0.0037, half_width=0.003)).conclusion
        is Conclusion.NO_EVIDENCE
    )


def test_v5_embedding_rows_with_mean_cosine_of_a_thousandth_are_independent():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 256, 128))
    found = axis_test(candidate=a, base=b, exchangeable=True, seed=0, options=AxisOptions(n_permutations=999))
    assert not isinstance(found, NotTestable)
    assert abs(found.effect) < 0.02
    assert found.log10_p > -2


def test_v6_changes_of_one_step_of_the_format_are_counted_and_are_no_stranger():
    rng = np.random.default_rng(2)
    gains = (1 + 0.1 * rng.normal(size=4096)).astype(np.float32)
    bits = gains.view(np.uint32) & np.uint32(0xFFFF0000)
    moved = bits + np.where(rng.random(4096) < 0.4, np.uint32(1 << 16), np.uint32(0))
    a, b = bits.view(np.float32), moved.view(np.float32)
    count = count_equal([a], [b], dtypes=("BF16", "BF16"))
    assert count.n_within_1_ulp == 4096
    assert 0.5 < count.n_equal / 4096 < 0.7
    joint = joint_features(candidate=[a], base=[b])
    assert not isinstance(joint, NotTestable)
    found = axis_test(
        candidate=joint.candidate,
        base=joint.base,
        exchangeable=True,
        seed=0,
        options=AxisOptions(unit_rows=False),
    )
    assert not isinstance(found, NotTestable)
    assert found.log10_p < -100


def test_v7_a_cosine_of_1_00_alone_says_nothing():
    measure = Likeness(
        method="same-names",
        version="1",
        component="unknown",
        axis="none",
        null=say("null-none"),
        n=4096,
        share_equal=0.0,
        cosine=1.0,
    )
    assert verdict_of(measure).conclusion is Conclusion.NOT_TESTABLE


def test_v8_layers_of_one_model_correlate_so_they_are_permuted_together():
    rng = np.random.default_rng(3)
    common = rng.normal(size=(2, 512, 1))
    a, b = (side + rng.normal(size=(512, 46)) for side in common)  # layers of one model correlate by 0.5
    joint = joint_features(candidate=list(a.T), base=list(b.T))
    assert not isinstance(joint, NotTestable)
    found = axis_test(
        candidate=joint.candidate,
        base=joint.base,
        exchangeable=True,
        seed=0,
        options=AxisOptions(unit_rows=False, n_permutations=999),
    )
    assert not isinstance(found, NotTestable)
    naive = np.mean([np.corrcoef(x, y)[0, 1] for x, y in zip(a.T, b.T, strict=True)]) * math.sqrt(46 * 512)
    assert abs(found.z) < abs(naive) or abs(naive) < 3
    assert found.log10_p > -3


def test_v12_no_equal_byte_is_neutral():
    rng = np.random.default_rng(4)
    count = count_equal([rng.normal(size=320)], [rng.normal(size=320)], dtypes=("F32", "F32"))
    assert count.n_equal == 0
    assert not count.all_equal
    shared = evidence("mlp", z=60.0, log10_p=-200.0, effect=0.4, half_width=0.02, matched=200)
    assert verdict_of(shared).conclusion is Conclusion.SHARED
