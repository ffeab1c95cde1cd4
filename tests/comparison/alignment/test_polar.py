"""Maps of the residual stream: both ways to the polar factor, and what is tried when."""

import numpy as np
import pytest

from modelkin.comparison.alignment import Frame, find_frame
from modelkin.comparison.alignment import residual as residual_module
from modelkin.comparison.alignment.residual import polar_factor
from modelkin.message import say


def drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(96, 96), (120, 80), (80, 120)])
def test_eigenvectors_and_decomposition_lead_to_the_same_polar_factor(shape, monkeypatch):
    matrix = drawn(1, *shape) * np.logspace(0, -3, shape[1])
    by_decomposition = polar_factor(matrix)
    monkeypatch.setattr(residual_module, "_SMALL", 8)
    monkeypatch.setattr(residual_module, "_STRIPE", 32)
    by_eigenvectors = polar_factor(matrix)
    np.testing.assert_allclose(by_eigenvectors, by_decomposition, atol=1e-8)
    narrow = by_eigenvectors if shape[0] >= shape[1] else by_eigenvectors.T
    np.testing.assert_allclose(narrow.T @ narrow, np.eye(min(shape)), atol=1e-12)


def test_directions_that_are_not_determined_come_out_as_zero_by_eigenvectors(monkeypatch):
    monkeypatch.setattr(residual_module, "_SMALL", 8)
    left, right = (np.linalg.qr(drawn(seed, 40, 40).astype(np.float64))[0] for seed in (2, 3))
    sizes = np.r_[np.ones(30), np.zeros(10)]
    np.testing.assert_allclose(polar_factor((left * sizes) @ right), (left * sizes) @ right, atol=1e-8)


@pytest.mark.parametrize(("n_rows", "width", "n_learned"), [(192, 64, 96), (128, 64, 96), (80, 64, 48)])
def test_more_than_half_of_the_rows_are_learned_from_only_where_they_are_few(n_rows, width, n_learned):
    rows = drawn(4, n_rows, width)
    found = find_frame(rows, rows, learned_from=say("embedding-rows"), seed=0)
    assert isinstance(found, Frame)
    assert found.n_rows == n_learned


def test_a_rotation_is_found_with_fewer_rows_than_twice_the_width():
    rows = drawn(5, 180, 128)
    turn = np.linalg.qr(drawn(6, 128, 128))[0]
    found = find_frame(rows, rows @ turn, learned_from=say("embedding-rows"), seed=0)
    assert isinstance(found, Frame)
    assert found.kind == "rotation"
    assert found.fit > 0.99


def test_no_rotation_is_learned_where_distances_have_nothing_in_common(monkeypatch):
    def fail(matrix, rank=None):
        raise AssertionError("a rotation was learned")

    monkeypatch.setattr(residual_module, "polar_factor", fail)
    found = find_frame(drawn(7, 2000, 64), drawn(8, 2000, 64), learned_from=say("embedding-rows"), seed=0)
    assert isinstance(found, Frame)
    assert found.kind == "identity"
    related = drawn(7, 2000, 64) @ np.linalg.qr(drawn(9, 64, 64))[0] + 2 * drawn(10, 2000, 64)
    with pytest.raises(AssertionError, match="was learned"):
        find_frame(drawn(7, 2000, 64), related, learned_from=say("embedding-rows"), seed=0)


def test_rows_of_the_caller_are_left_as_they_are():
    mine, theirs = drawn(11, 200, 16), drawn(12, 200, 16)
    before = mine.copy(), theirs.copy()
    find_frame(mine, theirs, learned_from=say("embedding-rows"), seed=0)
    np.testing.assert_array_equal(mine, before[0])
    np.testing.assert_array_equal(theirs, before[1])
