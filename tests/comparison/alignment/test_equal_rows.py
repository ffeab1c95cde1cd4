"""Rows that hold the same numbers in another order are found, and equal numbers of a recipe are not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from modelkin.comparison.alignment import equal_rows
from modelkin.tensors import decode, encode

PAIRS = 10_000
Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]


def stored(values: npt.NDArray[np.floating], dtype: str) -> Floats:
    """Round numbers as a file does."""
    kept = decode(encode(values.astype(np.float32), dtype), dtype, values.size)
    return np.asarray(kept, np.float32).reshape(values.shape)


def trained(rows: int, width: int, seed: int = 1, dtype: str = "BF16") -> Floats:
    return stored(np.random.default_rng(seed).normal(size=(rows, width)) / 50, dtype)


def shuffled(table: Floats, seed: int = 3, *, rows: bool) -> tuple[Floats, Places, Places]:
    rng = np.random.default_rng(seed)
    columns = rng.permutation(table.shape[1])
    places = rng.permutation(len(table)) if rows else np.arange(len(table))
    return table[places][:, columns], places, columns


@pytest.mark.parametrize("width", [48, 256, 4096])
@pytest.mark.parametrize("rows", [False, True])
def test_a_table_in_another_order_is_found_with_its_order(width, rows):
    base = trained(64, width)
    candidate, places, _ = shuffled(base, rows=rows)
    found = equal_rows(candidate, base, n_pairs=PAIRS)
    assert found is not None
    assert len(found) == 64
    assert np.array_equal(places[found.candidate], found.base)
    assert found.in_place == (64 if not rows else np.count_nonzero(places == np.arange(64)))
    assert np.array_equal(candidate[found.candidate][:, found.columns], base[found.base])
    assert not found.in_order
    assert found.log10_p < -9


def test_chance_of_wide_rows_is_smaller():
    narrow, wide = (
        equal_rows(shuffled(base, rows=True)[0], base, n_pairs=PAIRS)
        for base in (trained(32, 48), trained(32, 4096))
    )
    assert narrow is not None
    assert wide is not None
    assert wide.log10_p < -100 < narrow.log10_p


def test_either_direction_finds_the_same():
    base = trained(64, 96)
    candidate = shuffled(base, rows=True)[0]
    candidate[:20] = trained(20, 96, seed=9)
    one, other = (equal_rows(*both, n_pairs=PAIRS) for both in ((candidate, base), (base, candidate)))
    assert one is not None
    assert other is not None
    assert sorted(one.base) == sorted(other.candidate)
    assert one.log10_p == other.log10_p
    assert len(one) == len(other) == 44


def test_rows_in_place_are_told():
    base = trained(16, 96)
    found = equal_rows(base.copy(), base, n_pairs=PAIRS)
    assert found is not None
    assert found.in_order
    assert found.in_place == 16


def sinusoid(rows: int, width: int) -> Floats:
    angles = np.arange(rows)[:, None] / 10000 ** (np.arange(width // 2)[None] * 2 / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def hadamard(n: int) -> Floats:
    made = np.ones((1, 1), np.float32)
    while len(made) < n:
        made = np.block([[made, made], [made, -made]])
    return made


def cosines(n: int) -> Floats:
    at = np.arange(n)
    return np.cos(np.pi * (2 * at[None] + 1) * at[:, None] / (2 * n)).astype(np.float32)


def circulant(n: int) -> Floats:
    row = trained(1, n)[0]
    return np.stack([np.roll(row, at) for at in range(n)])


RECIPES = {
    "constant": np.full((64, 96), 0.02, np.float32),
    "zeros": np.zeros((64, 96), np.float32),
    "identity": np.eye(96, dtype=np.float32),
    "sinusoid": sinusoid(128, 96),
    "wide sinusoid": sinusoid(512, 1024),
    "hadamard": hadamard(128),
    "cosine transform": cosines(97),
    "circulant": circulant(96),
    "ternary": np.random.default_rng(4).integers(-1, 2, (256, 4096)).astype(np.float32),
    "signs": np.sign(trained(256, 4096)),
    "one row again and again": np.repeat(trained(1, 96), 64, axis=0),
}


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("recipe", [name for name in RECIPES if "sinusoid" not in name])
def test_numbers_of_a_recipe_prove_nothing(recipe, rows):
    base = RECIPES[recipe]
    assert equal_rows(shuffled(base, rows=rows)[0], base, n_pairs=PAIRS) is None


@pytest.mark.parametrize("recipe", ["sinusoid", "wide sinusoid"])
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_sinusoids_prove_nothing_while_rows_are_in_order(recipe, dtype):
    """That each row goes on from the one before is all that tells them from other numbers."""
    base = stored(RECIPES[recipe], dtype)
    assert equal_rows(shuffled(base, rows=False)[0], base, n_pairs=PAIRS) is None


@pytest.mark.parametrize("dtype", ["F32", "BF16", "F8_E4M3"])
def test_strangers_have_no_equal_rows(dtype):
    assert equal_rows(trained(512, 64, 1, dtype), trained(512, 64, 2, dtype), n_pairs=512**2) is None


def test_gains_with_few_distinct_values_prove_nothing_and_others_do():
    base = np.ones((9, 4096), np.float32)
    base[:, :3] = 1.0078125
    assert equal_rows(shuffled(base, rows=False)[0], base, n_pairs=PAIRS, table=False) is None
    rng = np.random.default_rng(5)
    gains = stored(rng.normal(1, 0.1, (9, 4096)), "BF16")
    assert len(np.unique(gains[0])) < 200
    found = equal_rows(shuffled(gains, rows=False)[0], gains, n_pairs=PAIRS, table=False)
    assert found is not None
    assert len(found) == 9


def test_rows_that_were_shuffled_one_by_one_have_no_common_order():
    base = trained(32, 96)
    rng = np.random.default_rng(6)
    assert equal_rows(np.stack([rng.permutation(row) for row in base]), base, n_pairs=PAIRS) is None


def test_what_changes_numbers_defeats_it():
    base = trained(32, 96)
    candidate = shuffled(base, rows=False)[0]
    assert equal_rows(-candidate, base, n_pairs=PAIRS) is None
    assert equal_rows(2 * candidate, base, n_pairs=PAIRS) is None
    assert equal_rows(candidate[:, :64], base, n_pairs=PAIRS) is None
