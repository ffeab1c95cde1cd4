"""The path through all pairs of layers."""

import numpy as np
import pytest

from modelkin.comparison.alignment import layer_map, likely_pairs
from modelkin.comparison.alignment.layers import layer_path

GROWN = (0, 1, 2, 3, 2, 3, 4, 5)


def scores_of(facing, n_columns, *, z=20.0, seed=0):
    table = np.random.default_rng(seed).normal(size=(len(facing), n_columns))
    for row, column in enumerate(facing):
        if column is not None:
            table[row, column] += z
    return table


@pytest.mark.parametrize("facing", [(0, 1, 2, 3), GROWN, (0, None, 2), (None, None), (3, 2, 1, 0), (1, 1, 1)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_path_that_is_there_is_found(facing, sign):
    assert layer_path(sign * scores_of(facing, 6), threshold=4.5) == facing


def test_strangers_have_none():
    assert layer_path(scores_of((None,) * 12, 12), threshold=4.5) == (None,) * 12


def test_between_layers_alike_the_next_one_is_taken():
    """Both base layers 1 and 3 fit; after 0 comes 1, and after 2 comes 3."""
    table = np.full((4, 4), 0.0)
    table[0, 0] = table[2, 2] = 9.0
    table[1, [1, 3]] = table[3, [1, 3]] = 9.0
    assert layer_path(table, threshold=4.0) == (0, 1, 2, 3)


def test_cells_that_cannot_be_compared_are_passed_over():
    table = scores_of((0, 1, 2), 3)
    table[1] = np.nan
    assert layer_path(table, threshold=4.5) == (0, None, 2)
    assert layer_path(np.zeros((0, 3)), threshold=4.5) == ()


def made(scores, **options):
    return layer_map(
        component="mlp",
        method="mlp-map",
        frame="identity",
        candidate_layers=[10, 11, 12],
        base_layers=[20, 21],
        scores=np.asarray(scores),
        threshold=4.0,
        **options,
    )


def test_a_map_speaks_of_layers_by_their_numbers():
    found = made([[9.0, 0.0], [np.nan, np.nan], [1.0, -8.0]])
    assert found.path == ((10, 20), (12, 21))
    assert found.n_cells == 4
    assert [found.best_of(layer) for layer in (10, 11, 12)] == [20, None, 21]


def test_where_cells_do_not_mean_equal_layers_they_only_hint():
    found = made([[9.0, 0.0], [0.0, -9.0], [1.0, 8.0]], same_layers=False)
    assert found.path == ()
    assert likely_pairs(found) == ((10, 20), (12, 21))  # a negative coupling is no hint
