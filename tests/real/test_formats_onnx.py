"""Published models in ONNX, as they lie in their packages: copies, two quantisers, and a stranger."""

from __future__ import annotations

import numpy as np
import pytest
from tests.real.published import published, whisper_tiny_en

import modelkin as mk

POOLER = {"pooler.dense.weight", "pooler.dense.bias"}
"""Exported encoders end before it."""


@pytest.fixture(scope="module")
def original():
    with mk.open_model(str(published("minilm"))) as model:
        yield model


def test_minilm_in_onnx_has_the_weights_of_minilm_bit_for_bit(original):
    with mk.open_model(str(published("minilm_onnx"))) as model:
        assert model.weights.format == "onnx"
        assert set(original.index) - set(model.index) == POOLER
        for name, info in model.index.items():
            assert info.dtype == original.index[name].dtype
            assert model.tensor(name).tobytes() == original.tensor(name).tobytes()
        assert "36 weights had lost their names; these were recovered from the graph" in list(
            map(str, model.weights.notes)
        )


def test_opening_reads_a_hundredth_of_the_file():
    with mk.open_model(str(published("minilm_onnx"))) as model:
        assert len(model.index) == 102
        assert model.totals().bytes_fetched < model.index.n_bytes / 100


@pytest.mark.parametrize("key", ["minilm_int8", "minilm_int8_other"])
def test_quantised_minilm_has_every_weight_of_minilm_nearly(original, key):
    with mk.open_model(str(published(key))) as model:
        assert set(original.index) - set(model.index) == POOLER
        assert mk.inspect_model(model).unknown == ()
        assert model.architecture.sizes["heads"] == 12
        for name, info in model.index.items():
            if info.is_float:
                found, expected = model.tensor(name), original.tensor(name)
                cosine = np.vdot(found, expected) / np.linalg.norm(found) / np.linalg.norm(expected)
                assert cosine > 0.98


@pytest.mark.parametrize("key", ["minilm_onnx", "gte", "minilm_int8"])
def test_comparing_turned_matrices_keeps_to_the_bytes_of_the_standard_depth(key):
    # With a budget no walk over all values is made, which files on this machine would allow.
    options = mk.CompareOptions(fetch=mk.FetchOptions(byte_budget=20_000_000))
    result = mk.compare(candidate=str(published(key)), base=str(published("minilm")), options=options)
    for side in ("candidate", "base"):
        lengths = [item.stop - item.start for item in result.ledger.ranges if item.model == side]
        assert sum(lengths) <= 20_000_000


def test_minilm_in_onnx_shows_as_much_as_a_copy_that_is_stored_by_rows():
    turned, by_rows = (
        mk.compare(candidate=str(published(key)), base=str(published("minilm"))).verdict.components
        for key in ("minilm_onnx", "minilm_f16")
    )
    for name in ("mlp", "attention", "embedding", "norms"):
        found, expected = turned[name].log10_p, by_rows[name].log10_p
        assert found is not None
        assert expected is not None
        assert found <= 0.95 * expected


def test_whisper_in_onnx_is_read_from_two_files_and_is_not_accused_of_its_english_sibling():
    folder = published("whisper_onnx")
    with mk.open_model(str(folder)) as model:
        assert model.architecture.family == "whisper"
        assert mk.inspect_model(model).unknown == ()
        assert len(model.index.files) == 2
    result = mk.compare(candidate=str(folder), base=whisper_tiny_en())
    assert result.verdict.conclusion.value == "no-evidence"
