from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.support import VirtualFile, to_bfloat16


def test_any_range_equals_the_same_part_of_the_whole():
    file = VirtualFile(size=9_000_000, head=b"0123456789")
    whole = file.read(0, file.size)
    assert len(whole) == file.size
    assert whole.startswith(file.head)
    rng = np.random.default_rng(0)
    for start, length in zip(rng.integers(0, file.size, 50), rng.integers(0, 5_000_000, 50), strict=True):
        assert file.read(start, start + length) == whole[start : start + length]


def test_shards_go_on_where_others_end():
    whole = VirtualFile(size=6_000_000)
    second = VirtualFile(size=4_000_000, phase=2_000_000)
    assert second.read(0, second.size) == whole.read(2_000_000, whole.size)


@pytest.mark.parametrize(("fill", "dtype"), [("BF16", ml_dtypes.bfloat16), ("F16", "<f2"), ("F32", "<f4")])
def test_numbers_are_normal(fill, dtype):
    file = VirtualFile(size=1_000_003, head=b"odd", fill=fill)
    values = np.frombuffer(file.read(3, file.size), dtype).astype(np.float64)
    np.testing.assert_allclose(values.std(), 0.02, rtol=0.01)


def test_identity_depends_on_every_field():
    files = [
        VirtualFile(size=9),
        VirtualFile(size=8),
        VirtualFile(size=9, head=b"x"),
        VirtualFile(size=9, fill="zeros"),
        VirtualFile(size=9, seed=1),
        VirtualFile(size=9, phase=1),
    ]
    assert len({file.sha256 for file in files}) == len(files)
    assert VirtualFile(size=9).sha256 == files[0].sha256


def test_a_head_longer_than_the_file_is_refused():
    with pytest.raises(ValueError, match="size must be at least"):
        VirtualFile(size=1, head=b"xx")


def test_bfloat16_against_ml_dtypes():
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint32)
    ties = (bits & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    values = np.concatenate([bits, ties]).view(np.float32)
    with np.errstate(invalid="ignore"):
        expected = values.astype(ml_dtypes.bfloat16)
    got = to_bfloat16(values).view(ml_dtypes.bfloat16)
    is_nan = np.isnan(values)
    assert is_nan.any()
    np.testing.assert_array_equal(np.isnan(got), is_nan)
    np.testing.assert_array_equal(got.view(np.uint16)[~is_nan], expected.view(np.uint16)[~is_nan])
