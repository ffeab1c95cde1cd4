"""The map that turns a rotated residual stream back is learned again, at small and at large widths."""

from __future__ import annotations

import numpy as np
import pytest

from modelkin.comparison.alignment import polar_factor
from modelkin.comparison.relation.turned import Floats, Vectors, learned_turn

WIDTH = 128
RNG = np.random.default_rng(7)
TURN = polar_factor(RNG.normal(size=(WIDTH, WIDTH))).astype(np.float32)
"""From the candidate's coordinates to the base's."""


def rows(n: int, change: float = 0.0) -> Vectors:
    """Return rows over both streams, the candidate's changed by so much in a few directions."""
    base = RNG.normal(size=(n, WIDTH))
    added = RNG.normal(size=(n, 2)) @ RNG.normal(size=(2, WIDTH)) / 2**0.5
    return ((base + change * added) @ TURN.T).astype(np.float32), base.astype(np.float32)


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
    mine, _ = rows(2000)
    assert learned_turn(poor(0.05), [(mine, rows(2000)[1])]) is None


@pytest.mark.parametrize(("n_tokens", "n_layers"), [(800, 2), (400, 6)])
def test_what_a_quantiser_took_from_a_layer_is_not_learned_into_a_wide_map(n_tokens, n_layers, monkeypatch):
    """The first rounds weigh the layer too much; the error that is left seems small, and is not."""
    monkeypatch.setattr("modelkin.comparison.relation.turned._WIDEST", 16)
    base = RNG.normal(size=(300, WIDTH)).astype(np.float32)
    coarse = base + RNG.uniform(-0.01, 0.01, size=base.shape)
    layer = (coarse @ TURN.T).astype(np.float32), base
    found = learned_turn(poor(0.05), [rows(n_tokens), *(layer for _ in range(n_layers))])
    assert found is not None
    assert np.linalg.norm(found.matrix - TURN) / WIDTH**0.5 < 1e-5
