"""Coordinates from units: invariants, learned maps, contrasted layers."""

from functools import cache

import numpy as np
import pytest

from modelkin.comparison.alignment import (
    agreeing,
    as_units,
    contrast_in,
    contrasts_of_folds,
    facing_layers_of,
    joined_splits,
    learner_of_units,
    permutation_of_gains,
    same_numbers,
)
from modelkin.comparison.alignment.contrast import divisions_of
from modelkin.comparison.alignment.coordinates import learn_map


@cache
def rotation(width, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((width, width)))[0].astype(np.float32)


def gated(seed, *, units=96, width=48):
    rng = np.random.default_rng(seed)
    gate, up, down = rng.standard_normal((3, units, width)).astype(np.float32)
    sizes = np.exp(0.4 * rng.standard_normal((units, 1))).astype(np.float32)
    return gate * sizes, up + 0.3 * rng.standard_normal((units, 1)) * gate, down


def hidden_copy(rows, seed, *, noise=0.05):
    """Return a layer with everything done to it that changes no output, and some noise."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows[0]))
    factor = np.exp(rng.standard_normal((len(order), 1))) * rng.choice([-1, 1], (len(order), 1))
    turned = rotation(rows[0].shape[1], 99)
    gate, up, down = (m + noise * rng.standard_normal(m.shape) for m in rows)
    return gate[order] @ turned, factor * up[order] @ turned, down[order] @ turned / factor


def layers_of(seeds, **sizes):
    return [as_units("gated", gated(seed, **sizes)) for seed in seeds]


def always(found):
    return True


def test_what_nothing_alters_stays_when_everything_is_done_to_a_layer():
    rows = gated(1)
    order = np.argsort(as_units("gated", rows).invariants()[:, 0])
    hidden = as_units("gated", hidden_copy(rows, 2, noise=0.0)).invariants()
    hidden = hidden[np.argsort(hidden[:, 0])]
    assert np.allclose(as_units("gated", rows).invariants()[order], hidden, atol=1e-4)


@pytest.mark.parametrize("width", [48, 1024])
def test_a_hidden_copy_is_found_again_in_layers_that_taught_nothing(width):
    sizes = {"units": 96, "width": 48} if width == 48 else {"units": 640, "width": 1024}
    base = [gated(seed, **sizes) for seed in range(2 if width > 48 else 4)]
    copy = [hidden_copy(rows, 50 + number) for number, rows in enumerate(base)]
    mine, theirs = ([as_units("gated", rows) for rows in side] for side in (copy, base))
    layers = facing_layers_of(mine, theirs, range(len(base)))
    (found,) = contrasts_of_folds(layers, learn=learner_of_units(layers), enough=always)
    assert all(face.count.share > 0.98 for item in found for face in item.facing)
    assert all(item.largest.share < 0.1 and item.limit < 0.2 for item in found)


def test_strangers_agree_in_facing_layers_no_more_than_in_others():
    layers = facing_layers_of(layers_of(range(4)), layers_of(range(10, 14)), range(4))
    for division in contrasts_of_folds(layers, learn=learner_of_units(layers), enough=lambda item: False):
        for item in division:
            assert all(face.count.share <= item.limit for face in item.facing)


def test_a_map_that_few_units_teach_overfits_and_fails_on_layers_it_has_not_seen():
    """The reason for folds: a third as many units as dimensions can be turned onto anything."""
    mine, theirs = (layers_of(range(at, at + 4), units=24, width=64) for at in (0, 10))
    learned = learn_map(mine[:2], theirs[:2])
    assert learned is not None
    assert agreeing(mine[0], theirs[0], matrix=learned.matrix).share > 0.3
    layers = facing_layers_of(mine, theirs, range(4))
    found = contrasts_of_folds(layers, learn=learner_of_units(layers), enough=lambda item: False)
    assert max(face.count.share for group in found for item in group for face in item.facing) < 0.2


def test_layers_that_repeat_are_in_one_fold():
    once = layers_of(range(2))
    repeated = [once[0], once[0], once[1], once[1]]
    layers = facing_layers_of(repeated, layers_of(range(10, 14)), range(4))
    assert len(layers.distinct) == 2
    assert list(divisions_of(layers)) == [((0, 1), (2, 3))]
    assert all(count.share < 0.5 for counts in layers.inside for count in counts.values())


def neighbours(seed, *, units=512, width=512, features=40, layers=3):
    """Return layers that share features, which several units of each have to varying degrees."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((2, features, width)).astype(np.float32)
    made = []
    for _ in range(layers):
        of = rng.integers(features, size=units)
        loading = 0.3 * np.exp(0.5 * rng.standard_normal((units, 1)))
        own = rng.standard_normal((2, units, width))
        made.append((loading * common[:, of] + own).astype(np.float32))
    return made


def parts_of(layers, seed, *, share):
    """Return a random part of the units of each layer, as a candidate would be read."""
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(rows.shape[1])[: int(share * rows.shape[1])] for rows in layers]
    return [
        as_units("gated", list(rows[:, order]), read=share)
        for rows, order in zip(layers, chosen, strict=True)
    ]


def is_above(found):
    return all(face.count.share > found.limit for face in found.facing)


def test_neighbours_that_share_features_do_not_hide_a_copy_that_was_read_in_parts():
    """A quarter can agree at most, and layers that do not face each other agree as much: but not closely."""
    base = neighbours(1)
    copy = [rows + 0.02 * np.random.default_rng(7).standard_normal(rows.shape) for rows in base]
    layers = facing_layers_of(parts_of(copy, 1, share=0.25), parts_of(base, 2, share=0.25), range(3))
    assert max(agreeing(a, b).share for a, b in zip(layers.candidate, layers.base[1:], strict=False)) > 0.1
    found = contrast_in(layers, None, range(3), enough=is_above)
    assert found is not None
    assert found.closer_than == 0.5
    assert found.largest.agreeing == 0
    assert all(face.count.share / face.could_agree > 0.5 for face in found.facing)


def test_neighbours_that_share_features_do_not_make_a_copy_of_a_stranger():
    for share in (0.25, 1.0):
        mine, theirs = (parts_of(neighbours(seed), seed, share=share) for seed in (1, 2))
        found = contrast_in(facing_layers_of(mine, theirs, range(3)), None, range(3), enough=is_above)
        assert found is not None
        assert not is_above(found)
        assert (found.closer_than is None) == (share == 1.0)


def test_a_close_match_is_asked_for_where_any_match_shows_nothing():
    """One unit in twenty was copied: fewer than agree in layers that do not face each other."""
    *base, one, two, three = neighbours(1, layers=6)
    kept = np.arange(512)[:, None] % 20 == 0
    copy = [np.where(kept, rows, other) for rows, other in zip(base, (one, two, three), strict=True)]
    layers = facing_layers_of(parts_of(copy, 1, share=1.0), parts_of(base, 2, share=1.0), range(3))
    found = contrast_in(layers, None, range(3), enough=is_above)
    assert found is not None
    assert found.closer_than == 0.5
    assert is_above(found)


@pytest.mark.parametrize("share", [0.35, 0.45, 1.0])
def test_part_of_a_map_is_enough_for_close_matches(share):
    """As keys of four layers give at 70B: 0.43 of the dimensions; the rest of a row is lost."""
    width = 512
    base = [gated(seed, units=400, width=width) for seed in range(3)]
    copy = [hidden_copy(rows, 50 + number, noise=0.0) for number, rows in enumerate(base)]
    mine, theirs = ([as_units("gated", rows, read=0.5) for rows in side] for side in (copy, base))
    kept = np.arange(width) < share * width
    basis = rotation(width, 7)
    part = rotation(width, 99).T @ (basis * kept) @ basis.T
    found = contrast_in(facing_layers_of(mine, theirs, range(3)), part, range(3), enough=is_above)
    assert found is not None
    assert found.closer_than == 0.5
    assert all(face.count.share > 0.9 for face in found.facing)
    assert found.limit < 0.1


def test_a_model_of_one_layer_throughout_has_no_folds():
    layers = facing_layers_of(layers_of([1]) * 4, layers_of([2]) * 4, range(4))
    assert len(layers.distinct) == 1
    assert contrasts_of_folds(layers, learn=learner_of_units(layers), enough=always) == []


def test_units_that_were_split_are_joined():
    gate, up, down = gated(3)
    rng = np.random.default_rng(4)
    half = rng.standard_normal(up.shape).astype(np.float32)
    split = as_units(
        "gated",
        (np.concatenate([gate, gate]), np.concatenate([half, up - half]), np.concatenate([down, down])),
    )
    whole = as_units("gated", (gate, up, down))
    assert agreeing(split, whole).share < 0.5
    joined = joined_splits(split)
    assert len(joined) == len(whole)
    assert agreeing(joined, whole).share == 1.0


def test_units_that_differ_are_not_joined():
    units = as_units("gated", gated(5))
    assert joined_splits(units) is units


def test_gains_tell_where_dimensions_went():
    rng = np.random.default_rng(6)
    gains = 1 + 0.1 * rng.standard_normal((9, 64))
    order = rng.permutation(64)
    found = permutation_of_gains(gains[:, order], gains + 1e-3 * rng.standard_normal(gains.shape))
    assert found is not None
    assert (np.argmax(found, axis=1) == order).all()
    assert permutation_of_gains(np.ones((9, 64)), np.ones((9, 64))) is None
    assert permutation_of_gains(gains, 1 + 0.1 * rng.standard_normal((9, 64))) is None


def test_the_same_numbers_in_another_order_are_known_by_their_sums():
    rows = gated(9)
    rng = np.random.default_rng(10)
    units, dimensions = rng.permutation(96), rng.permutation(48)
    moved = as_units("gated", [matrix[units][:, dimensions] for matrix in rows])
    assert same_numbers(as_units("gated", rows), moved) == 1.0
    changed = [matrix[units][:, dimensions].copy() for matrix in rows]
    changed[0][0, 0] = np.nextafter(changed[0][0, 0], np.float32(9))
    assert same_numbers(as_units("gated", rows), as_units("gated", changed)) == pytest.approx(95 / 96)
    assert same_numbers(as_units("gated", rows), as_units("gated", gated(11))) == 0.0


def test_units_of_few_different_numbers_prove_nothing_by_having_them():
    rng = np.random.default_rng(12)
    ternary = [rng.choice(np.array([-1, 0, 1], np.float32), (96, 48)) for _ in range(3)]
    assert same_numbers(as_units("gated", ternary), as_units("gated", ternary)) is None


def test_units_that_are_zero_or_not_finite_are_left_out():
    gate, up, down = gated(7)
    gate[0], up[1], down[2, 0] = 0.0, 0.0, np.nan
    assert len(as_units("gated", (gate, up, down))) == 93


def test_a_unit_that_is_near_to_everything_counts_once():
    """A hub: the best match of all by both rows, in layers that have nothing in common."""
    rng = np.random.default_rng(8)
    one, other = rng.standard_normal((2, 1, 48))
    near = one + 0.1 * rng.standard_normal((40, 48)), other + 0.1 * rng.standard_normal((40, 48))
    reads, writes = rng.standard_normal((2, 60, 48))
    reads[0], writes[0] = one, other
    found = agreeing(as_units("plain", near), as_units("plain", (reads, writes)))
    assert found.n == 40
    assert found.agreeing <= 1
