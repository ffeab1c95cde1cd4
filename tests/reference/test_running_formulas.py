"""What methods that run models compute, on numbers known from elsewhere; no model is run here."""

import math
from importlib import import_module

import numpy as np
import pytest
from tests.comparison.disguises import zoo_model
from tests.reference.models import asked

from modelkin.errors import UsageError
from modelkin.reference import load_reference_cards, read_prompts, running
from modelkin.reference.behaviour import divergences
from modelkin.reference.representations import USUAL_DEPTH, cka, linear_gram, rbf_gram, standardised
from modelkin.reference.running import shipped_prompts

RUNNING = [name for name, card in load_reference_cards().items() if card.needs == "running"]


def rng():
    return np.random.default_rng(11)


def test_alignment_does_not_see_rotations_scales_and_shifts():
    rows = rng().standard_normal((50, 16)).astype(np.float32)
    turned = (rows @ np.linalg.qr(rng().standard_normal((16, 16)))[0] * 3.0 + 5.0).astype(np.float32)
    for unbiased in (False, True):
        assert cka(linear_gram(rows), linear_gram(turned), unbiased=unbiased) == pytest.approx(1.0, abs=1e-5)
        assert cka(rbf_gram(rows), rbf_gram(turned), unbiased=unbiased) == pytest.approx(1.0, abs=1e-4)


def test_standardised_features_see_a_rotation_that_the_published_formula_does_not():
    """What the authors' code does before the formula: harmless for scales, not for rotations."""
    rows = (rng().standard_normal((60, 16)) * np.geomspace(1, 100, 16)).astype(np.float32)
    turned = (rows @ np.linalg.qr(rng().standard_normal((16, 16)))[0]).astype(np.float32)
    scaled = (rows * np.geomspace(5, 0.1, 16)).astype(np.float32)

    def alignment(other, made):
        return cka(linear_gram(made(rows)), linear_gram(made(other)))

    assert alignment(turned, lambda side: side) == pytest.approx(1.0, abs=1e-5)
    assert alignment(turned, standardised) < 0.9
    assert alignment(scaled, standardised) == pytest.approx(1.0, abs=1e-5)
    assert alignment(scaled, lambda side: side) < 0.99
    assert not standardised(np.ones((5, 2), dtype=np.float32)).any()


def test_the_usual_state_is_the_one_that_leaves_layer_18_of_32():
    assert round(USUAL_DEPTH * 32) == 18 + 1


def test_biased_alignment_of_independent_states_is_high_with_few_prompts():
    """The floor that the published form has, and the unbiased one has not: 200 prompts, 4,096 dimensions."""
    first, second = (rng_.standard_normal((200, 4096)) for rng_ in (rng(), np.random.default_rng(12)))
    grams = linear_gram(first.astype(np.float32)), linear_gram(second.astype(np.float32))
    biased, unbiased = cka(*grams), cka(*grams, unbiased=True)
    assert biased is not None
    assert unbiased is not None
    assert biased > 0.9
    assert abs(unbiased) < 0.02


def test_unbiased_alignment_is_zero_on_average():
    draws = rng()
    found = [
        cka(
            linear_gram(draws.standard_normal((12, 4)).astype(np.float32)),
            linear_gram(draws.standard_normal((12, 4)).astype(np.float32)),
            unbiased=True,
        )
        or 0.0
        for _ in range(300)
    ]
    assert abs(np.mean(found)) < 4 * np.std(found) / math.sqrt(300)


def test_alignment_of_states_that_never_change_is_no_number():
    flat = np.ones((10, 3), dtype=np.float32)
    assert cka(linear_gram(flat), linear_gram(rng().standard_normal((10, 3)).astype(np.float32))) is None


def test_divergences_are_bits_between_zero_and_one():
    first = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 0.0]], dtype=np.float32)
    second = np.array([[0.0, 0.0], [0.0, 50.0], [100.0, 100.0]], dtype=np.float32)
    found, same = divergences(first, second)
    np.testing.assert_allclose(found, [0.0, 1.0, 0.0], atol=1e-9)
    assert same.tolist() == [True, False, True]
    half = divergences(np.array([[0.0, 0.0]]), np.array([[100.0, 0.0]]))[0][0]
    # Of (1/2, 1/2) and (1, 0): h(3/4) - h(1/2) / 2.
    assert half == pytest.approx(-(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25)) - 0.5)


def test_as_many_prompts_come_with_the_package_as_reef_takes():
    assert len(set(shipped_prompts())) == 200
    assert all("{" not in prompt for prompt in shipped_prompts())


def test_prompts_can_be_given(tmp_path):
    place = tmp_path / "prompts.txt"
    place.write_text("one\n\n two \nthree\nfour\n")
    assert read_prompts(place) == ("one", "two", "three", "four")
    place.write_text("one\n")
    with pytest.raises(UsageError, match="expected 4 prompts or more"):
        read_prompts(place)
    place.write_bytes(b"\xff\xff")
    with pytest.raises(UsageError, match="UTF-8"):
        read_prompts(place)


@pytest.mark.parametrize("method", RUNNING)
def test_without_the_extra_the_reason_is_told_and_nothing_is_read(method, monkeypatch):
    def refused(name):
        if name in ("torch", "transformers", "tokenizers"):
            raise ImportError(name)
        return import_module(name)

    monkeypatch.setattr(running, "import_module", refused)
    found = asked(method, zoo_model("base"), zoo_model("base"))
    assert (found.score, found.bytes_read) == (None, (0, 0))
    assert "running a model needs the package 'torch'" in str(found.reason)
