"""Number types of GGUF against the `gguf` package: sizes, and decoded blocks to the last bit."""

import tracemalloc

import gguf
import numpy as np
import pytest
from tests.support.amount import every

from modelkin.formats.gguf.types import TYPES, UNREAD, decode_rows

CODED = [kind for kind in TYPES.values() if kind.plain is None]


def test_the_table_is_that_of_the_gguf_package():
    official = {kind.value: (kind.name, *gguf.GGML_QUANT_SIZES[kind]) for kind in gguf.GGMLQuantizationType}
    assert {kind.number: (kind.name, kind.block, kind.block_bytes) for kind in TYPES.values()} == {
        number: row for number, row in official.items() if number not in UNREAD
    }
    assert {number: name for number, name in UNREAD.items() if number in official} == {
        number: row[0] for number, row in official.items() if number in UNREAD
    }


@pytest.mark.parametrize("number", [number for number in UNREAD if number in list(gguf.GGMLQuantizationType)])
def test_types_without_a_reader_have_none_in_the_gguf_package_either(number):
    kind = gguf.GGMLQuantizationType(number)
    block_bytes = gguf.GGML_QUANT_SIZES[kind][1]
    with pytest.raises(NotImplementedError, match=kind.name):
        gguf.quants.dequantize(np.zeros((1, block_bytes), np.uint8), kind)


@pytest.mark.parametrize("kind", CODED, ids=lambda kind: kind.name)
@pytest.mark.parametrize("n_blocks", [1, 7, 2100])
def test_any_bytes_are_decoded_to_the_same_bits(kind, n_blocks):
    rng = np.random.default_rng(n_blocks)
    coded = rng.integers(0, 256, (n_blocks, kind.block_bytes), dtype=np.uint8)
    with np.errstate(all="ignore"):
        expected = gguf.quants.dequantize(coded, gguf.GGMLQuantizationType(kind.number))
    decoded = decode_rows(coded.tobytes(), kind, n_rows=n_blocks, width=kind.block)
    assert decoded.dtype == np.float32
    np.testing.assert_array_equal(decoded.view(np.uint32), expected.reshape(decoded.shape).view(np.uint32))


@pytest.mark.parametrize("kind", every(5, CODED), ids=lambda kind: kind.name)
def test_decoding_takes_little_memory_beside_the_result(kind):
    n_blocks = (1 << 22) // kind.block
    coded = bytes(n_blocks * kind.block_bytes)
    decode_rows(coded[: kind.block_bytes], kind, n_rows=1, width=kind.block)  # tables of the type are made
    tracemalloc.start()
    try:
        decoded = decode_rows(coded, kind, n_rows=n_blocks, width=kind.block)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * decoded.nbytes


@pytest.mark.parametrize("kind", CODED, ids=lambda kind: kind.name)
def test_rows_of_several_blocks_keep_their_order(kind):
    rng = np.random.default_rng(0)
    coded = rng.integers(0, 256, (3, 2 * kind.block_bytes), dtype=np.uint8)
    whole = decode_rows(coded.tobytes(), kind, n_rows=3, width=2 * kind.block)
    single = decode_rows(coded[1].tobytes(), kind, n_rows=1, width=2 * kind.block)
    np.testing.assert_array_equal(whole[1:2].view(np.uint32), single.view(np.uint32))


@pytest.mark.parametrize("name", ["F32", "F16", "BF16"])
def test_plain_types_are_decoded_as_everywhere(name):
    kind = next(kind for kind in TYPES.values() if kind.name == name)
    values = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    coded = gguf.quants.quantize(values, gguf.GGMLQuantizationType(kind.number))
    expected = gguf.quants.dequantize(coded, gguf.GGMLQuantizationType(kind.number))
    np.testing.assert_array_equal(decode_rows(coded.tobytes(), kind, n_rows=4, width=6), expected)


@pytest.mark.parametrize("name", ["Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0"])
def test_quantised_numbers_come_back_within_a_step(name):
    kind = next(kind for kind in TYPES.values() if kind.name == name)
    values = np.random.default_rng(0).uniform(-1, 1, (8, 64)).astype(np.float32)
    coded = gguf.quants.quantize(values, gguf.GGMLQuantizationType(kind.number))
    decoded = decode_rows(coded.tobytes(), kind, n_rows=8, width=64)
    step = {"Q8_0": 2 / 254, "Q5_1": 2 / 31, "Q5_0": 2 / 31, "Q4_1": 2 / 15, "Q4_0": 2 / 15}[name]
    assert np.abs(decoded - values).max() < 1.1 * step
