"""Ways in which the deep stage once accused strangers: each stays fixed.

Models here are random numbers with a design in common (repeated layers, near-identity matrices, dead units):
whatever they share, it is no weight.
"""

import json

import numpy as np
import pytest

import modelkin as mk
from modelkin.source import MemorySource
from modelkin.testing import LlamaShape, llama_config, llama_tensors, safetensors_bytes

WIDTH = 64
TOKENS = np.random.default_rng(5).normal(size=(400, WIDTH)).astype(np.float32)


def random_model(seed, change=None, *, layers=4, mlp=128, embeddings=None):
    """Return a model of random numbers; `change` takes a tensor's name, the tensor, a generator and all."""
    shape = LlamaShape(layers=layers, hidden=WIDTH, mlp=mlp, heads=4, kv_heads=2, vocab=len(TOKENS))
    tensors = llama_tensors(shape, seed=seed)
    if embeddings is not None:
        tensors["model.embed_tokens.weight"] = embeddings
    rng = np.random.default_rng([seed, 7])
    if change is not None:
        tensors = {
            name: np.asarray(change(name, value, rng, tensors), np.float32) for name, value in tensors.items()
        }
    return MemorySource(
        {
            "config.json": json.dumps(llama_config(shape)).encode(),
            "model.safetensors": safetensors_bytes(tensors),
        },
        name=f"random-{seed}",
    )


def same_geometry(seed):
    """Return embeddings as strangers have them who read the same text: alike but for a rotation."""
    rng = np.random.default_rng([seed, 11])
    noisy = TOKENS + 0.3 * rng.normal(size=TOKENS.shape)
    return (noisy @ np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]).astype(np.float32)


def deep(candidate, base, controls=()):
    return mk.compare(
        candidate=candidate, base=base, controls=controls, options=mk.CompareOptions(depth="deep")
    )


def layer_of(name):
    parts = name.split(".", 3)
    return (int(parts[2]), parts[3]) if name.startswith("model.layers.") else None


def repeating(period):
    def change(name, value, rng, tensors):
        place = layer_of(name)
        return value if place is None else tensors[f"model.layers.{place[0] % period}.{place[1]}"]

    return change


@pytest.mark.parametrize("period", [1, 3])
def test_a_map_learned_from_units_is_not_tested_on_copies_of_these_units(period):
    """Grown or weight-shared models: an odd layer is an even one again, so a map of one fits the other."""
    result = deep(
        random_model(1, repeating(period), layers=12), random_model(2, repeating(period), layers=12)
    )
    learned = [frame for frame in result.alignment.frames if "MLP units" in frame.learned_from]
    assert [frame.kind for frame in learned] == ["rotation"]  # the trap is there
    assert learned[0].fit > 0.1
    assert not result.verdict.related
