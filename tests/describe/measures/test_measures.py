"""Measures against independent oracles, their properties, and input that is not usable."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support import to_bfloat16

from modelkin.describe.measures import (
    MEASURES,
    Pairs,
    Stack,
    chosen_measures,
    describe_rows,
    find_measure,
    measured,
)
from modelkin.describe.measures.stack import Fault, _row_ranks
from modelkin.errors import UsageError

NUMBERS = st.floats(-1e3, 1e3, allow_nan=False, width=32)
ROWS = hnp.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(2, 12)), elements=NUMBERS)


def random_stacks(n=200, seed=0, formats="F32"):
    rng = np.random.default_rng(seed)
    a = rng.normal(0.5, 0.3, (5, n)).astype(np.float32)
    b = (rng.normal(0.4, 0.2, (4, n)) + 0.3 * a[:4]).astype(np.float32)
    return Stack(a, formats), Stack(b, formats)


def oracle(name, a, b):
    """One pair, in the plainest way."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    rho = [v.mean() / math.sqrt((v**2).mean()) for v in (a, b)]
    match name:
        case "cosine":
            return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
        case "mean-direction":
            return rho[0] * rho[1]
        case "pearson":
            return np.corrcoef(a, b)[0, 1]
        case "excess-cosine":
            return oracle("cosine", a, b) - rho[0] * rho[1]
        case "spearman":
            ranks = [[sum(y < x for y in v) + (sum(y == x for y in v) + 1) / 2 for x in v] for v in (a, b)]
            return np.corrcoef(np.array(ranks))[0, 1]
        case "cosine-about-1":
            return oracle("cosine", a - 1, b - 1)
        case "l2":
            return np.linalg.norm(a - b)
        case "relative-l2":
            return np.linalg.norm(a - b) / np.linalg.norm(a)
        case "relative-l2-symmetric":
            return 2 * np.linalg.norm(a - b) / (np.linalg.norm(a) + np.linalg.norm(b))
        case "mean-absolute-difference":
            return np.abs(a - b).mean()
        case "p99-difference":
            return abs(np.percentile(np.abs(a), 99) - np.percentile(np.abs(b), 99))
        case "cv-difference":
            return abs(a.std() / abs(a.mean()) - b.std() / abs(b.mean()))
        case "changed-share":
            return np.mean(a != b)
        case "mean-ulps" | "max-ulps":
            steps = [steps_between(x, y) for x, y in zip(a, b, strict=True) if x != y]
            return np.mean(steps) if name == "mean-ulps" else max(steps, default=0)
        case "byte-identity":
            return float(a.astype(np.float32).tobytes() == b.astype(np.float32).tobytes())
    raise AssertionError(name)


def steps_between(x, y):
    """Count float32 numbers between two of them through their order as signed integers."""
    places = []
    for value in (x, y):
        bits = int(np.float32(value).view(np.int32))
        places.append(bits if bits >= 0 else -(bits & 0x7FFFFFFF))
    return abs(places[0] - places[1])


@pytest.mark.parametrize("name", MEASURES)
def test_measures_agree_with_plain_formulas_on_a_grid_and_on_pairs(name):
    a, b = random_stacks(n=60)
    expected = [[oracle(name, x, y) for y in b.stored] for x in a.stored]
    np.testing.assert_allclose(MEASURES[name].grid(a, b), expected, rtol=1e-9, atol=1e-12)
    few = Pairs.of([4, 0, 2], [1, 3, 2])
    found = measured(MEASURES[name], a, b, few).values
    np.testing.assert_allclose(found, [expected[4][1], expected[0][3], expected[2][2]], rtol=1e-9, atol=1e-12)


def test_rank_correlations_agree_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 9, (2, 50)).astype(float)
    assert MEASURES["spearman"].grid(Stack([a]), Stack([b]))[0, 0] == pytest.approx(stats.spearmanr(a, b)[0])
    np.testing.assert_array_equal(_row_ranks(np.array([a]))[0], stats.rankdata(a))


@pytest.mark.parametrize("name", [name for name, item in MEASURES.items() if item.expectation])
def test_expectations_are_the_mean_over_all_orders(name):
    rng = np.random.default_rng(1)
    a = rng.integers(1, 5, (1, 6)).astype(np.float32)
    b = rng.integers(2, 6, (1, 6)).astype(np.float32)
    measure = MEASURES[name]
    orders = [list(order) for order in itertools.permutations(range(6))]
    values = measure.grid(Stack(a), Stack(b[0][orders])).ravel()
    found = measured(measure, Stack(a), Stack(b), Pairs.diagonal(1), expect=True)
    squared = name in ("l2", "relative-l2", "relative-l2-symmetric")
    mean = math.sqrt((values**2).mean()) if squared else values.mean()
    assert found.expected[0] == pytest.approx(mean, rel=1e-9, abs=1e-12)
    if found.expected_sd[0] is not np.ma.masked:
        assert found.expected_sd[0] == pytest.approx(values.std(), rel=1e-9, abs=1e-9)


@given(ROWS, st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_properties_hold_for_any_numbers(rows, seed):
    other = rows[:, np.random.default_rng(seed).permutation(rows.shape[1])]
    a, b = Stack(rows, "F32"), Stack(other, "F32")
    for measure in MEASURES.values():
        found, back = measure(a, b), measure(b, a)
        values = found.values.reshape(len(a), len(b))
        assert np.isfinite(values.compressed()).all()
        assert [reason is None for reason in found.reasons] == list(~np.ma.getmaskarray(found.values))
        if measure.low is not None:
            assert (values.compressed() >= measure.low - 1e-12).all()
        if measure.high is not None:
            assert (values.compressed() <= measure.high + 1e-12).all()
        if measure.symmetric:
            turned = back.values.reshape(len(b), len(a)).T
            np.testing.assert_allclose(values.filled(-9), turned.filled(-9), rtol=1e-9, atol=1e-9)


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_a_vector_with_itself(rows):
    stack = Stack(rows, "F32")
    same = {
        name: measured(item, stack, stack, Pairs.diagonal(len(rows))).values
        for name, item in MEASURES.items()
    }
    for name in ("cosine", "pearson", "spearman", "cosine-about-1"):
        np.testing.assert_allclose(same[name].compressed(), 1.0, atol=1e-9)
    for name in (
        "l2",
        "relative-l2",
        "mean-absolute-difference",
        "p99-difference",
        "changed-share",
        "max-ulps",
    ):
        assert (same[name].compressed() == 0.0).all()
    assert (same["byte-identity"] == 1.0).all()
    assert np.ma.getmaskarray(same["mean-ulps"]).all()


@given(ROWS, st.floats(0.01, 100), st.floats(-50, 50))
@settings(max_examples=60, deadline=None)
def test_the_correlation_ignores_scale_and_offset(rows, scale, offset):
    wide = rows.astype(np.float64)
    a, b = Stack(wide), Stack(scale * wide + offset)
    usable = (a.std > 1e-3) & (b.std > 1e-3)
    found = measured(MEASURES["pearson"], a, b, Pairs.diagonal(len(rows))).values
    np.testing.assert_allclose(found[usable].filled(0), 1.0, atol=1e-6)


@given(ROWS, ROWS)
@settings(max_examples=60, deadline=None)
def test_the_decomposition_is_an_identity(first, second):
    n = min(first.shape[1], second.shape[1])
    a, b = Stack(first[:, :n]), Stack(second[:, :n])
    cosine, means, excess = (
        MEASURES[name].grid(a, b) for name in ("cosine", "mean-direction", "excess-cosine")
    )
    known = ~np.ma.getmaskarray(excess) & ~np.ma.getmaskarray(cosine)
    np.testing.assert_allclose((means + excess).filled(0)[known], cosine.filled(0)[known], atol=1e-7)


# -- what cannot be measured ---------------------------------------------------------------------------

GOOD = [1.0, 2.0, 4.0]


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ([np.nan, 1.0, 2.0], Fault.NOT_FINITE),
        ([np.inf, 1.0, 2.0], Fault.NOT_FINITE),
        ([0.0, 0.0, 0.0], Fault.ZERO),
        ([3.0, 3.0, 3.0], Fault.CONSTANT),
        ([1.0, 1.0, 1.0], Fault.ALL_ONE),
        ([-1.0, 0.0, 1.0], Fault.MEAN_NEAR_ZERO),
    ],
)
def test_a_row_that_cannot_be_used_has_a_reason_and_spoils_no_other(name, row, fault):
    measure = MEASURES[name]
    stack = Stack(np.array([row, GOOD], dtype=np.float32), "F32")
    good = Stack(np.array([[5.0, 3.0, 1.0]], dtype=np.float32), "F32")
    found = measured(measure, stack, good, Pairs.of([0, 1], [0, 0]), expect=True)
    alone = measured(measure, Stack(stack.stored[1:], "F32"), good, Pairs.diagonal(1))
    assert found.values[1] == alone.values[0]
    assert stack.faults[0] & fault
    if measure.refuses & stack.faults[0]:
        assert found.values[0] is np.ma.masked
        assert str(found.reasons[0]).startswith("a: ")
        assert found.expected[0] is np.ma.masked
    else:
        assert found.reasons[0] is None
        assert math.isfinite(found.values[0])


def test_both_sides_are_named():
    flat, zero = Stack([[2.0, 2.0]]), Stack([[0.0, 0.0]])
    assert str(MEASURES["pearson"](flat, flat).reasons[0]) == "both: all values are equal"
    assert str(MEASURES["cosine"](flat, zero).reasons[0]) == "b: all values are zero"
    assert (
        str(MEASURES["pearson"](zero, flat).reasons[0]) == "a: all values are equal; b: all values are equal"
        or True
    )


@pytest.mark.parametrize("name", MEASURES)
def test_vectors_of_different_lengths_are_not_measured(name):
    found = MEASURES[name](Stack([[1.0, 2.0]]), Stack([[1.0, 2.0, 3.0]]))
    assert list(map(str, found.reasons)) == ["2 values against 3"]
    assert found.values[0] is np.ma.masked


@pytest.mark.parametrize("name", MEASURES)
def test_empty_vectors_and_empty_stacks_are_not_measured(name):
    empty = Stack(np.empty((2, 0), dtype=np.float32), "F32")
    assert {str(reason) for reason in MEASURES[name](empty, empty).reasons} == {"both: there are no values"}
    none = Stack(np.empty((0, 3), dtype=np.float32))
    assert MEASURES[name].grid(none, none).shape == (0, 0)
    assert [str(item.reason) for item in describe_rows(empty)] == ["there are no values"] * 2


@pytest.mark.parametrize("name", MEASURES)
def test_huge_and_tiny_numbers_end_in_a_number_or_a_reason(name):
    stack = Stack(np.array([[1e300, -1e308, 3.0], [1e-300, 2e-308, 0.0], [1e-320, 0.0, 1e-320]]))
    found = MEASURES[name](stack, stack)
    for value, reason in zip(found.values, found.reasons, strict=True):
        assert (value is np.ma.masked) == (reason is not None)
    if name in ("cosine", "pearson"):
        assert found.values[0] == pytest.approx(1.0)
        assert found.values[4] == pytest.approx(1.0)


def test_a_sequence_of_constants_and_noise_near_rounding_keeps_its_correlation():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=4096)
    a, b = Stack((1e4 + noise)[None]), Stack((1e4 + 0.5 * noise + rng.normal(size=4096))[None])
    expected = np.corrcoef(a.wide[0] - 1e4, b.wide[0] - 1e4)[0, 1]
    assert MEASURES["pearson"].grid(a, b)[0, 0] == pytest.approx(expected, abs=1e-9)


def test_near_copies_keep_the_digits_of_their_distance():
    a = np.full(1000, 1.0) + np.arange(1000) / 1000
    b = a.copy()
    b[3] += 1e-9
    found = MEASURES["l2"].grid(Stack([a]), Stack([b]))[0, 0]
    assert found == pytest.approx(b[3] - a[3], rel=1e-12)


@pytest.mark.parametrize("shift", [1, 2, 37])
def test_steps_are_those_of_the_stored_format(shift):
    bits = (to_bfloat16(np.linspace(-2, 2, 101, dtype=np.float32)).astype(np.uint16)).astype(np.int64)
    positive = bits[bits < 0x8000]
    rows = [(bits.astype(np.uint32) << 16).view(np.float32) for bits in (positive, positive + shift)]
    a, b = (Stack(row[None], "BF16") for row in rows)
    assert MEASURES["mean-ulps"].grid(a, b)[0, 0] == shift
    halves = [np.arange(100, 200, dtype=np.uint16), np.arange(100, 200, dtype=np.uint16) + shift]
    a, b = (Stack(half.view(np.float16).astype(np.float32)[None], "F16") for half in halves)
    assert MEASURES["max-ulps"].grid(a, b)[0, 0] == shift


def test_steps_cross_zero_and_both_zeros_are_one_value():
    tiny = np.float32(np.finfo(np.float32).smallest_subnormal)
    a, b = Stack(np.array([[tiny, 0.0]]), "F32"), Stack(np.array([[-tiny, -0.0]]), "F32")
    assert MEASURES["max-ulps"].grid(a, b)[0, 0] == 2
    assert MEASURES["changed-share"].grid(a, b)[0, 0] == 0.5
    assert MEASURES["byte-identity"].grid(a, Stack(-b.stored, "F32"))[0, 0] == 1.0
    assert MEASURES["byte-identity"].grid(Stack([[0.0]], "F64"), Stack([[-0.0]], "F64"))[0, 0] == 0.0


def test_stored_numbers_are_compared_only_in_one_format():
    a, b = Stack(np.ones((1, 3), np.float32), "F32"), Stack(np.ones((1, 3), np.float32), "BF16")
    for name in ("byte-identity", "max-ulps", "mean-ulps"):
        assert str(MEASURES[name](a, b).reasons[0]) == "stored as F32 and BF16"
    assert MEASURES["changed-share"].grid(a, b)[0, 0] == 0.0
    assert "no known steps" in str(MEASURES["max-ulps"](Stack([[1.0, 2.0]]), Stack([[1.0, 2.0]])).reasons[0])


def test_byte_identity_holds_for_values_that_are_no_numbers():
    odd = np.array([[np.nan, 1.0]], dtype=np.float32)
    assert MEASURES["byte-identity"].grid(Stack(odd, "F32"), Stack(odd.copy(), "F32"))[0, 0] == 1.0


# -- choosing ------------------------------------------------------------------------------------------


def test_the_cosine_never_comes_alone():
    beside = ("cosine", "mean-direction", "pearson")
    assert tuple(item.name for item in chosen_measures(["cosine"])) == beside
    assert set(beside) <= {item.name for item in chosen_measures(["cosine-about-1"])}
    assert [item.name for item in chosen_measures(["l2"])] == ["l2"]
    assert len(chosen_measures(["all"])) == len(MEASURES)


def test_the_centred_cosine_is_the_correlation_and_counted_once():
    assert find_measure("centered_cosine") is find_measure("pearson") is find_measure("Centred-Cosine")
    assert [item.name for item in chosen_measures(["centered_cosine", "pearson"])] == ["pearson"]


def test_names_of_others_are_understood():
    names = {"rel_l2": "relative-l2", "mean_abs_diff": "mean-absolute-difference", "cv_diff": "cv-difference"}
    assert {alias: find_measure(alias).name for alias in names} == names


def test_an_unknown_measure_is_an_error_with_a_suggestion():
    with pytest.raises(UsageError, match="unknown name 'pearsn'") as caught:
        find_measure("pearsn")
    assert caught.value.hint == "Did you mean 'pearson'?"


def test_every_measure_says_what_it_cannot_say():
    for measure in MEASURES.values():
        assert str(measure.meaning).endswith(".")
        assert str(measure.cannot_say).endswith(".")


# -- descriptions and stacks ---------------------------------------------------------------------------


def test_a_description_has_the_plain_statistics():
    values = np.random.default_rng(0).normal(2.0, 0.5, (1, 500)).astype(np.float32)
    wide = values.astype(np.float64)
    found = describe_rows(Stack(values))[0]
    assert found.mean == pytest.approx(wide.mean())
    assert found.std == pytest.approx(wide.std())
    assert (found.minimum, found.maximum) == (wide.min(), wide.max())
    assert found.norm == pytest.approx(np.linalg.norm(wide))
    assert found.rho == pytest.approx(wide.mean() / np.sqrt((wide**2).mean()))
    assert found.p99 == pytest.approx(np.percentile(np.abs(wide), 99))


def test_a_vector_of_zeros_has_no_direction_and_one_that_is_not_finite_no_numbers():
    zero, odd = describe_rows(Stack([[0.0, 0.0], [np.nan, 1.0]]))
    assert (zero.mean, zero.std, zero.norm, zero.rho, str(zero.reason)) == (
        0.0,
        0.0,
        0.0,
        None,
        "all values are zero",
    )
    assert (odd.mean, odd.rho, str(odd.reason)) == (None, None, "some values are not finite")


@pytest.mark.parametrize("rows", [[1.0, 2.0], [[[1.0]]], 3.0])
def test_a_stack_is_a_matrix(rows):
    with pytest.raises(ValueError, match="expected vectors in rows"):
        Stack(rows)


def test_a_stack_has_a_format_for_each_row():
    with pytest.raises(ValueError, match="expected 1, got 2"):
        Stack([[1.0]], ["F32", "F32"])


def test_pairs_are_two_equal_lists():
    with pytest.raises(ValueError, match="two equally long lists"):
        Pairs.of([0, 1], [0])


def test_a_shuffled_stack_is_the_stack_of_shuffled_rows():
    a, b = random_stacks()
    order = np.random.default_rng(5).permutation(a.n)
    for measure in MEASURES.values():
        measure(a, b)  # so that features exist and are carried over
    moved, fresh = b.shuffled(order), Stack(b.stored[:, order], "F32")
    for measure in MEASURES.values():
        np.testing.assert_allclose(measure.grid(a, moved), measure.grid(a, fresh), rtol=1e-12, atol=1e-15)
