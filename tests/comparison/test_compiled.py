"""The compiled way of counting says what numpy says: needs numba, which comes with the extra `fast`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from modelkin.comparison.relation.tally import Tally, chosen_kernel, kernels, tally_with_numpy
from modelkin.tensors import encode

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
@pytest.mark.parametrize("share", [0.0, 0.001, 1.0])
@pytest.mark.parametrize("n", [1, 7, 4096, 100_003])
def test_both_ways_of_counting_agree(dtype, share, n):
    rng = np.random.default_rng(n)
    unsigned: Any = np.uint32 if dtype == "F32" else np.uint16
    base = np.frombuffer(encode(rng.standard_normal(n).astype(np.float32), dtype), unsigned).copy()
    base[rng.random(n) < 0.01] = 0
    moved = rng.integers(-20, 20, n).astype(unsigned) * (rng.random(n) < share)
    compiled, plain = (kernel(base + moved, base, dtype) for kernel in (kernels()["numba"], tally_with_numpy))
    for name in ("values", "equal", "near", "nearby", "zeros", "base_zeros"):
        assert getattr(compiled, name) == getattr(plain, name), name
    for name in ("difference", "base", "largest"):
        assert getattr(compiled, name) == pytest.approx(getattr(plain, name), rel=1e-4, nan_ok=True), name


def test_small_models_are_counted_without_compiling():
    assert chosen_kernel(1_000_000) is tally_with_numpy
    assert chosen_kernel(50_000_000_000) is kernels()["numba"]


def test_a_difference_that_is_no_number_is_not_lost_when_sums_are_added():
    total = Tally(largest=float("nan"))
    total.add(Tally(largest=1.0))
    assert np.isnan(total.largest)
