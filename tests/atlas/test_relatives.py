"""Pairs of a registry: what the signs choose is what testing everything finds."""

from itertools import combinations

import pytest
from tests.atlas.made import drawn_family

from modelkin.atlas import relatives
from modelkin.atlas.groups import connected
from modelkin.atlas.relatives import all_kin
from modelkin.progress import Silent


@pytest.fixture(scope="module")
def made():
    return [
        *drawn_family("one", 4, seed=100),
        *drawn_family("two", 3, seed=200),
        *drawn_family("x", 1, seed=3),
    ]


@pytest.fixture(scope="module")
def whole(made):
    return all_kin(made, Silent())


def found(result):
    return {(item.first, item.second) for item in result.kin if item.found}


def test_relatives_are_found_and_strangers_are_not(whole):
    assert found(whole) == {*combinations(range(4), 2), *combinations(range(4, 7), 2)}
    assert whole.n_tested == 28
    assert all(item.log10_p < -6 for item in whole.kin if item.found)


def test_signs_lose_nothing_and_spare_strangers(made, whole, monkeypatch):
    monkeypatch.setattr(relatives, "MOST_EXHAUSTIVE", 0)
    chosen = all_kin(made, Silent())
    assert found(chosen) == found(whole)
    assert chosen.n_tested < whole.n_tested


@pytest.mark.more
@pytest.mark.parametrize("block", [1, 3])
def test_blocks_of_any_size_give_the_same(made, whole, monkeypatch, block):
    monkeypatch.setattr(relatives, "_HELD", 2)
    assert all_kin(made, Silent(), block=block) == whole
    monkeypatch.setattr(relatives, "MOST_EXHAUSTIVE", 0)
    assert all_kin(made, Silent(), block=block) == all_kin(made, Silent())


def test_groups_are_what_pairs_connect():
    assert connected(6, [(0, 3), (5, 3), (1, 2)]) == [[0, 3, 5], [1, 2], [4]]
    assert connected(0, []) == []
