from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tensors.fakes import info_of

from modelkin.tensors import Blocks, plan_slice, sample_blocks, sample_rows
from modelkin.tensors.slices import Rows, ScatteredRows


def blocks_of(wanted) -> list[tuple[int, int]]:
    assert isinstance(wanted.selection, Blocks)
    return list(wanted.selection.blocks)


def rows_of(wanted) -> list[int]:
    match wanted.selection:
        case Rows(start, stop):
            return list(range(start, stop))
        case ScatteredRows(rows):
            return list(rows)
    raise AssertionError(wanted)


def shuffled_start(texts: list[str], n: int) -> list[int]:
    """The documented algorithm, written out with the whole list of places."""
    places = list(range(n))
    for c, text in enumerate(texts):
        u = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
        other = c + (u * (n - c) >> 64)
        places[c], places[other] = places[other], places[c]
    return sorted(places[: len(texts)])


class TestAsDocumented:
    @given(k=st.integers(1, 19), seed=st.integers(0, 2**70))
    def test_rows(self, k, seed):
        texts = [f"modelkin-sample-1|{seed}|20x3|rows|{c}|t" for c in range(k)]
        assert rows_of(sample_rows(info_of((20, 3)), n_rows=k, seed=seed)) == shuffled_start(texts, 20)

    @given(k=st.integers(1, 11))
    def test_blocks(self, k):
        texts = [f"modelkin-sample-1|5|10x5|blocks:4|{c}|t" for c in range(k)]
        expected = [(4 * i, 4 * i + 4) for i in shuffled_start(texts, 12)]
        assert blocks_of(sample_blocks(info_of((10, 5)), n_blocks=k, block_elements=4, seed=5)) == expected

    def test_a_run(self):
        digest = blake2b(b"modelkin-sample-1|5|100|run:7|0|t", digest_size=8).digest()
        start = int.from_bytes(digest, "little") * 94 >> 64
        wanted = sample_rows(info_of((100,)), n_rows=7, seed=5, contiguous=True)
        assert rows_of(wanted) == list(range(start, start + 7))

    def test_positions_never_change_between_versions(self):
        # Written down once; a report's sample must be the same sample for ever.
        info = info_of((4096, 4096), name="model.layers.0.mlp.up_proj.weight")
        assert blocks_of(sample_blocks(info, n_blocks=3, block_elements=1 << 16, seed=0)) == [
            (1769472, 1835008),
            (2359296, 2424832),
            (8060928, 8126464),
        ]
        assert rows_of(sample_rows(info, n_rows=4, seed=0)) == [1581, 2880, 2940, 3213]


@given(n=st.integers(1, 500), block=st.integers(1, 60), k=st.integers(1, 30), seed=st.integers(0, 9))
def test_blocks_are_disjoint_sorted_aligned_and_inside(n, block, k, seed):
    info = info_of((n,))
    wanted = sample_blocks(info, n_blocks=k, block_elements=block, seed=seed)
    pairs = blocks_of(wanted)
    if n // block <= k:
        assert pairs == [(0, n)]
    else:
        assert len(pairs) == k
        assert all(start % block == 0 and stop == start + block <= n for start, stop in pairs)
        assert all(one[1] <= other[0] for one, other in pairwise(pairs))
    assert plan_slice(wanted, info).shape == (sum(stop - start for start, stop in pairs),)


@given(n=st.integers(1, 200), k=st.integers(1, 200), contiguous=st.booleans())
def test_rows_are_distinct_sorted_and_inside(n, k, contiguous):
    rows = rows_of(sample_rows(info_of((n, 2)), n_rows=k, seed=1, contiguous=contiguous))
    assert len(rows) == min(n, k)
    assert rows == sorted(set(rows))
    assert 0 <= rows[0] <= rows[-1] < n


def test_a_smaller_sample_is_part_of_a_larger_one():
    info = info_of((1000, 2))
    small = rows_of(sample_rows(info, n_rows=10, seed=1))
    assert set(small) < set(rows_of(sample_rows(info, n_rows=100, seed=1)))


def test_seed_name_and_shape_decide():
    def sample(
        shape: tuple[int, ...] = (1000, 2), name: str = "t", seed: int = 1, key: str | None = None
    ) -> list[int]:
        return rows_of(sample_rows(info_of(shape, name=name), n_rows=10, seed=seed, key=key))

    assert sample() == sample()
    assert sample() != sample(seed=2)
    assert sample() != sample(name="u")
    assert sample() != sample(shape=(1000, 3))
    assert sample(key="k") == sample(name="u", key="k")


def test_every_row_is_as_likely_as_every_other():
    counts = np.zeros(10)
    for seed in range(2000):
        counts[rows_of(sample_rows(info_of((10,)), n_rows=3, seed=seed))] += 1
    # 600 expected, standard deviation 20.5; six of them for ten rows.
    assert np.all(np.abs(counts - 600) < 123)


@pytest.mark.parametrize(
    ("numbers", "name"), [((0, 4, 0), "n_blocks"), ((1, 0, 0), "block_elements"), ((1, 4, -1), "seed")]
)
def test_impossible_numbers_are_refused(numbers: tuple[int, int, int], name: str):
    n_blocks, block_elements, seed = numbers
    with pytest.raises(ValueError, match=f"{name}: expected a whole number from"):
        sample_blocks(info_of((100,)), n_blocks=n_blocks, block_elements=block_elements, seed=seed)
