"""Numbers for people: round, and never stronger than they are."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelkin.comparison.methods import Effect
from modelkin.comparison.verdict import rounded_up
from modelkin.document import bound_text, effect_text, size_text
from modelkin.document.numbers import count_text, limit_text, p_text, runs_text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (20_480_000, "20.5 MB"), (141 * 10**9, "141 GB")],
)
def test_sizes_are_written_in_powers_of_1000(number, text):
    assert size_text(number) == text


@pytest.mark.parametrize(("number", "text"), [(12, "12"), (34_200, "34.2 K"), (7_240_000_000, "7.24 B")])
def test_parameters_are_written_as_people_say_them(number, text):
    assert count_text(number) == text


def test_layers_are_written_asruns_text():
    assert runs_text([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"


@pytest.mark.parametrize(
    ("log10_p", "text"),
    [
        (-1124.08, "p < 10^-1124"),
        (-102.85, "p < 10^-102"),
        (-5.0, "p = 10^-5"),
        (-3.5, "p < 10^-3"),
        (-0.4208, "p = 0.38"),
        (0.0, "p = 1"),
    ],
)
def test_p_values_are_written_as_powers_of_ten(log10_p, text):
    assert p_text(log10_p) == text


@given(st.floats(min_value=-5000, max_value=0))
def test_a_printed_p_value_is_never_smaller_than_the_real_one_and_never_zero(log10_p):
    text = bound_text(log10_p)
    printed = float(text.removeprefix("10^")) if "^" in text else math.log10(float(text))
    assert printed >= log10_p - 1e-9
    assert printed <= log10_p + 1.0
    assert p_text(log10_p) != "p = 0"


@given(st.floats(min_value=1e-6, max_value=1, exclude_max=True))
def test_a_printed_limit_is_never_smaller_than_the_real_one(limit):
    assert limit * (1 - 1e-7) <= float(limit_text(limit)) <= limit * 1.2
    assert float(limit_text(limit)) == rounded_up(limit)  # as verdicts say it


@pytest.mark.parametrize("limit", [1.0, 1.21, 40.0])
def test_a_limit_that_no_effect_reaches_has_no_digits(limit):
    assert limit_text(limit) == "> 1"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((0.99064, 0.9902, 0.991), "0.991 [0.990, 0.991]"),
        ((-0.0001, -0.014, 0.007), "0.000 [-0.014, 0.007]"),
        ((0.9997, 0.9996, 0.99999), "0.9997 [0.9996, 0.99999]"),
        ((1.0, 1 - 1e-9, 1 + 1e-9), "1.000 [1.000, 1.000]"),
    ],
)
def test_an_effect_has_its_interval_and_claims_no_identity_by_rounding(values, text):
    value, low, high = values
    assert effect_text(Effect(value=value, low=low, high=high)) == text
