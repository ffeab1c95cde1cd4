"""Masks that two strangers share are not common weights, whatever has filled them. Copies are found.

Rows are dimensions of token tables: few directions, which all corpora have in common, hold most of them, so
that signs within a dimension are not independent.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.comparison.methods.test_sizes import coded
from tests.support.amount import every

from modelkin.comparison.methods import Tested, axis, load_method
from modelkin.comparison.methods.axis import unit_evidence
from modelkin.comparison.methods.small_places import (
    FEWEST_UNITS,
    WORTH_ASKING,
    given_small_gains,
    given_small_places,
)

METHOD = load_method("embedding-rows")
TOKENS = 512


def table(seed, width, *, one_sided=False, common=1.0):
    """Draw dimensions by tokens; `one_sided` if all dimensions have the first direction with one sign."""
    rng, corpus = np.random.default_rng([seed, 1]), np.random.default_rng(5)
    directions = corpus.normal(size=(4, TOKENS)) * np.array([[3.0], [1.5], [1.0], [0.7]])
    mixture = rng.normal(size=(width, 4))
    if one_sided:
        mixture[:, 0] = np.abs(mixture[:, 0])
    return (common * mixture @ directions + rng.normal(size=(width, TOKENS))).astype(np.float32)


def masked(rows, density, filling, *, seed, mask=9):
    """Multiply by a mask, the same for all rows of a shape, and fill its zeros."""
    kept = np.random.default_rng(mask).random(rows.shape) < density
    under = np.where(kept, rows, 0.0).astype(np.float32)
    if filling == "int8":
        return coded(under, bits=8)
    noise = np.random.default_rng([seed, 7]).normal(size=rows.shape)
    return (under + ~kept * float(filling) * rows.std() * noise).astype(np.float32)


def judged(candidate, base, **options):
    found = unit_evidence(METHOD, (candidate, base), seed=1, whole_effect=True, **options)
    assert isinstance(found, Tested)
    return found


@pytest.fixture
def unguarded(monkeypatch):
    """Judge without what is known of small places."""

    def judge(candidate, base):
        with monkeypatch.context() as patch:
            patch.setattr(axis, "given_small_places", lambda test, *_, **__: test)
            return judged(candidate, base)

    return judge


@pytest.mark.more
@pytest.mark.parametrize(
    ("density", "filling", "one_sided"),
    every(
        3,
        [
            (0.05, "0.05", False),
            (0.05, "0.02", True),
            (0.5, "0.2", False),
            (0.5, "0.05", True),
            (0.8, "0.05", False),
            (0.8, "0.05", True),
            (0.8, "0.2", True),
            (0.97, "0", False),
            (0.97, "0.05", False),
            (0.97, "int8", False),
        ],
    ),
)
def test_a_mask_on_wide_tables_is_no_common_origin(density, filling, one_sided, unguarded):
    tables = [table(seed, 1024, one_sided=one_sided, common=3.0) for seed in (1, 2)]
    rows = [masked(one, density, filling, seed=seed) for seed, one in enumerate(tables)]
    assert unguarded(*rows).log10_p < -8  # the trap is there
    found = judged(*rows)
    assert found.log10_p > -6
    assert {"same-sizes", "sizes-alone"} & {*found.flags}


@pytest.mark.parametrize(
    ("width", "mask", "density", "filling"),
    [
        (1024, 102, 0.3, "0.1"),
        (1024, 103, 0.8, "0.2"),
        pytest.param(4096, 101, 0.8, "0.2", marks=pytest.mark.more),
    ],
)
def test_large_values_that_disagree_support_nothing(width, mask, density, filling, unguarded):
    """Under a common direction they may do so for certain: only agreement bounds what agreement claims."""
    rows = [
        masked(table(mask + seed, width, one_sided=True, common=3.0), density, filling, seed=seed, mask=mask)
        for seed in (1, 2)
    ]
    assert unguarded(*rows).log10_p < -8
    assert judged(*rows).log10_p > -6


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0, 3.0])
def test_copies_without_a_mask_lose_nothing(noise, unguarded):
    rows = table(1, 256)
    other = noise * rows.std() * np.random.default_rng(3).normal(size=rows.shape)
    pair = rows, (rows + other).astype(np.float32)
    assert judged(*pair) == unguarded(*pair)
    assert judged(*pair).log10_p < -20


@pytest.mark.parametrize("filling", ["0.05", "int8"])
def test_copies_under_a_filled_mask_are_found(filling):
    rows, other = table(1, 256), table(2, 256)
    pair = [masked(one, 0.8, filling, seed=seed) for seed, one in ((1, rows), (2, rows + 0.5 * other))]
    assert judged(*pair).log10_p < -20


def test_half_of_the_tokens_in_common_are_found_as_before(unguarded):
    rows, other = table(1, 256), table(2, 256)
    half = np.where(np.arange(TOKENS) % 2 == 0, rows, other)
    assert judged(half, rows) == unguarded(half, rows)


@pytest.mark.parametrize(("log10_p", "is_bounded"), [(-2.5, False), (-3.5, True)])
def test_only_what_a_test_might_claim_is_bounded(log10_p, is_bounded):
    rows = [masked(table(seed, 96), 0.5, "0.05", seed=seed) for seed in (1, 2)]
    test = replace(judged(*rows), log10_p=log10_p, flags=())
    assert (log10_p < WORTH_ASKING) == is_bounded
    assert (given_small_places(test, *rows, seed=1).log10_p > log10_p) == is_bounded


def test_units_too_few_for_a_finding_are_left_as_they_are():
    rows = [masked(table(seed, 96), 0.5, "0.05", seed=seed) for seed in (1, 2)]
    test = replace(judged(*rows), log10_p=-20.0, flags=())
    few = [one[: FEWEST_UNITS - 1] for one in rows]
    assert given_small_places(test, *few, seed=1) == test


def test_a_price_for_the_choice_is_paid_for_the_bound_too(monkeypatch):
    rows = table(1, 96)
    test = judged(rows, rows)
    monkeypatch.setattr("modelkin.comparison.methods.small_places._left", lambda *_: -50.0)
    found = given_small_places(test, rows, rows, seed=1, chosen_from=1000)
    assert found.log10_p == pytest.approx(-47)
    assert found.flags == ("same-sizes",)
    assert found.detection_limit is None  # what is left is another test, with another limit


def gains(seed, *, n_vectors=9, width=1024):
    return np.random.default_rng([seed, 2]).normal(1.0, 0.1, size=(width, n_vectors)).astype(np.float32)


def bounded(candidate, base):
    test = replace(judged(table(1, 96), table(1, 96)), log10_p=-300.0, flags=())
    return given_small_gains(test, candidate, base, seed=1)


@pytest.mark.parametrize("density", [0.05, 0.2, 0.5, 0.8, 0.97])
@pytest.mark.parametrize("filling", ["0", "0.2"])
def test_a_mask_on_gains_is_no_common_origin(density, filling):
    rows = [masked(gains(seed), density, filling, seed=seed) for seed in (1, 2)]
    centred = [one - one.mean(axis=0) for one in rows]
    assert np.corrcoef(centred[0].ravel(), centred[1].ravel())[0, 1] > 0.5  # the trap is there
    found = bounded(*rows)
    assert found.log10_p > -3
    assert "sizes-alone" in found.flags


def test_copied_gains_lose_nothing_with_or_without_small_ones():
    rows = gains(1)
    other = (rows + 0.05 * (gains(2) - 1)).astype(np.float32)
    assert bounded(rows, other).log10_p == -300
    zeros = np.random.default_rng(3).random(rows.shape) < 0.1
    assert bounded(np.where(zeros, 0.0, rows), np.where(zeros, 0.0, other)).log10_p < -100
