"""The map that turns a rotated residual stream back is learned again, at small and at large widths."""

from __future__ import annotations

import numpy as np
import pytest

from modelkin.comparison.alignment import polar_factor
from modelkin.comparison.relation.turned import Floats, Table, learned_turn, levels_before

WIDTH = 128
RNG = np.random.default_rng(7)
TURN = polar_factor(RNG.normal(size=(WIDTH, WIDTH))).astype(np.float32)
"""From the candidate's coordinates to the base's."""


def rows(n: int, change: float = 0.0) -> Table:
    """Return rows over both streams, the candidate's changed by so much in a few directions."""
    base = RNG.normal(size=(n, WIDTH))
    added = RNG.normal(size=(n, 2)) @ RNG.normal(size=(2, WIDTH)) / 2**0.5
    made = ((base + change * added) @ TURN.T).astype(np.float32), base.astype(np.float32)
    return lambda: made


def poor(size: float) -> Floats:
    return polar_factor(TURN + size * RNG.normal(size=TURN.shape)).astype(np.float32)


@pytest.mark.parametrize("widest", [16, 2048])
@pytest.mark.parametrize("size", [0.0, 0.05])
def test_rows_that_nobody_changed_teach_a_map_however_poor_the_first_is(size, widest, monkeypatch):
    monkeypatch.setattr("modelkin.comparison.relation.turned._WIDEST", widest)
    found = learned_turn(poor(size), [rows(200), rows(150, 0.05), rows(150, 0.05)])
    assert found is not None
    assert np.abs(found.matrix - TURN).max() < 1e-3
    assert found.error < 1e-3


def test_without_anything_in_common_there_is_no_map():
    mine, theirs = rows(2000)()[0], rows(2000)()[1]
    assert learned_turn(poor(0.05), [lambda: (mine, theirs)]) is None


@pytest.mark.parametrize(("n_tokens", "n_layers"), [(800, 2), (400, 6)])
def test_what_a_quantiser_took_from_a_layer_is_not_learned_into_a_wide_map(n_tokens, n_layers, monkeypatch):
    """The first rounds weigh the layer too much; the error that is left seems small, and is not."""
    monkeypatch.setattr("modelkin.comparison.relation.turned._WIDEST", 16)
    base = RNG.normal(size=(300, WIDTH)).astype(np.float32)
    coarse = base + RNG.uniform(-0.01, 0.01, size=base.shape)
    layer = (coarse @ TURN.T).astype(np.float32), base
    found = learned_turn(poor(0.05), [rows(n_tokens), *((lambda: layer) for _ in range(n_layers))])
    assert found is not None
    assert np.linalg.norm(found.matrix - TURN) / WIDTH**0.5 < 1e-5


def quantised(rows: np.ndarray, error: float, gain: Floats, *, levels: int) -> tuple[Floats, Floats]:
    """Return rows on symmetric levels of their own, off by the error of a map, and how far each may be."""
    step = np.abs(rows).max(axis=1, keepdims=True) / levels if levels else 0.0
    made = (np.round(rows / step) * step if levels else rows) * gain
    lengths = np.sqrt(np.mean(made**2, axis=1, keepdims=True))
    steps = np.broadcast_to(12**0.5 * error * lengths, rows.shape).astype(np.float32)
    # At width 4,096, numbers were off by a step and not by the third of one that the error is.
    return (made + steps * RNG.normal(size=rows.shape)).astype(np.float32), steps


@pytest.mark.parametrize("error", [3e-6, 3e-5])
@pytest.mark.parametrize("spread", [0.0, 0.5, 1.5])
def test_levels_are_found_in_rows_of_all_lengths_read_through_gains_of_all_sizes(spread, error):
    """One step for all of them took the numbers behind small gains for levels of their own."""
    rows = RNG.normal(size=(64, 512)) * np.exp(spread * RNG.normal(size=(64, 1)))
    gain = np.exp(0.4 * RNG.normal(size=512)).astype(np.float32)
    gain[::100] *= 0.1
    found = levels_before(*quantised(rows, error, gain, levels=127), gain)
    assert found is not None
    lattice, steps = found
    assert (lattice.bits, lattice.group, lattice.levels) == (8, 512, "symmetric")
    wanted = np.abs(rows).max(axis=1, keepdims=True) / 127 * gain
    assert np.allclose(steps, wanted, rtol=0.01)


@pytest.mark.parametrize("error", [1e-6, 1e-4, 1e-3])
def test_numbers_that_no_quantiser_touched_are_on_no_levels(error):
    gain = np.exp(0.4 * RNG.normal(size=256)).astype(np.float32)
    made = quantised(RNG.standard_t(4, size=(64, 256)), error, gain, levels=0)
    assert levels_before(*made, gain) is None


@pytest.mark.parametrize(("levels", "bits"), [(127, 8), (7, 4)])
def test_levels_are_found_in_lines_too_short_to_hit_all_of_them_twice(levels, bits):
    gain = np.ones(24, np.float32)
    made = quantised(RNG.normal(size=(64, 24)), 3e-6, gain, levels=levels)
    found = levels_before(*made, gain)
    assert found is not None
    assert (found[0].bits, found[0].group) == (bits, 24)
