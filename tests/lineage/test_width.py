"""Merges and trees at the width that users have: 4,096, with the rows of a real vocabulary."""

import json

import ml_dtypes
import numpy as np
import pytest
from tests.support import LlamaShape, llama_config, llama_tensors

from modelkin import MemorySource, explain_merge, family_forest
from modelkin.formats.safetensors import safetensors_bytes
from modelkin.model import open_models
from modelkin.options import READING, FetchOptions

pytestmark = pytest.mark.scale

SHAPE = LlamaShape(layers=1, hidden=4096, mlp=1024, heads=32, kv_heads=4, vocab=32_000, tied=True)
COLLECTION = LlamaShape(layers=1, hidden=4096, mlp=1024, heads=32, kv_heads=4, vocab=8_000, tied=True)


def stored(tensors, name, shape=SHAPE):
    weights = safetensors_bytes({key: values.astype(ml_dtypes.bfloat16) for key, values in tensors.items()})
    config = json.dumps(llama_config(shape, dtype="BF16")).encode()
    return MemorySource({"config.json": config, "model.safetensors": weights}, name=name)


def changed(base, seed):
    rng = np.random.default_rng(seed)
    return {
        name: values + np.float32(0.002) * rng.standard_normal(values.shape, dtype=np.float32)
        for name, values in base.items()
    }


def test_a_merge_is_taken_apart_at_full_width_within_the_bytes_of_the_depth():
    base = llama_tensors(SHAPE, seed=0)
    first, second = changed(base, 1), changed(base, 2)
    made = {name: np.float32(0.3) * first[name] + np.float32(0.7) * second[name] for name in base}
    parents = [stored(first, "first"), stored(second, "second")]
    found = explain_merge(stored(made, "made"), parents)
    assert found.conclusion == "merge"
    assert found.opposition is not None
    assert found.opposition.low > 0.9
    np.testing.assert_allclose([share.value for share in found.weights], [0.3, 0.7], atol=0.01)
    assert found.read.bytes_fetched <= 3 * READING["standard"][0]
    ancestor = explain_merge(stored(base, "base"), parents)
    assert ancestor.conclusion == "not-a-merge"
    assert ancestor.opposition is not None
    # Gains near one change by less than bfloat16 holds: rounding is common to both, and lowers it a little.
    assert -0.3 < ancestor.opposition.value < 0.05
    assert ancestor.gain == pytest.approx(0.5, abs=0.1)


def tuned(base, seed, *, untouched):
    """Return what a fine-tune makes of a model: rows of unseen tokens get nothing but weight decay."""
    made = changed(base, seed)
    rows = base["model.embed_tokens.weight"]
    kept = np.float32(0.995) * rows[:untouched]
    return {
        **made,
        "model.embed_tokens.weight": np.concatenate([kept, made["model.embed_tokens.weight"][untouched:]]),
    }


def rounded(tensors):
    """Return the values as a file of bfloat16 holds them."""
    return {name: values.astype(ml_dtypes.bfloat16).astype(np.float32) for name, values in tensors.items()}


def test_a_tree_at_full_width_names_parents_and_directions_within_the_bytes_of_the_depth():
    base = rounded(llama_tensors(COLLECTION, seed=0))
    first = rounded(tuned(base, 1, untouched=4_000))
    second = rounded(tuned(base, 2, untouched=4_000))
    third = rounded(tuned(first, 3, untouched=4_000))
    made = {"base": base, "first": first, "second": second, "third": third}
    made["stranger"] = rounded(llama_tensors(COLLECTION, seed=9))
    sources = {name: stored(tensors, name, COLLECTION) for name, tensors in made.items()}
    made.clear()
    with open_models(list(sources.values()), FetchOptions()) as opened:
        models = dict(zip(sources, opened, strict=True))
        found = family_forest(models, relations=False)
        read = {name: model.totals().bytes_fetched for name, model in models.items()}
    assert found.alone == ("stranger",)
    assert {(edge.parent, edge.child) for edge in found.edges} == {
        ("base", "first"),
        ("base", "second"),
        ("first", "third"),
    }
    # Of each model once for the samples, once for the fingerprint, and for each of four comparisons.
    assert max(read.values()) <= 6 * READING["standard"][0]
