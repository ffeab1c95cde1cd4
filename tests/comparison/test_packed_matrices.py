"""Matrices of a relation are held in half the memory, and are the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support import to_bfloat16

from modelkin.comparison.relation.packed import Packed


def matrix(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    values = rng.standard_normal(shape, dtype=np.float32)
    values[0, :4] = 0.0, -0.0, np.inf, np.nan
    return values


def rounded(values: np.ndarray, kind: str) -> np.ndarray:
    if kind == "BF16":
        return (to_bfloat16(values).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float16).astype(np.float32) if kind == "F16" else values


@pytest.mark.parametrize(("kind", "n_bytes"), [("BF16", 2), ("F16", 2), ("F32", 4)])
@pytest.mark.parametrize("shape", [(3, 7), (1_500, 1_024)])
def test_what_was_packed_is_what_comes_out(kind, n_bytes, shape):
    values = rounded(matrix(*shape), kind)
    packed = Packed.of(values)
    assert packed.codes.itemsize == n_bytes
    assert packed.wide().dtype == np.float32
    assert np.array_equal(packed.wide().view(np.uint32), values.view(np.uint32))


def test_one_number_that_needs_more_bits_keeps_all_of_them():
    values = rounded(matrix(1_500, 1_024), "BF16")
    values[-1, -1] = 1e-30 + 1e-37
    assert Packed.of(values).codes.dtype == np.float32
