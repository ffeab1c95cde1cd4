"""Positions on the map: every model has its own."""

import numpy as np
import pytest
from tests.atlas.made import drawn_atlas

from modelkin.atlas import graph_layout


@pytest.mark.parametrize(("n", "family"), [(1 + 1, 2), (7, 3), (500, 500), (10_000, 137)])
def test_no_two_models_stand_in_one_place(n, family):
    atlas = drawn_atlas(n, family=family)
    layout = graph_layout(atlas)
    assert layout.places.shape == (n, 2)
    assert np.isfinite(layout.places).all()
    assert len(np.unique(layout.places.round(), axis=0)) == n
    assert layout.edges.shape == (len(atlas.edges), 2)


def test_the_same_atlas_gives_the_same_picture():
    first, second = (graph_layout(drawn_atlas(60, family=7)) for _ in range(2))
    np.testing.assert_array_equal(first.places, second.places)


def test_families_do_not_overlap():
    atlas = drawn_atlas(300, family=30)
    layout = graph_layout(atlas)
    number = {ref: at for at, ref in enumerate(layout.refs)}
    boxes = []
    for family in atlas.families:
        places = layout.places[[number[ref] for ref in family.members]]
        boxes.append((*places.min(axis=0), *places.max(axis=0)))
    for at, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[at + 1 :]:
            assert right < other[0] or other[2] < left or bottom < other[1] or other[3] < top
