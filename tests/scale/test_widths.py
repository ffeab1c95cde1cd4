"""What is true at the zoo's width of 128 is true at realistic widths."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support import LlamaShape, llama_config, llama_tensors
from tests.support.amount import marked

import modelkin as mk
from modelkin.casework.lab import derive
from modelkin.casework.lab.checkpoint import Checkpoint
from modelkin.source import MemorySource


def model(width: int, seed: int) -> Checkpoint:
    """Return a model of that width with gains that are not constant."""
    shape = LlamaShape(layers=4, hidden=width, mlp=2 * width, heads=8, kv_heads=8, vocab=512)
    rng = np.random.default_rng(seed)
    tensors = {
        name: (values * rng.lognormal(sigma=0.2, size=values.shape)).astype(np.float32)
        if values.ndim == 1
        else values
        for name, values in llama_tensors(shape, seed=seed).items()
    }
    return Checkpoint(config=llama_config(shape), tensors=tensors)


def compared(candidate: Checkpoint, base: Checkpoint) -> mk.Comparison:
    options = mk.CompareOptions(depth="deep", fetch=mk.FetchOptions(use_store=False))
    sides = [MemorySource(item.files("BF16"), name=name) for name, item in (("c", candidate), ("b", base))]
    return mk.compare(candidate=sides[0], base=sides[1], options=options)


@pytest.mark.parametrize("width", marked([256, 1_024], lambda width: width == 256))
def test_a_noisy_copy_with_units_and_heads_reordered_is_found(width):
    base, rng = model(width, 1), np.random.default_rng(5)
    copy = derive.add_noise(base, size=0.05, rng=rng)
    copy = derive.permute_heads(derive.permute_mlp_units(copy, rng=rng), rng=rng)
    copy = derive.renew_embeddings(copy, rng=rng)
    gains = model(width, 2).tensors
    copy = copy.with_tensors({name: gains[name] for name in copy.tensors if "norm" in name})
    verdict = compared(copy, base).verdict
    assert verdict.related
    assert verdict.log10_p is not None
    assert verdict.log10_p < -20


@pytest.mark.parametrize("width", marked([256, 1_024], lambda width: False, lambda width: width == 256))
def test_two_models_of_that_width_are_not_accused(width):
    assert compared(model(width, 3), model(width, 4)).verdict.related is False
