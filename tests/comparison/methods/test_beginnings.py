"""Models that start from the same public matrix in every layer share a recipe; copies of them share more."""

import numpy as np
import pytest
from tests.support.amount import every, marked

from modelkin.comparison.methods import SINGLE_LAYER, Tested, load_method
from modelkin.comparison.methods.axis import unit_evidence
from modelkin.comparison.methods.beginnings import (
    BEGINNING_FLAGS,
    OtherLayers,
    Remembered,
    common_beginning,
    common_up_to_sign,
    directions,
    glanced_z,
    other_layers,
    rough_z,
)
from modelkin.stats import AxisTest, axis_test, cross_scores

METHOD = load_method("mlp-units")
SHARES = [(0.7, 0.7, 0.7, 0.7), (0.9, 0.6, 0.3, 0.15), (0.4, 0.2, 0.1, 0.1), (0.9, 0.3, 0.1)]


def cosine_rows(units, width):
    """Return rows of a cosine basis, shuffled without a random number."""
    waves = (np.arange(units) * 37 + 11) % max(units, width)
    rows = np.cos(np.pi * (np.arange(width)[None] + 0.5) * waves[:, None] / max(units, width))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def begun(rows, shares, rng):
    """Return layers that keep a share of their initial values, some units more than others."""
    layers = []
    for share in shares:
        kept = np.clip(share * np.exp(0.3 * rng.normal(size=(len(rows), 1))), 0.0, 0.98)
        moved = rng.normal(size=rows.shape) / np.sqrt(rows.shape[1])
        layers.append((kept * rows + np.sqrt(1 - kept**2) * moved).astype(np.float32))
    return layers


def judged(candidate, base, at, **options):
    found = unit_evidence(
        METHOD, (candidate[at], base[at]), seed=1, others=other_layers(candidate, base, at), **options
    )
    assert isinstance(found, Tested)
    return found


@pytest.mark.parametrize("shares", marked(SHARES, SHARES[::2].__contains__, more=bool), ids=str)
@pytest.mark.parametrize("shape", [(128, 96), (256, 512)])
def test_a_common_beginning_is_no_common_origin(shares, shape):
    rng = np.random.default_rng(5)
    models = [begun(cosine_rows(*shape), shares, rng) for _ in range(2)]
    for at in range(len(shares)):
        for sign_free in (False, True):
            assert judged(models[0], models[1], at, sign_free=sign_free).log10_p > -3.5


@pytest.mark.more
def test_a_common_beginning_is_no_common_origin_at_the_width_of_real_models():
    rng = np.random.default_rng(6)
    models = [begun(cosine_rows(256, 4096), (0.5, 0.2, 0.1), rng) for _ in range(2)]
    found = [judged(models[0], models[1], at) for at in range(3)]
    assert all(test.log10_p > -3 for test in found)
    assert "beginning-alone" in found[0].flags  # it is said where the agreement comes from


def test_without_the_other_layers_such_models_would_be_accused():
    rng = np.random.default_rng(6)
    models = [begun(cosine_rows(256, 1024), (0.5, 0.2, 0.1), rng) for _ in range(2)]
    found = unit_evidence(METHOD, (models[0][0], models[1][0]), seed=1)
    assert isinstance(found, Tested)
    assert found.log10_p < -50


@pytest.mark.parametrize("noise", [0.0, 0.5, 2.0])
def test_a_copy_of_a_model_with_such_a_beginning_is_found_beside_it(noise):
    rng = np.random.default_rng(7)
    base = begun(cosine_rows(256, 256), (0.9, 0.6, 0.3, 0.15), rng)
    child = [rows + noise * rng.normal(size=rows.shape).astype(np.float32) / 16 for rows in base]
    for at in range(4):
        found = judged(child, base, at)
        assert found.log10_p < -9
        assert BEGINNING_FLAGS & {*found.flags} == {"every-layer"}


def test_random_beginnings_bear_no_mark_even_in_relatives():
    rng = np.random.default_rng(8)
    base = [rng.normal(size=(256, 128)).astype(np.float32) for _ in range(4)]
    child = [rows + 0.5 * rng.normal(size=rows.shape).astype(np.float32) for rows in base]
    assert all(judged(child, base, at).flags == () for at in range(4))


def test_one_model_with_random_layers_is_enough_for_the_test():
    """A grown model, whose layers were copied, against the one it was grown from."""
    rng = np.random.default_rng(9)
    base = [rng.normal(size=(256, 128)).astype(np.float32) for _ in range(4)]
    grown = [base[layer] + 0.3 * rng.normal(size=(256, 128)).astype(np.float32) for layer in (0, 1, 1, 1)]
    found = judged(grown, base, 1)
    assert found.flags == ()
    assert found.log10_p < -50


def test_a_layer_that_is_used_twice_is_not_another_layer():
    rng = np.random.default_rng(10)
    layer = rng.normal(size=(256, 128)).astype(np.float32)
    other = layer + 0.3 * rng.normal(size=layer.shape).astype(np.float32)
    assert judged([layer] * 4, [other] * 4, 0).flags == (SINGLE_LAYER,)


TIED = {"pairs": (0, 0, 2, 2), "by turns": (0, 1, 0, 1), "pairs of six": (0, 0, 2, 2, 4, 4)}


@pytest.mark.parametrize("tied", TIED.values(), ids=TIED)
@pytest.mark.parametrize("width", [256, pytest.param(4096, marks=pytest.mark.more)])
def test_layers_that_a_model_uses_twice_hide_no_common_beginning(tied, width):
    """A copy of another layer is no third one: with it, too little of the beginning was subtracted."""
    rng = np.random.default_rng(16)
    models = [begun(cosine_rows(256, width), (0.5,) * 6, rng) for _ in range(2)]
    candidate, base = ([layers[number] for number in tied] for layers in models)
    for at in range(len(tied)):
        found = judged(candidate, base, at)
        assert found.log10_p > -4.0
        assert BEGINNING_FLAGS & {*found.flags}


@pytest.mark.parametrize("tied", TIED.values(), ids=TIED)
def test_a_copy_of_a_model_that_uses_layers_twice_is_found(tied):
    rng = np.random.default_rng(17)
    layers = [rng.normal(size=(256, 128)).astype(np.float32) for _ in range(6)]
    base = [layers[number] for number in tied]
    moved = [rows + 0.5 * rng.normal(size=rows.shape).astype(np.float32) for rows in layers]
    child = [moved[number] for number in tied]
    assert all(judged(child, base, at).log10_p < -50 for at in range(len(tied)))


@pytest.mark.more
@pytest.mark.parametrize(("shape", "share"), [((128, 48), 0.3), ((160, 96), 0.25)])
def test_two_layers_that_began_alike_need_not_agree_as_much_within_as_across(shape, share):
    """By chance, few units of one model agree: four of 60 pairs were accused where as much was required."""
    claimed = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        models = [begun(cosine_rows(*shape), (share, share), rng) for _ in range(2)]
        claimed.append(min(judged(models[0], models[1], at).log10_p for at in range(2)))
    assert min(claimed) > -6.0


def test_with_two_layers_a_common_beginning_cannot_be_told_from_more():
    rng = np.random.default_rng(11)
    models = [begun(cosine_rows(256, 256), (0.7, 0.7), rng) for _ in range(2)]
    found = judged(models[0], models[1], 0)
    assert found.log10_p == 0.0
    assert BEGINNING_FLAGS & {*found.flags}


def test_what_is_remembered_of_layers_is_what_would_be_made_anew():
    rng = np.random.default_rng(5)
    layers = [rng.standard_normal((20, 9)).astype(np.float32) for _ in range(3)]
    known = Remembered()
    for one in layers:
        for two in layers:
            anew = rough_z(directions(one), directions(two))
            assert known.z(one, two) == pytest.approx(anew, rel=1e-5)  # sums depend on alignment in memory
            assert known.z(one, two) == known.z(one, two)
    assert known.directions(layers[0]) is known.directions(layers[0])


def test_what_a_map_of_layers_has_computed_is_not_computed_again(monkeypatch):
    rng = np.random.default_rng(6)
    mine, theirs = ([rng.standard_normal((40, 32)).astype(np.float32) for _ in range(3)] for _ in range(2))
    theirs[1] += mine[2]
    mine[0][7] = 0.0  # such a layer is left to be looked at by itself
    anew, known = Remembered(), Remembered()
    known.learn(mine, theirs, cross_scores(mine, theirs))
    with monkeypatch.context() as patched:
        patched.setattr("modelkin.comparison.methods.beginnings.directions", None)
        for one in mine[1:]:
            for two in theirs:
                exact = axis_test(candidate=one, base=two, exchangeable=True, seed=0)
                assert isinstance(exact, AxisTest)
                assert known.z(one, two) == pytest.approx(exact.z, rel=1e-4)
                assert known.glance(one, two, beside=mine) == known.z(one, two)
    for one in mine:
        for two in theirs:
            assert known.product(one, two) == pytest.approx(anew.product(one, two), rel=1e-4, abs=1e-4)
            assert known.square(one, two) == pytest.approx(anew.square(one, two), rel=1e-4)
    assert known.z(mine[0], theirs[0]) == pytest.approx(anew.z(mine[0], theirs[0]), rel=1e-4)


@pytest.mark.parametrize("shape", [(41, 4096), (167, 1024), (512, 12)])
def test_a_first_look_at_layers_is_about_right(shape):
    rng = np.random.default_rng(12)
    ratios = []
    for _ in range(20):
        one = directions(rng.standard_normal(shape).astype(np.float32))
        two = directions(one + rng.standard_normal(shape).astype(np.float32))
        ratios.append(glanced_z([one], two)[0] / rough_z(one, two))
    assert 0.8 < min(ratios) < np.median(ratios) < max(ratios) < 1.25


def test_a_first_look_at_one_layer_is_the_same_among_others():
    rng = np.random.default_rng(15)
    base, *layers = (rng.standard_normal((41, 256)).astype(np.float32) for _ in range(5))
    known = Remembered()
    found = [known.glance(rows, base, beside=layers) for rows in layers]
    alone = [glanced_z([directions(rows)], directions(base))[0] for rows in layers]
    assert found == pytest.approx(alone, rel=1e-5)


def test_a_first_look_is_not_misled_by_units_that_agree_with_all():
    """Three of the eight units looked at agree with a quarter of the other model."""
    rng = np.random.default_rng(13)
    one = rng.standard_normal((256, 512)).astype(np.float32)
    two = one + rng.standard_normal((256, 512)).astype(np.float32)
    two[1:256:4] += 10.0 * one[0]
    one[[64, 128]] = one[0]
    units = directions(one), directions(two)
    assert glanced_z([units[0]], units[1])[0] > rough_z(*units) > 5.0


def test_where_most_units_are_empty_a_first_look_is_not_enough():
    rng = np.random.default_rng(14)
    rows = np.zeros((64, 16), np.float32)
    rows[1:8] = rng.standard_normal((7, 16))
    assert glanced_z([rows], rows) == [np.inf]
    assert rough_z(rows, rows) > 2.0


class Alike(Remembered):
    """Layers that agree by one z, whichever they are."""

    def __init__(self, z):
        super().__init__()
        self.of_all = z

    def z(self, one, two):
        return self.of_all

    def glance(self, one, two, *, beside):
        assert any(rows is one for rows in beside)
        return self.of_all


@pytest.mark.parametrize(
    ("n_others", "joint", "is_common"), [(3, 2.6, False), (3, 3.4, True), (1, 4.1, False), (1, 4.4, True)]
)
def test_layers_of_one_beginning_agree_from_three_deviations_on_and_few_layers_from_six(
    n_others, joint, is_common
):
    """Within one model each layer is held against the others, so z of all is the root of their number.

    Across models there are twice as many: one other layer of each with z 4.3 gives 6.
    """
    rng = np.random.default_rng(15)
    layers = [rng.standard_normal((16, 8)).astype(np.float32) for _ in range(2 * n_others + 2)]
    others = OtherLayers(
        candidate=tuple(layers[2 : 2 + n_others]),
        base=tuple(layers[2 + n_others :]),
        known=Alike(joint / np.sqrt(n_others)),
    )
    assert (common_beginning((layers[0], layers[1]), others) is not None) == is_common


# Multiples of one matrix, of either sign ----------------------------------------------------------------


def adapted(layers, public, share, rng):
    """Add to every unit of every layer a multiple of its row in a public matrix."""
    return [
        (rows + share * rng.normal(size=(len(rows), 1)) * public * np.linalg.norm(rows)).astype(np.float32)
        for rows in layers
    ]


def drawn(n_layers, shape, rng):
    return [rng.normal(size=shape).astype(np.float32) for _ in range(n_layers)]


@pytest.mark.more
@pytest.mark.parametrize("share", every(3, [0.5, 0.3, 1.0]))
@pytest.mark.parametrize("shape", [(128, 96), (256, 512)])
@pytest.mark.parametrize("sign_free", [False, True])
def test_multiples_of_one_public_matrix_in_all_layers_are_no_common_origin(share, shape, sign_free):
    rng = np.random.default_rng(16)
    public = rng.normal(size=shape) / np.sqrt(shape[0] * shape[1])
    models = [adapted(drawn(4, shape, rng), public, share, rng) for _ in range(2)]
    unguarded = [
        unit_evidence(METHOD, (models[0][at], models[1][at]), seed=1, sign_free=sign_free) for at in range(4)
    ]
    if sign_free and share > 0.3:
        # the trap is there
        assert min(test.log10_p for test in unguarded if isinstance(test, Tested)) < -9
    found = [judged(models[0], models[1], at, sign_free=sign_free) for at in range(4)]
    assert all(test.log10_p > -3 for test in found)


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
def test_a_copy_is_found_although_both_have_multiples_of_one_public_matrix(noise):
    rng = np.random.default_rng(17)
    public = rng.normal(size=(256, 128)) / np.sqrt(256 * 128)
    base = drawn(4, (256, 128), rng)
    child = [rows + noise * rng.normal(size=rows.shape).astype(np.float32) for rows in base]
    models = [adapted(layers, public, 0.5, rng) for layers in (child, base)]
    for at in range(4):
        for sign_free in (False, True):
            assert judged(models[0], models[1], at, sign_free=sign_free).log10_p < -9


def test_one_model_without_the_public_matrix_is_enough_for_the_test_up_to_signs():
    rng = np.random.default_rng(18)
    public = rng.normal(size=(256, 128)) / np.sqrt(256 * 128)
    layers = drawn(4, (256, 128), rng), adapted(drawn(4, (256, 128), rng), public, 1.0, rng)
    assert common_up_to_sign((layers[0][0], layers[1][0]), other_layers(layers[0], layers[1], 0)) is None


def between_bases(layers, rng):
    """Add a product of public matrices to every layer, with a trained factor for every direction."""
    public = np.random.default_rng(19)
    units, width = layers[0].shape
    writes, reads = public.normal(size=(units, 32)), public.normal(size=(32, width))
    return [
        (rows + 0.5 / np.sqrt(32) * (writes * rng.normal(size=32)) @ reads).astype(np.float32)
        for rows in layers
    ]


@pytest.mark.more
def test_products_of_public_matrices_in_all_layers_are_no_common_origin():
    rng = np.random.default_rng(20)
    models = [between_bases(drawn(5, (256, 512), rng), rng) for _ in range(2)]
    unguarded = [unit_evidence(METHOD, (models[0][at], models[1][at]), seed=1) for at in range(5)]
    assert min(test.log10_p for test in unguarded if isinstance(test, Tested)) < -9  # the trap is there
    assert all(judged(models[0], models[1], at).log10_p > -3 for at in range(5))


def test_a_copy_is_found_although_both_have_products_of_public_matrices():
    rng = np.random.default_rng(21)
    base = drawn(5, (256, 512), rng)
    child = [rows + 0.5 * rng.normal(size=rows.shape).astype(np.float32) for rows in base]
    models = [between_bases(layers, rng) for layers in (child, base)]
    assert all(judged(models[0], models[1], at).log10_p < -9 for at in range(5))
