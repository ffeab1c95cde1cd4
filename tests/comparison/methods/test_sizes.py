"""Sizes that two models have in common are not common weights; copies keep their signs and are found."""

from dataclasses import replace

import numpy as np
import pytest
from tests.stats.test_swap import mask
from tests.support.amount import every

from modelkin.comparison.methods import Tested, load_method
from modelkin.comparison.methods.axis import unit_evidence
from modelkin.comparison.methods.sizes import given_sizes, log10_p_of_signs

METHOD = load_method("mlp-units")


def coded(rows, bits=4, group=32):
    """Round as min-max codes do: zeros come back as small numbers that differ from group to group."""
    blocks = rows.reshape(len(rows), -1, group)
    low, high = blocks.min(axis=2, keepdims=True), blocks.max(axis=2, keepdims=True)
    step = (high - low) / (2**bits - 1)
    return (np.round((blocks - low) / step) * step + low).reshape(rows.shape).astype(np.float32)


def filled_masks(shape, seed):
    rng = np.random.default_rng(seed)
    kept = mask("0.5", shape, rng)
    return [
        coded(rng.normal(size=shape) * kept),
        coded(rng.normal(size=shape) * kept),
    ]


def noisy_masks(shape, seed):
    rng = np.random.default_rng(seed)
    kept = mask("0.1", shape, rng)
    return [(rng.normal(size=shape) * kept + 0.12 * rng.normal(size=shape)).astype(np.float32) for _ in "ab"]


def public_scales(shape, seed):
    rng = np.random.default_rng(seed)
    scales = np.exp(rng.normal(size=shape))
    return [(scales * rng.normal(size=shape)).astype(np.float32) for _ in "ab"]


def judged(candidate, base, **options):
    found = unit_evidence(METHOD, (candidate, base), seed=1, **options)
    assert isinstance(found, Tested)
    return found


@pytest.mark.parametrize("made", [filled_masks, noisy_masks, public_scales])
@pytest.mark.parametrize("shape", [(256, 128), (256, 4096)])
@pytest.mark.parametrize("sign_free", every(2, [False, True]))
def test_sizes_in_common_are_no_common_origin(made, shape, sign_free):
    assert judged(*made(shape, 1), sign_free=sign_free).log10_p > -6


def test_it_is_said_where_only_sizes_agree():
    assert "sizes-alone" in judged(*public_scales((256, 4096), 2), sign_free=True).flags


@pytest.mark.parametrize("made", [filled_masks, noisy_masks, public_scales])
def test_a_copy_with_the_same_sizes_is_found(made):
    rows, other = made((256, 128), 3)
    found = judged(rows, rows + 0.3 * other)
    assert found.log10_p < -20
    assert "sizes-alone" not in found.flags


def test_a_copy_with_signs_of_units_turned_is_found():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(256, 128)).astype(np.float32)
    turned = rows * rng.choice([-1.0, 1.0], size=(256, 1)).astype(np.float32)
    assert judged(rows, turned + rng.normal(size=rows.shape).astype(np.float32), sign_free=True).log10_p < -20


def test_the_bound_holds_for_tossed_signs():
    """Chance is at most as stated: of 400 draws none is expected below 10^-4."""
    rng = np.random.default_rng(5)
    sizes = np.exp(1.5 * rng.normal(size=(24, 48)))
    found = [
        log10_p_of_signs(
            sizes * rng.choice([-1, 1], size=sizes.shape), sizes * rng.choice([-1, 1], size=sizes.shape)
        )
        for _ in range(400)
    ]
    assert np.mean(np.array(found) <= np.log10(0.05)) <= 0.05
    assert min(found) > -4


@pytest.mark.parametrize(("log10_p", "is_bounded"), [(-2.5, False), (-3.5, True)])
def test_only_what_a_test_might_claim_is_bounded(log10_p, is_bounded):
    rows = public_scales((32, 64), 5)
    test = replace(judged(*rows), log10_p=log10_p, flags=())
    found = given_sizes(test, *rows, chosen_from=1)
    assert (found.log10_p > log10_p) == is_bounded
    assert ("sizes-alone" in found.flags) == is_bounded
