"""Keys teach a map of the residual stream, whatever was done to their heads and pairs; strangers' do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from modelkin.comparison.alignment import Frame, find_frame
from modelkin.comparison.alignment.keys import frame_of_key_rows, key_rows
from modelkin.message import say

WIDTH, HEADS, LENGTH, LAYERS = 192, 8, 32, 2


def keys(rng, decay=0.3):
    spectrum = np.arange(1, WIDTH + 1, dtype=np.float64) ** -decay
    return (rng.standard_normal((HEADS * LENGTH, WIDTH)) * spectrum).astype(np.float32)


def orthogonal(rng):
    return np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))[0].astype(np.float32)


def turned_pairs(rows, rng):
    """Turn and scale each pair of dimensions of a head."""
    heads = rows.reshape(HEADS, 2, LENGTH // 2, WIDTH)
    angle = rng.uniform(0, 2 * np.pi, (HEADS, LENGTH // 2, 1))
    scale = np.exp(rng.normal(0, 0.5, angle.shape))
    first = scale * (np.cos(angle) * heads[:, 0] - np.sin(angle) * heads[:, 1])
    second = scale * (np.sin(angle) * heads[:, 0] + np.cos(angle) * heads[:, 1])
    return np.stack([first, second], axis=1).reshape(rows.shape).astype(np.float32)


def other_heads(rows, rng):
    return rows.reshape(HEADS, LENGTH, WIDTH)[rng.permutation(HEADS)].reshape(rows.shape)


def map_of(candidate, base):
    rows = key_rows(candidate, base, head_width=LENGTH)
    assert rows is not None
    found = find_frame(*rows, learned_from=say("key-rows"), seed=0)
    assert isinstance(found, Frame)
    return found


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("turned", [False, True])
def test_the_rotation_of_a_copy_is_found_up_to_its_sign(noise, turned):
    rng = np.random.default_rng(7)
    base, rotation = [keys(rng) for _ in range(LAYERS)], orthogonal(rng)
    candidate = []
    for rows in base:
        made = rows + noise * rows.std() * rng.standard_normal(rows.shape).astype(np.float32)
        made = turned_pairs(made, rng) if turned else made
        candidate.append(other_heads(made, rng) @ rotation)
    found = map_of(candidate, base)
    fit = float(np.einsum("ij,ji->i", found.apply(rotation), np.eye(WIDTH)).mean())
    assert found.kind == "rotation"
    assert abs(fit) > 0.95
    assert turned or fit > 0  # of keys that were not turned the sign is known


def test_a_permutation_is_told_as_one():
    rng = np.random.default_rng(8)
    base, order = [keys(rng) for _ in range(LAYERS)], rng.permutation(WIDTH)
    found = map_of([other_heads(rows, rng)[:, order] for rows in base], base)
    assert found.kind == "permutation"
    assert (order[found.places] == np.arange(WIDTH)).all()


@pytest.mark.parametrize("decay", [0.0, 0.3, 1.0])
def test_heads_of_strangers_are_not_found(decay):
    rng = np.random.default_rng(9)
    mine, theirs = ([keys(rng, decay) for _ in range(LAYERS)] for _ in range(2))
    assert key_rows(mine, theirs, head_width=LENGTH) is None


def test_what_all_heads_have_in_common_is_no_likeness():
    """Strangers of one recipe: the frequencies of positions give all their heads the same profile."""
    rng = np.random.default_rng(10)
    common = rng.standard_normal((LENGTH, WIDTH))
    profile = np.exp(-np.arange(LENGTH) / 8)[:, None]

    def made():
        own = rng.standard_normal((HEADS, LENGTH, WIDTH))
        return (profile * (common + own)).reshape(-1, WIDTH).astype(np.float32)

    mine, theirs = ([made() for _ in range(LAYERS)] for _ in range(2))
    assert key_rows(mine, theirs, head_width=LENGTH) is None


def test_some_heads_are_enough():
    rng = np.random.default_rng(11)
    base, rotation = [keys(rng) for _ in range(LAYERS)], orthogonal(rng)
    kept = [rows.reshape(HEADS, LENGTH, WIDTH)[::2].reshape(-1, WIDTH) @ rotation for rows in base]
    found = map_of(kept, base)
    assert found.n_rows < HEADS * LENGTH * LAYERS // 2 < 2 * WIDTH
    assert found.fit > 0.8


def test_rows_that_hold_nothing_are_left_out_of_it():
    rng = np.random.default_rng(12)
    base, rotation = [keys(rng) for _ in range(LAYERS)], orthogonal(rng)
    candidate = [other_heads(rows, rng) @ rotation for rows in base]
    candidate[0][3] = np.nan
    candidate[1][40] = 0.0
    base[0][17] = np.inf
    assert abs(map_of(candidate, base).fit) > 0.9
    nothing = [np.zeros_like(rows) for rows in base]
    assert key_rows(nothing, base, head_width=LENGTH) is None
    assert key_rows(nothing, nothing, head_width=LENGTH) is None


@pytest.mark.parametrize(("fit", "kept"), [(0.38, False), (0.45, False), (0.55, True), (0.66, True)])
def test_a_map_of_keys_is_kept_if_it_fits_better_than_those_of_strangers(fit, kept, monkeypatch):
    rng = np.random.default_rng(13)
    base = [keys(rng) for _ in range(LAYERS)]
    made = replace(map_of([rows.copy() for rows in base], base), fit=fit)
    monkeypatch.setattr("modelkin.comparison.alignment.keys.find_frame", lambda *_, **__: made)
    found = frame_of_key_rows([*base], [*base], head_width=LENGTH, seed=0)
    assert (found is not None) == kept
